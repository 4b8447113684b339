"""How an event changes a session's state, once `rules.py` has allowed it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from eventlog import events as ev
from eventlog.history.effective_history import History
from eventlog.history.ranges import merged
from eventlog.state.facts import MessageFacts, PartFacts, PinFacts
from eventlog.state.state import State
from eventlog.state.waiting_calls import asked, waiting
from eventlog.values import File, Opaque, PartKind, Patch, Reasoning, Subtask, Text, Tool


def evolve(state: State, event: ev.Event) -> None:
    """Apply the next event of the session."""
    state.version += 1
    change = EVOLVE.get(type(event))
    if change is not None:
        change(state, event)


def _titled(state: State, _: object) -> None:
    state.add(state.titles.recent, ())


def _began(state: State, event: ev.SessionStarted | ev.SessionForked | ev.ShelfStarted) -> None:
    state.set("started", state.version)
    _titled(state, event)
    if isinstance(event, ev.SessionForked) and state.interrupt_pending():
        state.add(state.interrupts, "answered")
    if isinstance(event, ev.SessionForked) and (waits := waiting(state)):  # the parent's, not to run here as well
        for _, facts in waits:
            state.change(facts, "changes", "failed")
        _no_longer_asked(state, [part for part, _ in waits])


def _no_longer_asked(state: State, parts: Iterable[str]) -> None:
    """Note that these calls wait no more, if they did; nothing else is looked at."""
    calls = asked(state)
    gone = set(parts).intersection(calls)
    if gone:
        state.add(state.asks.recent, tuple(part for part in calls if part not in gone))


def _count(state: State, change: int) -> None:
    state.add(state.counts.recent, (str(state.counted + change),))


def _user(state: State, event: ev.UserMessageAdded) -> None:
    _count(state, 1)
    facts = MessageFacts(state.version, user=True, summary=False, parts={})
    state.insert_message(event.message, facts)
    if event.delivery == "queue":
        state.change(facts, "changes", "waiting")
        if not state.queued:
            state.set("queued", value=True)
    state.add(state.users.recent, (event.message,))


def _assistant(state: State, event: ev.AssistantMessageStarted) -> None:
    _count(state, 1)
    facts = MessageFacts(state.version, user=False, summary=event.summary, parts={}, seen=event.seen)
    state.insert_message(event.message, facts)
    state.add(state.opens.recent, (*state.open_messages(), event.message))


def _close_message(state: State, message: str) -> None:
    now = state.open_messages()
    state.add(state.opens.recent, () if now == (message,) else tuple(other for other in now if other != message))


def _finished(state: State, event: ev.MessageFinished) -> None:
    state.change(state.hot_messages.get(event.message) or state.messages[event.message], "changes", "finished")
    _close_message(state, event.message)
    if state.interrupt_pending():
        state.add(state.interrupts, "answered")


def _message_removed(state: State, event: ev.MessageRemoved) -> None:
    _count(state, -1)
    facts = state.messages[event.message]
    state.add(state.removals.recent, (str(facts.added),))
    state.hidden = None
    state.change(facts, "changes", "removed")
    if state.asks.recent:
        _no_longer_asked(state, facts.parts)


def _promoted(state: State, event: ev.MessagePromoted) -> None:
    state.change(state.messages[event.message], "changes", "promoted")
    state.add(state.users.recent, (event.message,))


_BIRTHS: dict[type[PartKind], tuple[str, str]] = {
    Text: ("text", "open"),
    Reasoning: ("reasoning", "open"),
    Tool: ("tool", "pending"),
    File: ("file", "ended"),
    Subtask: ("subtask", "ended"),
    Opaque: ("opaque", "ended"),
}
"""Name and first state of a part, by its kind.

