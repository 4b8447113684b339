"""Decide whether a session's state allows events, one after the other, and apply them.

Pure but for the state, which changes event by event.  Which event may follow is `rules.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from eventlog import events as ev
from eventlog.codec.batch import KINDS, Item, validate
from eventlog.codec.deltas import DeltaRun, Key
from eventlog.codec.field_types import SOUND
from eventlog.errors import CallError, EventlogError, RefusedError
from eventlog.errors.base import brief
from eventlog.state.evolve import EVOLVE
from eventlog.state.rules import RULES, check, check_deltas
from eventlog.state.state import State
from eventlog.validation import a_kind

MAX_TIME = 1 << 53
"""Bound of times, in UTC milliseconds before or after 1970."""

_LEASE_FREE: frozenset[type[ev.Base]] = frozenset(
    (
        ev.SessionStarted,
        ev.SessionForked,
        ev.SessionRenamed,
        ev.SessionArchived,
        ev.SessionUnarchived,
        ev.MetadataSet,
        ev.UserMessageAdded,
        ev.Pinned,
        ev.Unpinned,
        ev.UsageRecorded,
        ev.InterruptRequested,
        ev.CallAnswered,
        ev.PartRedacted,
        ev.ForeignKept,
        ev.Custom,
        ev.ShelfStarted,
        ev.ValuePut,
        ev.ValueDropped,
        ev.NameGiven,
        ev.NameFreed,
        ev.NoteSet,
        ev.RecordForgotten,
    )
)
"""Events that a writer without the lease may append.

They do not depend on the lease holder's events, and the holder's do not depend on them.
`PartStarted` belongs to them if its message is the user's.
"""
_STEPS = {kind: (RULES.get(kind), EVOLVE.get(kind)) for kind in KINDS}
"""Rule and change of each kind of event.

Used instead of `check` and `evolve`: a call less for each event.
"""


def decide(state: State, items: Sequence[tuple[int, ev.Event]], *, decoded: bool = False) -> list[Item]:
    """Apply events to the state; return them with their deltas as runs.

    Raises, and applies none, if the state does not allow one of them. `decoded` events come from a
    decoder, so their fields are of their types.
    """
    before = state.version
    decided: list[Item] = []
    deltas: list[tuple[int, ev.PartDelta]] = []
    checked: object = None
    try:
        for item in items:
            try:
                time, event = item
            except (TypeError, ValueError):
                require_items([item])
                raise
            if time is not checked:  # the events of one command share theirs
                if type(time) is not int or not -MAX_TIME < time < MAX_TIME:
                    _require_time(time)
                checked = time
            kind = type(event)
            step = _STEPS.get(kind)
            if step is None:
                raise CallError(f"a {type(event).__name__} is no event")  # noqa: TRY301 - taken back below
            if not decoded and not SOUND[kind](event):
                validate(event)
            if type(event) is ev.PartDelta:
                deltas.append((time, event))
                continue
            if deltas:
                decided.append(_decide_deltas(state, deltas))
                deltas = []
            rule, change = step
            if type(event) is ev.AssistantMessageStarted and event.seen is not None:
                item = time, _on_path(state, event, event.seen)  # noqa: PLW2901 - of the history that there is now
                event = item[1]
            if state.erased or not state.started:
                check(state, event)
            elif rule is not None:
                rule(state, event)
            state.version += 1
            if change is not None:
                change(state, event)
            decided.append(item)
        if deltas:
            decided.append(_decide_deltas(state, deltas))
    except BaseException:
        state.retract(before)
        raise
    return decided


def _on_path(state: State, event: ev.AssistantMessageStarted, seen: int) -> ev.AssistantMessageStarted:
    """Return the first event of a reply that has seen the history as far as it is that of now."""
    upto = state.history.shared_with(min(seen, state.version))
    return event if upto == seen else replace(event, seen=upto)


def kinds_of(items: Sequence[tuple[int, ev.Event]]) -> list[type[ev.Event]]:
    """Return the types of events that come with their times; `CallError` for other items."""
    try:
        return [type(event) for _, event in items]
    except (TypeError, ValueError):
        require_items(items)
        raise


def require_items(items: Sequence[tuple[int, ev.Event]]) -> None:
    """Raise `CallError` for an item that is no event with a time, or has a wrong field."""
    for item in items:
        try:
            time, event = item
        except (TypeError, ValueError):
            raise CallError(f"an event comes with its time, as (milliseconds, event), not as {a_kind(item)}") from None
        _require_time(time)
        if type(event) not in _STEPS:
            raise CallError(f"a {type(event).__name__} is no event")
        validate(event)


def _require_time(time: object) -> None:
    if type(time) is not int or not -MAX_TIME < time < MAX_TIME:
        raise CallError(f"an event's time is whole milliseconds, less than {MAX_TIME} of them, not {brief(time)}")


def _decide_deltas(state: State, deltas: list[tuple[int, ev.PartDelta]]) -> DeltaRun:
    flat: list[object] = []
    allowed: set[Key] = set()
    for time, delta in deltas:
        key = (delta.part, delta.field)
        if key not in allowed:
            check_deltas(state, *key)
            allowed.add(key)
        flat.extend((key, delta.text, time))
    state.skip(len(deltas))
    return DeltaRun.from_flat(flat)


def allowed_deltas(state: State, run: DeltaRun) -> tuple[DeltaRun | None, EventlogError | None]:
    """Split a run: the deltas whose parts accept them, and why others are left out.

    The state does not change.
    """
    refused: list[Key] = []
    reason: EventlogError | None = None
    for key in run.keys:
        try:
            check_deltas(state, *key)
        except EventlogError as error:
            refused.append(key)
            reason = reason or error
    return (run.without(refused) if refused else run), reason


def needs_no_lease(items: Sequence[tuple[int, ev.Event]], session: str) -> None:
    """Raise `RefusedError` for events that need the lease, as the caller has none."""
    users: list[str] = []
    for _, event in items:
        if isinstance(event, ev.UserMessageAdded):
            users.append(event.message)
        elif type(event) not in _LEASE_FREE and not (isinstance(event, ev.PartStarted) and event.message in users):
            expected = "`with session.lease():` around the whole of it"
            raise RefusedError(f"{type(event).__name__} without the lease", expected=expected, session=session)
