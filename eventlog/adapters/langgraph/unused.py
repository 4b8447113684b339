"""Records of a thread that neither its checkpoints nor those of its kin need."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from contextlib import suppress

from eventlog.adapters.langgraph.thread import Thread
from eventlog.errors import NotFoundError
from eventlog.history.catalog import entry_of
from eventlog.history.relatives import heirs_of
from eventlog.records.feed import Feed
from eventlog.session.session import Session

__all__ = ["kin_of", "outside", "unused"]


def kin_of(session: Session) -> list[str]:
    """Return the other sessions that share a part of a session's history."""
    log, streams = session.store.log, [one.session for one in session.reader.ancestry()]
    above = [id for id in streams if (head := log.head(id)) is not None and not entry_of(head).erased]
    heirs = (heir for id in reversed(streams) for heir in heirs_of(log, id))
    return [id for id in dict.fromkeys((*above, *heirs)) if id != session.id]


def unused(thread: Thread, kin: Iterable[str], records: list[int]) -> list[int]:
    """Return those of a thread's records that none of its kin needs."""
    streams = {one.session: one.last for one in thread.session.reader.ancestry()}
    for id in kin:
        with suppress(NotFoundError):  # erased meanwhile
            other = Thread(thread.session.store.session(id), thread.given)
            shared = max(min(one.last, streams.get(one.session, 0)) for one in other.session.reader.ancestry())
            end = bisect_right(records, shared)
            if end:
                versions = [at for stored, at in other.all() if not stored.ns]
                records = outside(other.list.feed, [*versions, other.session.version], records[:end]) + records[end:]
    return records


def outside(feed: Feed, versions: Iterable[int], records: list[int]) -> list[int]:
    """Return those of some records, ascending, that no list as of some versions has."""
    for at in sorted(versions, reverse=True):
        if not records:
            break
        path = feed.path(at)
        used = set(path[bisect_left(path, records[0]) :])
        records = [number for number in records if number not in used] if used else records
    return records