Every other kind is complete at birth, and "other".
"""


def _part_started(state: State, event: ev.PartStarted) -> None:
    born = event.kind
    kind, first = _BIRTHS.get(type(born), ("other", "ended"))
    if type(born) is Text and (state.hot_messages.get(event.message) or state.messages[event.message]).user:
        kind, first = "ignored" if born.ignored else kind, "ended"
    call = born.call if isinstance(born, Tool) else ""
    state.insert_part(event.part, PartFacts(state.version, event.message, kind, call, first))
    if isinstance(born, Patch):
        state.add(state.files.recent, ())


def _changed(state: State, part: str, status: str, column: str = "changes") -> None:
    state.change(state.hot_parts.get(part) or state.parts[part], column, status)


def _over(state: State, part: str, status: str) -> None:
    """Note that a part is removed, or a call has its result."""
    _changed(state, part, status)
    if state.asks.recent:
        _no_longer_asked(state, (part,))


def _asked(state: State, event: ev.CallAsked) -> None:
    state.change(state.parts[event.part], "changes", "asked")
    calls = asked(state)
    if event.part not in calls:
        state.add(state.asks.recent, (*calls, event.part))


def _answered(state: State, event: ev.CallAnswered) -> None:
    is_allowed = event.verdict == "allow"
    state.change(state.parts[event.part], "changes", "allowed" if is_allowed else "failed")
    if not is_allowed:
        _no_longer_asked(state, (event.part,))


def _step(state: State, event: ev.StepStarted | ev.StepFinished) -> None:
    state.insert_part(event.part, PartFacts(state.version, event.message, "step", "", "ended"))
    begins = isinstance(event, ev.StepStarted)
    state.change(state.messages[event.message], "steps", "started" if begins else "finished")
    if event.snapshot:
        state.add(state.files.recent, ())


def _pruned(state: State, event: ev.Pruned | ev.Restored) -> None:
    status = "pruned" if isinstance(event, ev.Pruned) else "restored"
    for part in event.parts:
        _changed(state, part, status, "prunes")
    for part in event.arguments:
        _changed(state, part, f"arguments-{status}", "prunes")


def _requested(state: State, event: ev.CompactionRequested) -> None:
    state.insert_part(event.part, PartFacts(state.version, event.message, "compaction", "", "requested"))
    state.add(state.compactions, event.part, "requested")


def _compaction(state: State, part: str, status: str) -> None:
    _changed(state, part, status)
    state.add(state.compactions, part, status)


def _rolled_back(state: State, event: ev.RolledBack) -> None:
    state.history.roll_back(state.version, event.to)
    state.undo.append((state.version, History.cut, state.history, state.version - 1))
    state.hidden = None


def _pinned(state: State, event: ev.Pinned) -> None:
    state.insert(state.pins, event.pin, PinFacts(state.version))


def _settled(state: State, _event: ev.Settled) -> None:
    if state.interrupt_pending():
        state.add(state.interrupts, "answered")


def _record_forgotten(state: State, event: ev.RecordForgotten) -> None:
    state.set("forgotten", merged((*state.forgotten, *event.ranges)))
    state.hidden = None


EVOLVE: dict[type, Callable[[State, Any], None]] = {
    ev.SessionStarted: _began,
    ev.SessionForked: _began,
    ev.ShelfStarted: _began,
    ev.SessionRenamed: _titled,
    ev.UserMessageAdded: _user,
    ev.AssistantMessageStarted: _assistant,
    ev.MessageFinished: _finished,
    ev.MessageRemoved: _message_removed,
    ev.MessagePromoted: _promoted,
    ev.PartStarted: _part_started,
    ev.PartEnded: lambda state, event: _changed(state, event.part, "ended"),
    ev.PartEdited: lambda state, event: _changed(state, event.part, "edited", "edits"),
    ev.PartRedacted: lambda state, event: _changed(state, event.part, "redacted", "edits"),
    ev.PartRemoved: lambda state, event: _over(state, event.part, "removed"),
    ev.ToolRunning: lambda state, event: _changed(state, event.part, "running"),
    ev.ToolCompleted: lambda state, event: _over(state, event.part, "completed"),
    ev.ToolFailed: lambda state, event: _over(state, event.part, "interrupted" if event.interrupted else "failed"),
    ev.CallAsked: _asked,
    ev.CallAnswered: _answered,
    ev.ToolsSet: lambda state, _: state.add(state.tools.recent, ()),
    ev.StepStarted: _step,
    ev.StepFinished: _step,
    ev.Pruned: _pruned,
    ev.Restored: _pruned,
    ev.MediaReplaced: lambda state, event: _changed(state, event.part, "replaced", "edits"),
    ev.MediaRestored: lambda state, event: _changed(state, event.part, "returned", "edits"),
    ev.CompactionRequested: _requested,
    ev.CompactionStarted: lambda state, event: _compaction(state, event.part, "started"),
    ev.CompactionCompleted: lambda state, event: _compaction(state, event.part, "completed"),
    ev.CompactionFailed: lambda state, event: _compaction(state, event.part, "failed"),
    ev.CompactionUndone: lambda state, event: _compaction(state, event.part, "undone"),
    ev.RolledBack: _rolled_back,
    ev.Pinned: _pinned,
    ev.Unpinned: lambda state, event: state.change(state.pins[event.pin], "changes", "unpinned"),
    ev.InterruptRequested: lambda state, _: state.add(state.interrupts, "requested"),
    ev.Settled: _settled,
    ev.RecordForgotten: _record_forgotten,
    ev.SessionErased: lambda state, _: state.set("erased", value=True),
}

COUNTED: frozenset[type] = frozenset(
    (ev.UserMessageAdded, ev.AssistantMessageStarted, ev.MessageRemoved, ev.RolledBack, ev.RecordForgotten)
)
"""The events that change how many messages are visible."""
