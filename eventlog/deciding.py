"""Decisions over items: whether a session's state takes them, one after the other, and what becomes of runs of deltas.

Pure but for the state they are given, which takes the items in as it goes.  Which event may follow is `admission.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from eventlog import events as ev
from eventlog.admission import LEASE_FREE, admit
from eventlog.codec import Item, validate
from eventlog.deltas import DeltaRun, Key
from eventlog.errors import CallError, EventlogError, RefusedError
from eventlog.evolution import evolve
from eventlog.state import State

MAX_TIME = 1 << 53
"""Times are UTC milliseconds on this side of it, or as long before 1970."""

__all__ = ["decide", "needs_no_lease", "still_admitted"]


def decide(state: State, items: Sequence[tuple[int, ev.Event]]) -> list[Item]:
    """Return the items with their deltas as runs, all taken in; raises, and takes none in, if one may not follow."""
    for time, event in items:
        if type(time) is not int or not -MAX_TIME < time < MAX_TIME:
            raise CallError(f"the time of a {type(event).__name__} is not in whole milliseconds")
        if not _is_event(event):
            raise CallError(f"a {type(event).__name__} is no event")
    validate([event for _, event in items])
    before = state.version
    decided: list[Item] = []
    try:
        deltas: list[tuple[int, ev.PartDelta]] = []
        for time, event in items:
            if isinstance(event, ev.PartDelta):
                deltas.append((time, event))
                continue
            if deltas:
                decided.append(_decide_deltas(state, deltas))
                deltas = []
            admit(state, event)
            evolve(state, event)
            decided.append((time, event))
        if deltas:
            decided.append(_decide_deltas(state, deltas))
    except BaseException:
        state.retract(before)
        raise
    return decided


def _is_event(thing: object) -> bool:
    return isinstance(thing, ev.Base)


def _decide_deltas(state: State, deltas: list[tuple[int, ev.PartDelta]]) -> DeltaRun:
    flat: list[object] = []
    known: set[Key] = set()
    for time, delta in deltas:
        key = (delta.part, delta.field)
        if key not in known:
            admit(state, delta)
            known.add(key)
        flat.extend((key, delta.text, time))
    state.skip(len(deltas))
    return DeltaRun.from_flat(flat)


def still_admitted(state: State, run: DeltaRun) -> tuple[DeltaRun | None, EventlogError | None]:
    """The deltas of a run whose parts take them, and why others were left out.  Takes nothing in."""
    refused: set[Key] = set()
    reason: EventlogError | None = None
    for part, field in run.keys:
        try:
            admit(state, ev.PartDelta(part, field, ""))
        except EventlogError as error:
            refused.add((part, field))
            reason = reason or error
    return (run.without(refused) if refused else run), reason


def needs_no_lease(events: Sequence[ev.Event], session: str) -> None:
    """Refuse what only the lease holder may do: nothing else would stop it from mixing with what another holder does."""
    users = {event.message for event in events if isinstance(event, ev.UserMessageAdded)}
    for event in events:
        if not isinstance(event, LEASE_FREE) and not (isinstance(event, ev.PartStarted) and event.message in users):
            raise RefusedError(f"{type(event).__name__} without the lease", expected="the lease", session=session)
