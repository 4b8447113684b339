"""Checkpoints taken out of a thread, with all that no other checkpoint has.

`Store.scrub` then removes the bytes. What copies and forks of a thread share with it, they keep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from eventlog.adapters.langgraph.rejoined import Place, Rejoined, kin_of, outside, run_of, unused
from eventlog.adapters.langgraph.stored import BLOB, DELTAS, Since, Stored, encode, key_of, root_of
from eventlog.adapters.langgraph.thread import Thread
from eventlog.adapters.unshared import alone, erase_held

Choose = Callable[[dict[Place, Stored]], set[Place]]


def keep_latest(thread: Thread, *, wait: float) -> None:
    """Remove all but the newest checkpoint of each namespace and what its channels need."""
    _remove_others(thread, partial(_latest, thread), wait)


def remove_run(thread: Thread, run: str, *, wait: float) -> None:
    """Remove the checkpoints of a run; with the last one the thread is erased."""

    def others(places: dict[Place, Stored]) -> set[Place]:
        return {place for place, stored in places.items() if run_of(stored, thread.serde) != run}

    if thread.session.values.revision(key_of("r", run)):
        _remove_others(thread, others, wait, run)


def remove_inner(thread: Thread, root: str, *, wait: float) -> None:
    """Remove what subgraphs stored before their root graph's checkpoint, which was refused."""

    def others(places: dict[Place, Stored]) -> set[Place]:
        loads = thread.serde.loads_typed
        return {place for place, stored in places.items() if not place[0] or root_of(loads(stored.metadata)) != root}

    _remove_others(thread, others, wait)


def _latest(thread: Thread, places: dict[Place, Stored]) -> set[Place]:
    kept: set[Place] = set()
    for ns, id in dict(sorted(places)).items():
        newest = places[ns, id]
        kept.add((ns, id))
        for channel in thread.serde.loads_typed(newest.metadata).get(DELTAS) or ():
            at: Stored | None = newest
            walked: set[str] = set()
            while at is not None and not at.has(channel) and at.id not in walked:
                walked.add(at.id)
                at = thread.before(at)[0]
                kept |= set() if at is None else {(ns, at.id)}
    return kept


def _pruned(
    thread: Thread, places: dict[Place, Stored], staying: set[Place], revisions: dict[Place, int]
) -> Iterator[tuple[str, bytes | None]]:
    """Yield values to put: which list was before the run of a checkpoint whose parent goes."""
    for place in sorted(staying):
        one, walked = places[place], {place[1]}
        before, run = thread.before(one)[0], run_of(one, thread.serde)
        if not run or before is None or (before.ns, before.id) in staying:
            continue
        while before is not None and before.id not in walked and run_of(before, thread.serde) == run:
            walked.add(before.id)
            one, before = before, thread.before(before)[0]
        at = thread.since(one.ns, one.id).pruned if before is None else revisions[before.ns, before.id]
        if at:
            yield key_of("s", *place), encode(Since(None, [], at))


def erase(thread: Thread, *, wait: float) -> None:
    """Erase a thread's session; a copy keeps what it shares."""
    _alone(thread, partial(_erase, wait=wait), wait)


def _remove_others(thread: Thread, kept: Choose, wait: float, run: str = "") -> None:

    def remove(thread: Thread) -> None:
        found = thread.all()
        places = {(stored.ns, stored.id): stored for stored, _ in found}
        staying = kept(places)
        revisions = {(stored.ns, stored.id): at for stored, at in found}
        rejoined = Rejoined(thread, run, places, staying, revisions) if run else None
        if places and not staying:
            _erase(thread, wait=wait)
        elif len(staying) < len(places) or (rejoined is not None and rejoined.kept):
            _remove(thread, places, staying, revisions, rejoined)

    _alone(thread, remove, wait)


def _alone(thread: Thread, work: Callable[[Thread], None], wait: float) -> None:
    """Work while no other task writes to a thread, or copies it."""

    def locked() -> None:
        with thread.lock:
            work(thread)

    alone(thread.session, locked, wait=wait)


def _erase(thread: Thread, *, wait: float) -> None:
    if kin := kin_of(thread.session):
        records = thread.list.feed.path(hidden=True)
        thread.list.feed.forget(unused(thread, kin, records))
    erase_held(thread.session, wait=wait)


def _remove(
    thread: Thread,
    places: dict[Place, Stored],
    staying: set[Place],
    revisions: dict[Place, int],
    rejoined: Rejoined | None,
) -> None:
    feed, values = thread.list.feed, thread.session.values
    roots = sorted(place for place in staying if not place[0])
    if rejoined is None:
        forgotten, changed = [], [*_pruned(thread, places, staying, revisions)]
    else:
        forgotten, changed = rejoined.relist(), [*rejoined.values()]
    hidden = set(forgotten)
    newest_line = [number for number in feed.path(revisions[roots[-1]]) if number not in hidden] if roots else []
    feed.add([], after=newest_line[-1] if newest_line else 0)  # the newest that stays is what is shown
    spare = outside(feed, [revisions[place] for place in roots], feed.path(hidden=True))
    forgotten += unused(thread, kin_of(thread.session), spare)
    runs = {key_of("r", run_of(places[place], thread.serde)) for place in staying}
    wanted = {f"b/{data.decode()}" for place in staying for kind, data in places[place].values.values() if kind == BLOB}
    dropped = [key for key in values.keys("b/") if key not in wanted]
    dropped += [key for key in values.keys("r/") if key not in runs]
    for ns, id in places.keys() - staying:
        dropped += [key_of("c", ns, id), *values.keys(key_of("w", ns, id, ""))]
        dropped += [since] if values.revision(since := key_of("s", ns, id)) else []
    before, newest = dict(sorted(places)), dict(sorted(staying))
    with thread.session.pipeline():
        for key, value in changed:
            if value is None:
                values.drop(key)
            else:
                values.put(key, value)
        thread.list.forget(forgotten)
        for key in dropped:
            values.drop(key)
        for ns, id in before.items():
            if ns not in newest:
                values.drop(key_of("h", ns))
            elif newest[ns] != id:
                values.put(key_of("h", ns), newest[ns])
