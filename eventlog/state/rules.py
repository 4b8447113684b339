"""Which event may follow: the state machines of messages, parts, steps and compactions.

Not here: taking a committed event in (`evolve.py`), and what a session holds (`state.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from eventlog import events as ev
from eventlog.errors import AlreadyExistsError, CallError, LimitError, NotFoundError, RefusedError
from eventlog.errors.base import brief
from eventlog.ids import MAX_ID_BYTES, check_id, check_key
from eventlog.state.facts import CODE_MASK, CODES, MessageFacts, PartFacts
from eventlog.state.state import State
from eventlog.state.waiting_calls import asked, call_answered, call_asked, in_state, tool_failed, tool_running
from eventlog.validation import require
from eventlog.values import Opaque, Reasoning, Tool

MAX_NOTE_BYTES = 1024
"""Longest note of a session, in bytes of UTF-8."""

_OVER = ("completed", "failed", "interrupted")
"""States of a call that has ended; after "interrupted" a late result may follow."""
_PRUNED = ("tool", "reasoning", "file")
"""Kinds of parts of which a prune clears something beside arguments."""

_OF_MEDIA = (CODES["replaced"], CODES["returned"])
_COST_DIGITS = 300
"""Digits of a cost, less one: more than money has, and few enough for a float."""


def check(state: State, event: ev.Event) -> None:
    """Raise a `CallError` that says what was expected unless the event may follow now."""
    rule = RULES.get(type(event))
    if state.erased or rule is not _begins:
        _require_begun(state, type(event))
    if rule is not None:
        rule(state, event)


def check_deltas(state: State, part: str, field: str) -> None:
    """Raise unless the state allows deltas of this part."""
    _require_begun(state, ev.PartDelta)
    _takes_deltas(state, part, field)


def _require_begun(state: State, kind: type[ev.Base]) -> None:
    if state.erased:
        raise RefusedError("the session was erased", expected="another session")
    if not state.started:
        raise RefusedError(f"{kind.__name__} cannot come here", expected="the session's first event")


def _begins(state: State, event: ev.SessionStarted | ev.SessionForked | ev.ShelfStarted) -> None:
    if state.started:
        raise RefusedError(f"{type(event).__name__} cannot come here", expected="any other event")


def _open_message(state: State, message: str) -> MessageFacts:
    facts = state.message(message)
    _require_open(state, message, facts)
    return facts


def _require_open(state: State, message: str, facts: MessageFacts) -> None:
    if facts.user:
        raise RefusedError(f"message {brief(message)} is a user message", expected="an assistant message")
    if message not in state.open_messages():
        raise RefusedError(f"message {brief(message)} is finished", expected="an open message")


def _new_message(state: State, event: ev.UserMessageAdded | ev.AssistantMessageStarted) -> None:
    message = event.message
    if not (message.isascii() and 0 < len(message) <= MAX_ID_BYTES):
        check_id("message", message)
    if state.has_message(message):
        raise AlreadyExistsError("message", message)


def _new_reply(state: State, event: ev.AssistantMessageStarted) -> None:
    _new_message(state, event)
    if event.seen is not None and event.seen < 0:
        raise CallError(f"AssistantMessageStarted.seen is a version, at least 0, not {event.seen}")


def _new_part(state: State, part: str) -> None:
    if not (part.isascii() and 0 < len(part) <= MAX_ID_BYTES):
        check_id("part", part)
    if state.has_part(part):
        raise AlreadyExistsError("part", part)


def _finished(state: State, event: ev.MessageFinished) -> None:
    facts = _open_message(state, event.message)
    for part, other in facts.parts.items():
        status = state.status(other)
        if status in {"open", "pending", "running"} and state.history.holds(other.added):
            raise RefusedError(f"part {brief(part)} is {status}", expected="parts that are ended")


def _message_removed(state: State, event: ev.MessageRemoved) -> None:
    state.message(event.message)
    if event.message in state.open_messages():
        raise RefusedError(f"message {brief(event.message)} is open", expected="a finished message")


def _promoted(state: State, event: ev.MessagePromoted) -> None:
    facts = state.message(event.message)
    if state.now(facts.changes) == "waiting":
        return
    behind = max(state.users.recent[-1][0], state.messages[state.last_message].added) if facts.user else 0
    if state.place(facts) >= behind:
        raise RefusedError(
            f"message {brief(event.message)} does not wait",
            expected="a queued message that waits, or one before others",
        )


def _part_started(state: State, event: ev.PartStarted) -> None:
    _new_part(state, event.part)
    facts = state.message(event.message)
    if facts.user:
        if event.message != state.last_message:
            raise RefusedError(
                f"user message {brief(event.message)} is complete", expected="its parts in the append that adds it"
            )
        if isinstance(event.kind, (Tool, Reasoning, Opaque)):
            name = type(event.kind).__name__.lower()
            raise RefusedError(f"a user message has no {name} part", expected="another kind of part")
        return
    _require_open(state, event.message, facts)
    if isinstance(event.kind, Tool):
        for other in facts.parts.values():
            if other.kind == "tool" and other.call == event.kind.call and state.is_there(other):
                raise AlreadyExistsError("call", event.kind.call)


def _takes_deltas(state: State, part: str, field: str) -> None:
    if field == "text":
        in_state(state, part, ("text", "reasoning"), ("open",))
    elif field == "input":
        in_state(state, part, ("tool",), ("pending",))
    elif field == "output":
        in_state(state, part, ("tool",), ("running",))
    else:
        raise RefusedError(f"field {brief(field)}", expected='"text", "input" or "output"')


def _edited(state: State, event: ev.PartEdited) -> None:
    facts = state.part(event.part)
    if facts.kind == "tool":
        in_state(state, event.part, ("tool",), ("completed",))
    else:
        in_state(state, event.part, ("text", "ignored", "reasoning"), ("ended",))


def _part_removed(state: State, event: ev.PartRemoved) -> None:
    status = state.status(state.part(event.part))
    if status in {"open", "pending", "running", "started", "asked", "allowed"}:
        raise RefusedError(f"part {brief(event.part)} is {status}", expected="a part that is ended")


def _step(state: State, event: ev.StepStarted | ev.StepFinished) -> None:
    _new_part(state, event.part)
    facts = _open_message(state, event.message)
    if isinstance(event, ev.StepFinished) and state.now(facts.steps) != "started":
        raise RefusedError(f"message {brief(event.message)} has no open step", expected="a step that was started")


def _usage(state: State, event: ev.UsageRecorded) -> None:
    if event.usage.cost is not None:  # a float that is a decimal by chance would be read back as one
        cost = event.usage.cost
        require(Decimal, cost, "UsageRecorded.usage.cost is of type Decimal or None")
        if cost and cost.adjusted() > _COST_DIGITS:  # the sum of some has to be a number, too
            raise CallError(f"UsageRecorded.usage.cost has {cost.adjusted() + 1} digits, at most {_COST_DIGITS + 1}")
    elif event.catalogue:
        raise CallError("UsageRecorded.catalogue is given without a cost; it is the date of the prices of a cost")
    if event.message is not None and not state.has_message(event.message):
        raise NotFoundError("message", event.message)


def _pruned(state: State, event: ev.Pruned | ev.Restored) -> None:
    restores = isinstance(event, ev.Restored)
    is_wrong, expected = ("not pruned", "pruned") if restores else ("pruned already", "not pruned")
    for part in event.parts:
        if state.is_pruned(in_state(state, part, _PRUNED, (*_OVER, "ended"))) != restores:
            raise RefusedError(f"part {brief(part)} is {is_wrong}", expected=f"a part that is {expected}")
    for part in event.arguments:
        if state.is_pruned(in_state(state, part, ("tool",), _OVER), arguments=True) != restores:
            raise RefusedError(
                f"the arguments of part {brief(part)} are {is_wrong}", expected=f"arguments that are {expected}"
            )


def _media_restored(state: State, event: ev.MediaRestored) -> None:
    facts = _with_media(state, event.part)
    replaced = [change for change in facts.edits if change & CODE_MASK in _OF_MEDIA]
    if state.now(tuple(replaced)) != "replaced":
        raise RefusedError(f"no media of part {brief(event.part)} are replaced", expected="a part with replaced media")


def _with_media(state: State, part: str) -> PartFacts:
    facts = state.part(part)
    if facts.kind not in {"file", "tool"}:
        raise RefusedError(f"part {brief(part)} is a {facts.kind} part", expected="a file part, or a tool part")
    return facts


def _requested(state: State, event: ev.CompactionRequested) -> None:
    _new_part(state, event.part)
    if not state.message(event.message).user:
        raise RefusedError(f"message {brief(event.message)} is not the user's", expected="a user message")
    if event.message != state.last_message:
        raise RefusedError(f"message {brief(event.message)} is not the last", expected="the last message")


def _compaction_started(state: State, event: ev.CompactionStarted) -> None:
    in_state(state, event.part, ("compaction",), ("requested", "failed"))
    running = state.running_compaction()
    if running is not None:
        raise RefusedError(f"compaction {brief(running)} is running", expected="one compaction at a time")
    for message in event.kept:
        state.message(message)
    if event.through is not None:
        bound = state.message(event.through).added
        for call in asked(state):
            if state.messages[state.parts[call].message].added <= bound:
                raise RefusedError(
                    f"call {brief(call)} waits for a person", expected="a covered set before its message"
                )
        for message in state.open_messages():
            if state.messages[message].added <= bound:
                raise RefusedError(f"message {brief(message)} is open", expected="a covered set of finished messages")


def _compaction_completed(state: State, event: ev.CompactionCompleted) -> None:
    in_state(state, event.part, ("compaction",), ("started",))
    if state.message(event.summary).user:
        raise RefusedError(f"message {brief(event.summary)} is the user's", expected="the summary message")


def _undone(state: State, event: ev.CompactionUndone) -> None:
    in_state(state, event.part, ("compaction",), ("completed",))
    latest = state.compaction_in_force()
    if latest is not None and latest[0] != event.part:
        raise RefusedError(f"compaction {brief(latest[0])} came later", expected="the latest compaction first")


def _rollback(state: State, event: ev.RolledBack) -> None:
    if not 1 <= event.to <= state.version:
        raise NotFoundError("version", str(event.to))


def _pinned(state: State, event: ev.Pinned) -> None:
    if check_id("pin", event.pin) in state.pins:
        raise AlreadyExistsError("pin", event.pin)
    if (event.text is None) == (event.part is None):
        raise RefusedError("a pin of neither or both", expected="a text or a part")
    if event.part is not None:
        state.part(event.part)


def _unpinned(state: State, event: ev.Unpinned) -> None:
    pin = state.pins.get(event.pin)
    if pin is None or not state.history.holds(pin.added) or state.now(pin.changes) == "unpinned":
        raise NotFoundError("pin", event.pin)


def _value_put(_state: State, event: ev.ValuePut) -> None:
    check_key(event.key)
    if event.text is not None and event.data is not None:
        raise RefusedError("a value of text and data", expected="one of them, or neither for a freed value")


def _note(_state: State, event: ev.NoteSet) -> None:
    size = len(event.note.encode("utf-8", "surrogatepass"))
    if size > MAX_NOTE_BYTES:
        raise LimitError("bytes of a note", size, MAX_NOTE_BYTES)


def _record_kept(state: State, event: ev.RecordKept) -> None:
    if not 0 <= event.events <= state.version:
        raise RefusedError(f"a record of {event.events} events", expected="no more events than there are")


def _record_forgotten(state: State, event: ev.RecordForgotten) -> None:
    before = 0
    for first, last in event.ranges:
        if not before < first <= last <= state.version:
            raise RefusedError("ranges of versions that do not ascend", expected="versions of the session, ascending")
        before = last


def _redacted(state: State, event: ev.PartRedacted) -> None:
    if not state.has_part(event.part):
        raise NotFoundError("part", event.part)


RULES: dict[type, Callable[[State, Any], object]] = {
    ev.SessionStarted: _begins,
    ev.SessionForked: _begins,
    ev.ShelfStarted: _begins,
    ev.UserMessageAdded: _new_message,
    ev.AssistantMessageStarted: _new_reply,
    ev.MessageFinished: _finished,
    ev.MessageRemoved: _message_removed,
    ev.MessagePromoted: _promoted,
    ev.PartStarted: _part_started,
    ev.PartDelta: lambda state, event: _takes_deltas(state, event.part, event.field),
    ev.PartEnded: lambda state, event: in_state(state, event.part, ("text", "reasoning"), ("open",)),
    ev.PartEdited: _edited,
    ev.PartRemoved: _part_removed,
    ev.ToolRunning: tool_running,
    ev.CallAsked: call_asked,
    ev.CallAnswered: call_answered,
    ev.ToolProgress: lambda state, event: in_state(state, event.part, ("tool",), ("running",)),
    ev.ToolCompleted: lambda state, event: in_state(state, event.part, ("tool",), ("running", "interrupted")),
    ev.ToolFailed: tool_failed,
    ev.StepStarted: _step,
    ev.StepFinished: _step,
    ev.UsageRecorded: _usage,
    ev.Pruned: _pruned,
    ev.Restored: _pruned,
    ev.MediaReplaced: lambda state, event: _with_media(state, event.part),
    ev.MediaRestored: _media_restored,
    ev.CompactionRequested: _requested,
    ev.CompactionStarted: _compaction_started,
    ev.CompactionCompleted: _compaction_completed,
    ev.CompactionFailed: lambda state, event: in_state(state, event.part, ("compaction",), ("requested", "started")),
    ev.CompactionUndone: _undone,
    ev.RolledBack: _rollback,
    ev.Pinned: _pinned,
    ev.Unpinned: _unpinned,
    ev.PartRedacted: _redacted,
    ev.ValuePut: _value_put,
    ev.NoteSet: _note,
    ev.ValueDropped: lambda _, event: check_key(event.key),
    ev.RecordKept: _record_kept,
    ev.RecordForgotten: _record_forgotten,
}
"""Rule of each kind of event; a kind without one may always follow."""
