"""Checkpoints taken out of a thread, with all that no other checkpoint has.

`Store.scrub` then removes the bytes. What copies and forks of a thread share with it, they keep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from langgraph.checkpoint.serde.base import SerializerProtocol

from eventlog.adapters.langgraph.stored import BLOB, Stored, key_of
from eventlog.adapters.langgraph.thread import Thread
from eventlog.errors import NotFoundError
from eventlog.session.lease import Lease
from eventlog.session.session import Session, Sessions
from eventlog.store import Store

__all__ = ["erase", "keep_latest", "remove_run"]

Place = tuple[str, str]
"""Namespace and id of a checkpoint."""
Choose = Callable[[dict[Place, Stored]], set[Place]]


def keep_latest(store: Store, thread: Thread, *, wait: float) -> None:
    """Remove all but the newest checkpoint of each namespace and what its channels need."""
    _remove_others(store, thread, lambda places: _latest(places, thread.serde), wait)


def remove_run(store: Store, thread: Thread, run: str, *, wait: float) -> None:
    """Remove the checkpoints of a run; with the last one the thread is erased."""

    def others(places: dict[Place, Stored]) -> set[Place]:
        return {place for place, stored in places.items() if run_of(stored, thread.serde) != run}

    if thread.session.values.revision(key_of("r", run)):
        _remove_others(store, thread, others, wait)


def _latest(places: dict[Place, Stored], serde: SerializerProtocol) -> set[Place]:
    kept: set[Place] = set()
    for ns in {ns for ns, _ in places}:
        newest = places[ns, max(id for space, id in places if space == ns)]
        kept.add((ns, newest.id))
        for channel in serde.loads_typed(newest.metadata).get("counters_since_delta_snapshot") or ():
            at: Stored | None = newest
            walked: set[str] = set()
            while at is not None and not at.has(channel) and at.id not in walked:
                walked.add(at.id)
                at = None if at.parent is None else places.get((ns, at.parent))
                kept |= set() if at is None else {(ns, at.id)}
    return kept


def _remove_others(store: Store, thread: Thread, kept: Choose, wait: float) -> None:

    def under_lease(lease: Lease) -> bool:
        del lease
        found = thread.all()
        places = {(stored.ns, stored.id): stored for stored, _ in found}
        staying = kept(places)
        if len(staying) == len(places) or not staying:
            return not staying
        _remove(thread, places, staying, {(stored.ns, stored.id): at for stored, at in found})
        return False

    with thread.lock:
        is_empty = thread.session.executor.writing(under_lease, wait=wait)
    if is_empty:
        erase(store, thread, wait=wait)


def erase(store: Store, thread: Thread, *, wait: float) -> None:
    """Erase a thread's session; a copy keeps what it shares."""
    with suppress(NotFoundError):  # another task was first
        if (elsewhere := _used_elsewhere(thread)) is not None:
            thread.list.feed.forget(
                [number for number in thread.list.feed.path(hidden=True) if number not in elsewhere]
            )
        store.erase(thread.session.id, forks="keep", subsessions="cascade", wait=wait)


def _remove(thread: Thread, places: dict[Place, Stored], staying: set[Place], revisions: dict[Place, int]) -> None:
    feed, values = thread.list.feed, thread.session.values
    roots = sorted(place for place in staying if not place[0])
    lines = [feed.path(revisions[place]) for place in roots]
    feed.add([], after=lines[-1][-1] if lines and lines[-1] else 0)  # the newest that stays is what is shown
    used = {number for line in lines for number in line}
    elsewhere = _used_elsewhere(thread) or set()
    forgotten = [number for number in feed.path(hidden=True) if number not in used and number not in elsewhere]
    runs = {run_of(places[place], thread.serde) for place in staying}
    wanted = {f"b/{data.decode()}" for place in staying for kind, data in places[place].values.values() if kind == BLOB}
    dropped = [key for key in values.keys("b/") if key not in wanted]
    dropped += [key for key in values.keys("r/") if key not in {key_of("r", run) for run in runs}]
    for ns, id in places.keys() - staying:
        dropped += [key_of("c", ns, id), *values.keys(key_of("w", ns, id, ""))]
    newest = {ns: max((id for space, id in staying if space == ns), default="") for ns, _ in places}
    with thread.session.pipeline():
        feed.forget(forgotten)
        for key in dropped:
            values.drop(key)
        for ns, id in newest.items():
            if id:
                values.put(key_of("h", ns), id)
            else:
                values.drop(key_of("h", ns))


def run_of(stored: Stored, serde: SerializerProtocol) -> str:
    """Return the run that made a checkpoint, "" if it does not say."""
    run = serde.loads_typed(stored.metadata).get("run_id")
    return run if isinstance(run, str) else ""


def _used_elsewhere(thread: Thread) -> set[int] | None:
    """Return the thread's records that its copies and forks need; None if it has none."""
    streams = {one.session: one.last for one in thread.session.reader.ancestry()}
    used: set[int] | None = None
    for other in _kin(thread.session.store, thread.session.id, streams):
        if used is None:
            used = set()
        limit = max(min(one.last, streams.get(one.session, 0)) for one in other.reader.ancestry())
        kin = Thread(other, thread.serde)
        lines: Iterable[list[int]] = (kin.list.feed.path(at) for stored, at in kin.all() if not stored.ns)
        used.update(number for line in (*lines, kin.list.feed.path()) for number in line if number <= limit)
    return used


def _kin(store: Sessions, id: str, streams: dict[str, int]) -> Iterator[Session]:
    """Yield the other sessions that share a part of the history: forks, and the ones before."""
    for info in store.sessions():
        if info.id != id and (info.fork_of is not None or info.id in streams):
            other = store.session(info.id)
            if any(one.session in streams for one in other.reader.ancestry()):
                yield other
