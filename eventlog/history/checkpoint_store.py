"""Checkpoints: derived state at a version of a session, stored as derived values.

Disposable: any of them may be missing, damaged or deleted, and only time is lost. None is trusted
blindly: one with a wrong checksum is passed over for the one before it. The caller that saves it
knows its content: command state (`state/loader.py`) or a projection.

Key: `checkpoint`, 0, kind, 0, 16 bytes of BLAKE2b of the session id, version (8 bytes). Value: 16
bytes of BLAKE2b of the state, keyed with that of the key, then the state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b

from eventlog.log.contract import Log

PREFIX = b"checkpoint\0"
"""First bytes of the keys of all checkpoints."""
CHECKSUM = 16


def valid(log: Log, kind: str, session: str, upto: int) -> Iterator[tuple[int, bytes]]:
    """Yield the sound checkpoints of a kind at versions up to `upto`, newest first.

    Each comes with its version.
    """
    for version in reversed(versions(log, kind, session)):
        state = sound(log, kind, session, version) if 0 < version <= upto else None
        if state is not None:
            yield version, state


def sound(log: Log, kind: str, session: str, version: int) -> bytes | None:
    """Return the checkpoint of a kind at a version, None if there is no sound one."""
    key = key_of(kind, session, version)
    value = log.of(session).get_derived(key)
    if value is None:
        return None
    state = value[CHECKSUM:]
    return state if _checksum(key, state) == value[:CHECKSUM] else None


def versions(log: Log, kind: str, session: str) -> list[int]:
    """Return the versions that have a checkpoint of this kind, sound or not, ascending."""
    return [int.from_bytes(key[-8:], "big") for key in log.derived_keys(_prefix(kind, session))]


def save(
    log: Log,
    kind: str,
    session: str,
    version: int,
    state: bytes,
    *,
    surplus: Callable[[list[int]], Iterable[int]],
    beside: Iterable[tuple[str, int, bytes | None]] = (),
) -> None:
    """Store a checkpoint, and delete those at versions that `surplus` returns.

    `surplus` gets all versions with a checkpoint, ascending, the new one included. Rows `beside`
    the checkpoint have a kind, a number and bytes, or None to be deleted; all is stored at once.
    """
    stored = sorted({*versions(log, kind, session), version})
    rows = [(kind, version, state), *((kind, other, None) for other in surplus(stored) if other != version), *beside]
    log.of(session).put_derived([_stored(session, *row) for row in rows])


def rows(log: Log, kind: str, session: str) -> dict[int, bytes]:
    """Return all sound rows of a kind by their number."""
    found: dict[int, bytes] = {}
    for key, value in log.of(session).scan_derived(_prefix(kind, session)):
        data = value[CHECKSUM:]
        if _checksum(key, data) == value[:CHECKSUM]:
            found[int.from_bytes(key[-8:], "big")] = data
    return found


def stored_rows(kind: str, session: str, rows: Iterable[tuple[int, bytes]]) -> list[tuple[bytes, bytes | None]]:
    """Return rows of a kind, given by their number, as they are stored."""
    return [_stored(session, kind, number, data) for number, data in rows]


def newest(count: int) -> Callable[[list[int]], list[int]]:
    """Return a `surplus` that retains the newest `count` checkpoints."""
    return lambda stored: stored[:-count]


def forget(log: Log, kind: str, session: str) -> None:
    """Delete all checkpoints of this kind."""
    log.put_derived([(key, None) for key in log.derived_keys(_prefix(kind, session))])


def key_of(kind: str, session: str, version: int) -> bytes:
    """Return the key of the checkpoint of a kind at a version."""
    return _prefix(kind, session) + version.to_bytes(8, "big")


def name_in_keys(session: str) -> bytes:
    """Return the part of a checkpoint's key that names the session."""
    return blake2b(session.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _prefix(kind: str, session: str) -> bytes:
    return PREFIX + kind.encode() + b"\0" + name_in_keys(session)


def _stored(session: str, kind: str, number: int, state: bytes | None) -> tuple[bytes, bytes | None]:
    key = key_of(kind, session, number)
    return key, None if state is None else _checksum(key, state) + state


def _checksum(key: bytes, state: bytes) -> bytes:
    return blake2b(state, digest_size=CHECKSUM, key=blake2b(key, digest_size=32).digest()).digest()
