"""Checkpoints taken out of a thread, with all that no other checkpoint has.

`Store.scrub` then removes the bytes. What copies and forks of a thread share with it, they keep.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial

from langgraph.checkpoint.serde.base import SerializerProtocol

from eventlog.adapters.langgraph.stored import BLOB, DELTAS, Stored, key_of, root_of
from eventlog.adapters.langgraph.thread import Thread
from eventlog.adapters.unshared import alone, erase_held
from eventlog.errors import NotFoundError
from eventlog.history.catalog import entry_of
from eventlog.history.relatives import heirs_of
from eventlog.records.feed import Feed
from eventlog.session.session import Session

__all__ = ["erase", "keep_latest", "remove_inner", "remove_run"]

Place = tuple[str, str]
"""Namespace and id of a checkpoint."""
Choose = Callable[[dict[Place, Stored]], set[Place]]


def keep_latest(thread: Thread, *, wait: float) -> None:
    """Remove all but the newest checkpoint of each namespace and what its channels need."""
    _remove_others(thread, lambda places: _latest(places, thread.serde), wait)


def remove_run(thread: Thread, run: str, *, wait: float) -> None:
    """Remove the checkpoints of a run; with the last one the thread is erased."""

    def others(places: dict[Place, Stored]) -> set[Place]:
        return {place for place, stored in places.items() if run_of(stored, thread.serde) != run}

    if thread.session.values.revision(key_of("r", run)):
        _remove_others(thread, others, wait)


def remove_inner(thread: Thread, root: str, *, wait: float) -> None:
    """Remove what subgraphs stored before their root graph's checkpoint, which was refused."""

    def others(places: dict[Place, Stored]) -> set[Place]:
        loads = thread.serde.loads_typed
        return {place for place, stored in places.items() if not place[0] or root_of(loads(stored.metadata)) != root}

    _remove_others(thread, others, wait)


def _latest(places: dict[Place, Stored], serde: SerializerProtocol) -> set[Place]:
    kept: set[Place] = set()
    for ns, id in dict(sorted(places)).items():
        newest = places[ns, id]
        kept.add((ns, id))
        for channel in serde.loads_typed(newest.metadata).get(DELTAS) or ():
            at: Stored | None = newest
            walked: set[str] = set()
            while at is not None and not at.has(channel) and at.id not in walked:
                walked.add(at.id)
                at = None if at.parent is None else places.get((ns, at.parent))
                kept |= set() if at is None else {(ns, at.id)}
    return kept


def erase(thread: Thread, *, wait: float) -> None:
    """Erase a thread's session; a copy keeps what it shares."""
    _alone(thread, partial(_erase, wait=wait), wait)


def _remove_others(thread: Thread, kept: Choose, wait: float) -> None:

    def remove(thread: Thread) -> None:
        found = thread.all()
        places = {(stored.ns, stored.id): stored for stored, _ in found}
        staying = kept(places)
        if places and not staying:
            _erase(thread, wait=wait)
        elif len(staying) < len(places):
            _remove(thread, places, staying, {(stored.ns, stored.id): at for stored, at in found})

    _alone(thread, remove, wait)


def _alone(thread: Thread, work: Callable[[Thread], None], wait: float) -> None:
    """Work while no other task writes to a thread, or copies it."""

    def locked() -> None:
        with thread.lock:
            work(thread)

    alone(thread.session, locked, wait=wait)


def _erase(thread: Thread, *, wait: float) -> None:
    if kin := _kin(thread.session):
        records = thread.list.feed.path(hidden=True)
        thread.list.feed.forget(_unused(thread, kin, records))
    erase_held(thread.session, wait=wait)


def _remove(thread: Thread, places: dict[Place, Stored], staying: set[Place], revisions: dict[Place, int]) -> None:
    feed, values = thread.list.feed, thread.session.values
    roots = sorted(place for place in staying if not place[0])
    newest_line = feed.path(revisions[roots[-1]]) if roots else []
    feed.add([], after=newest_line[-1] if newest_line else 0)  # the newest that stays is what is shown
    unused = _outside(feed, [revisions[place] for place in roots], feed.path(hidden=True))
    forgotten = _unused(thread, _kin(thread.session), unused)
    runs = {key_of("r", run_of(places[place], thread.serde)) for place in staying}
    wanted = {f"b/{data.decode()}" for place in staying for kind, data in places[place].values.values() if kind == BLOB}
    dropped = [key for key in values.keys("b/") if key not in wanted]
    dropped += [key for key in values.keys("r/") if key not in runs]
    for ns, id in places.keys() - staying:
        dropped += [key_of("c", ns, id), *values.keys(key_of("w", ns, id, ""))]
    before, newest = dict(sorted(places)), dict(sorted(staying))
    with thread.session.pipeline():
        feed.forget(forgotten)
        for key in dropped:
            values.drop(key)
        for ns, id in before.items():
            if ns not in newest:
                values.drop(key_of("h", ns))
            elif newest[ns] != id:
                values.put(key_of("h", ns), newest[ns])


def run_of(stored: Stored, serde: SerializerProtocol) -> str:
    """Return the run that made a checkpoint, "" if it does not say."""
    run = serde.loads_typed(stored.metadata).get("run_id")
    return run if isinstance(run, str) else ""


def _kin(session: Session) -> list[str]:
    """Return the other sessions that share a part of a session's history."""
    log, streams = session.store.log, [one.session for one in session.reader.ancestry()]
    above = [id for id in streams if (head := log.head(id)) is not None and not entry_of(head).erased]
    heirs = (heir for id in reversed(streams) for heir in heirs_of(log, id))
    return [id for id in dict.fromkeys((*above, *heirs)) if id != session.id]


def _unused(thread: Thread, kin: Iterable[str], records: list[int]) -> list[int]:
    """Return those of a thread's records that none of its kin needs."""
    streams = {one.session: one.last for one in thread.session.reader.ancestry()}
    for id in kin:
        with suppress(NotFoundError):  # erased meanwhile
            other = Thread(thread.session.store.session(id), thread.given)
            shared = max(min(one.last, streams.get(one.session, 0)) for one in other.session.reader.ancestry())
            end = bisect_right(records, shared)
            if end:
                versions = [at for stored, at in other.all() if not stored.ns]
                records = _outside(other.list.feed, [*versions, other.session.version], records[:end]) + records[end:]
    return records


def _outside(feed: Feed, versions: Iterable[int], records: list[int]) -> list[int]:
    """Return those of some records, ascending, that no list as of some versions has."""
    for at in sorted(versions, reverse=True):
        if not records:
            break
        path = feed.path(at)
        used = set(path[bisect_left(path, records[0]) :])
        records = [number for number in records if number not in used] if used else records
    return records
