"""The sessions that a loop was running or should run, and the state of each in a list.

What is known of a store is kept as a derived value: the positions up to which it was read, and the
sessions with open work then. The next call reads what was committed since, so it costs that and
what it lists; the first call of a store looks at every session. The value is disposable: without
it, or if it is damaged, the next call is a first one.

A list asks for the sessions that it shows. Those that were written to since a process last looked
at them are read, the others not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from operator import le
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from eventlog.history.catalog import SessionInfo, SessionState, info_of
from eventlog.history.derived import store as store_rows
from eventlog.session.status import is_run, work_of

if TYPE_CHECKING:
    from eventlog.log.commit import Head
    from eventlog.log.contract import Log
    from eventlog.session.open_work_cache import Work
    from eventlog.session.session import Sessions

__all__ = ["KEY", "state_of", "unfinished"]

KEY = b"unfinished\0\x03"
"""Key of the derived value; its last byte is the version of its meaning."""
CHECKSUM = 16
NEAR = 10_000
"""Events since the last call up to which their commits are read, rather than every head."""


class Known(msgspec.Struct, frozen=True, array_like=True):
    """The sessions with open work when the partitions were at these positions."""

    positions: tuple[int, ...] = ()
    sessions: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    """The sessions in which only a person's answers were left to do."""


_DECODER = msgspec.msgpack.Decoder(Known)


def unfinished(store: Sessions) -> list[SessionInfo]:
    """Return the unfinished sessions in the order of their ids; see `Store.unfinished`."""
    log = store.log
    known = _known(log)
    positions = log.last_positions()
    touched = {*_touched(log, known.positions or (0,) * len(positions), positions)}
    work: dict[str, Work] = {name: "asked" for name in known.asked if name not in touched}
    for name in sorted({*known.sessions, *touched}):
        head = log.head(name)
        if head is not None and (found := work_of(store.registry, head)):
            work[name] = found
    store.host.open_work.learn(positions, work)
    open_now = sorted(name for name, found in work.items() if found == "open")
    now = Known(positions, tuple(open_now), tuple(sorted(name for name, found in work.items() if found == "asked")))
    if now != known:
        data = msgspec.msgpack.encode(now)
        store_rows(log, [(KEY, _checksum(data) + data)])
    heads = [head for name in open_now if (head := log.head(name)) is not None]
    return [replace(info_of(head), state="unfinished") for head in heads if not is_run(store.registry, head)]


def state_of(store: Sessions, head: Head, info: SessionInfo) -> SessionState:
    """Return the state of a session in a list; see `SessionState`."""
    if is_run(store.registry, head):
        return "running"
    if info.locked:
        return "unknown"
    work = work_of(store.registry, head)
    return "asked" if work == "asked" else "unfinished" if work else "waiting"


def _known(log: Log) -> Known:
    """Read the result of the last call: empty if it is gone, damaged, or of another log."""
    value = log.get_derived(KEY) or b""
    data = value[CHECKSUM:]
    if _checksum(data) != value[:CHECKSUM]:
        return Known()
    known = _DECODER.decode(data)
    positions = log.last_positions()
    return known if len(known.positions) == len(positions) and all(map(le, known.positions, positions)) else Known()


def _checksum(data: bytes) -> bytes:
    return blake2b(data, digest_size=CHECKSUM, key=KEY).digest()


def _touched(log: Log, after: Sequence[int], upto: Sequence[int]) -> Iterator[str]:
    """Yield the sessions with events behind these positions, some of them more than once."""
    if sum(upto) - sum(after) > NEAR:
        yield from (head.session for head in log.heads() if head.position > after[log.partition_of(head.session)])
        return
    for partition, position in enumerate(after):
        while commits := log.commits_after(position, 1_000, partition=partition):
            yield from (commit.session for commit in commits)
            position = commits[-1].last_position  # noqa: PLW2901 - where it goes on
