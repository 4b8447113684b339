"""State of each session in a list, and the sessions that a loop was running or should run.

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

from eventlog.codec.payload import is_foreign
from eventlog.errors import KeyMissingError, NotFoundError
from eventlog.history.catalog import SessionInfo, SessionState, entry_of, info_of
from eventlog.history.derived import store as store_rows
from eventlog.session.open_work_cache import Work
from eventlog.session.outcome import open_work
from eventlog.session.owner import is_live

if TYPE_CHECKING:
    from eventlog.log.commit import Head
    from eventlog.log.contract import Log
    from eventlog.session.registry import SessionRegistry

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


def unfinished(registry: SessionRegistry) -> list[SessionInfo]:
    """Return the unfinished sessions in the order of their ids; see `Store.unfinished`."""
    log = registry.log
    known = _known(log)
    positions = log.last_positions()
    touched = {*_touched(log, known.positions or (0,) * len(positions), positions)}
    work: dict[str, Work] = {name: "asked" for name in known.asked if name not in touched}
    for name in sorted({*known.sessions, *touched}):
        head = log.head(name)
        if head is not None and (found := _work_of(registry, head)):
            work[name] = found
    registry.host.open_work.learn(positions, work)
    open_now = sorted(name for name, found in work.items() if found == "open")
    now = Known(positions, tuple(open_now), tuple(sorted(name for name, found in work.items() if found == "asked")))
    if now != known:
        data = msgspec.msgpack.encode(now)
        store_rows(log, [(KEY, _checksum(data) + data)])
    heads = [head for name in open_now if (head := log.head(name)) is not None]
    return [replace(info_of(head), state="unfinished") for head in heads if not is_run(registry, head)]


def state_of(registry: SessionRegistry, head: Head, info: SessionInfo) -> SessionState:
    """Return the state of a session in a list; see `SessionState`."""
    if is_run(registry, head):
        return "running"
    if info.locked:
        return "unknown"
    work = _work_of(registry, head)
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


def is_unfinished(registry: SessionRegistry, head: Head) -> bool:
    """Whether a loop that runs the session now has something to do."""
    return _work_of(registry, head) == "open"


def _work_of(registry: SessionRegistry, head: Head) -> Work:
    """Return what is left to do in the session with this head."""
    if is_foreign(head):
        return ""
    info = info_of(head)
    if info.erased or info.locked or not _is_native(head, info) or not (info.messages or info.fork_of):
        return ""
    if entry_of(head).answered == head.version:
        return ""
    known = registry.host.open_work.of(head, registry.log.partition_of(head.session))
    if known is not None:
        return known
    try:
        reader = registry.get(head.session).reader
        found = open_work(reader)
    except (NotFoundError, KeyMissingError):  # erased, or its key gone, meanwhile
        return ""
    if reader.version == head.version:
        registry.host.open_work.note(head, found)
    return found


def is_run(registry: SessionRegistry, head: Head) -> bool:
    """Return whether a task has the lease, also one that the log does not know of yet."""
    return is_live(head.session, head.lease, registry.host.clock()) or registry.runs(head.session)


def _is_native(head: Head, info: SessionInfo) -> bool:
    """Whether more was done here than to import the session, or to begin it as a fork."""
    if info.origin is not None:
        return head.lease.epoch > 0  # importers take no lease
    return info.fork_of is None or head.appends > 1
