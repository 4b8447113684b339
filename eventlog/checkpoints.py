"""Checkpoints: derived state at a version of a session, kept in the log's derived values.

Disposable: any number of them may be deleted without changing a result.  A checkpoint is used only if its checksum, its
kind and its format fit; otherwise the one before it is tried, and at last there is none.  What is in it is the business of whoever
saves it: command state (`appender.py`) and projections.

Key: `c`, kind, 0, 16 bytes of SHA-256 of the session id, version (8 bytes).  Value: CRC-32 of key and rest, rest.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import TypeVar
from zlib import crc32

from eventlog.errors import EventlogError
from eventlog.log.base import Log

__all__ = ["load", "save", "versions"]

KEPT = 2
"""Checkpoints kept of each kind and session: the newest, and one to fall back to."""

T = TypeVar("T")


def _prefix(kind: str, session: str) -> bytes:
    name = sha256(session.encode("utf-8", "surrogatepass")).digest()[:16]
    return b"c" + kind.encode() + b"\0" + name


def versions(log: Log, kind: str, session: str) -> list[int]:
    """The versions checkpoints of this kind are at, ascending."""
    return [int.from_bytes(key[-8:], "big") for key, _ in log.scan_derived(_prefix(kind, session))]


def load(
    log: Log,
    kind: str,
    session: str,
    upto: int,
    decode: Callable[[bytes], T],
    *,
    usable: Callable[[int], bool] | None = None,
) -> tuple[int, T] | None:
    """Return the newest valid checkpoint at a version of at most `upto` that `usable` accepts, with its version.

    `decode` may refuse one with ValueError or an `EventlogError`; then the one before is tried.
    """
    for key, value in reversed(log.scan_derived(_prefix(kind, session))):
        version = int.from_bytes(key[-8:], "big")
        if version > upto or (usable is not None and not usable(version)):
            continue
        if len(value) < 4 or int.from_bytes(value[:4], "big") != crc32(value[4:], crc32(key)):
            continue
        try:
            return version, decode(value[4:])
        except (ValueError, EventlogError):
            continue
    return None


def save(log: Log, kind: str, session: str, version: int, state: bytes, *, kept: int = KEPT) -> None:
    """Keep a checkpoint; all but the newest `kept` are deleted."""
    prefix = _prefix(kind, session)
    key = prefix + version.to_bytes(8, "big")
    old = [other for other, _ in log.scan_derived(prefix) if other != key]
    items: list[tuple[bytes, bytes | None]] = [(key, crc32(state, crc32(key)).to_bytes(4, "big") + state)]
    items += [(other, None) for other in sorted(old)[: max(len(old) + 1 - kept, 0)]]
    log.put_derived(items)
