"""The effect of each event on a conversation, total over the closed union of events.

`state.py` has the state.  Events about evicted messages do nothing: they cannot change what the
state still holds.
"""

from __future__ import annotations

from eventlog import events as ev
from eventlog.codec.batch import Batch, Entry
from eventlog.codec.deltas import DeltaRun
from eventlog.errors import UnknownEventError
from eventlog.values import Patch
from projections.conversation import coverage
from projections.conversation.carryover import FileTouch, Pin
from projections.conversation.coverage import COMPACTION_RULES
from projections.conversation.new_part import PART_MAKERS
from projections.conversation.parts import (
    CompactionPart,
    FilePart,
    Message,
    OpaquePart,
    ReasoningPart,
    ReplacedMedia,
    StepPart,
    TextPart,
    ToolPart,
)
from projections.conversation.state import Conversation
from projections.conversation.text_pieces import empty, texts_of
from projections.conversation.tool_events import TOOL_RULES, Rule


def apply(state: Conversation, event: ev.Event, version: int, time: int) -> Conversation:
    """Apply one event; raises `UnknownEventError` for an unknown kind."""
    RULES.get(type(event), _unknown)(state, event, version, time)
    if state.redacted:
        _empty_again(state, event)
    return state


def apply_batch(state: Conversation, batch: Batch, version: int) -> tuple[Conversation, int]:
    """Apply the events of an append, up to one that reshapes the history before it.

    Returns the state and the next version.
    """
    rules, start = RULES, batch.time
    for entry in batch.entries:
        if type(entry) is Entry:
            event = entry.event
            rule = rules.get(type(event), _unknown)
            if rule is _rolled_back:
                break
            rule(state, event, version, start + entry.after)
            if state.redacted:
                _empty_again(state, event)
            version += 1
        elif type(entry) is DeltaRun:
            state.apply_run(entry)
            version += entry.count
    return state, version


def _empty_again(state: Conversation, event: ev.Event) -> None:
    """Take out what an event added to a part that was redacted before."""
    part = getattr(event, "part", None)
    if part in state.redacted and (found := state.where.get(part)) is not None:
        empty(found[1])


def _nothing(state: Conversation, event: ev.Event, version: int, time: int) -> None:
    """An event that is none of the conversation's business."""


def _unknown(_state: Conversation, event: ev.Event, version: int, _time: int) -> None:
    """Raise for an event of a kind that this program does not know."""
    raise UnknownEventError(f"an event of kind {type(event).__name__}", version=version)


def _rolled_back(state: Conversation, event: ev.RolledBack | ev.RecordForgotten, version: int, time: int) -> None:
    """The replay loop's own business."""


def _settings(state: Conversation, event: ev.SettingsSet, _version: int, _time: int) -> None:
    state.model = event.model or state.model
    state.limits = event.limits or state.limits
    state.policy = event.policy or state.policy


def _todos(state: Conversation, event: ev.TodosSet, _version: int, _time: int) -> None:
    state.todos = event.todos


def _pin(state: Conversation, event: ev.Pinned, _version: int, _time: int) -> None:
    found = state.where.get(event.part or "")
    pieces = texts_of(found[1]) if found is not None else () if event.text is None else (event.text,)
    state.pins[event.pin] = Pin(event.pin, event.part, pieces)


def _unpin(state: Conversation, event: ev.Unpinned, _version: int, _time: int) -> None:
    state.pins.pop(event.pin, None)


def _system(state: Conversation, event: ev.SystemPromptSet, _version: int, _time: int) -> None:
    state.header, state.rest = event.header, event.rest


def _tools(state: Conversation, event: ev.ToolsSet, _version: int, _time: int) -> None:
    state.tools = event.schemas


def _user(state: Conversation, event: ev.UserMessageAdded, version: int, time: int) -> None:
    state.add_message(
        Message(
            event.message,
            True,
            version,
            time,
            [],
            event.agent,
            event.model,
            event.variant,
            event.system,
            event.tools,
            event.format,
            event.synthetic,
            event.delivery,
            cause=event.cause,
        )
    )


def _promoted(state: Conversation, event: ev.MessagePromoted, version: int, _time: int) -> None:
    message = state.messages.get(event.message)
    if message is not None:
        state.promote(message, version)


def _assistant(state: Conversation, event: ev.AssistantMessageStarted, version: int, time: int) -> None:
    state.add_message(
        Message(
            event.message,
            False,
            version,
            time,
            [],
            event.agent,
            event.model,
            event.variant,
            reply_to=event.reply_to,
            mode=event.mode,
            summary=event.summary,
            seen=event.seen,
        )
    )
    if event.seen is not None and state.newest_place > event.seen and not event.summary:
        state.reshaped = True  # a question that it has not seen stands behind it


def _finished(state: Conversation, event: ev.MessageFinished, _version: int, time: int) -> None:
    message = state.messages.get(event.message)
    if message is not None:
        state.finish(message, time)
        message.reason, message.error = event.reason, event.error
        _end_call(state, message, failed=event.error is not None)


def _end_call(state: Conversation, message: Message, *, failed: bool) -> None:
    """A model call of a reply has ended; one that failed leaves the view's target."""
    if not (message.summary or failed):
        state.target = message.asked
    if state.compactions:
        coverage.end_provided(state, message, failed=failed)


def _message_removed(state: Conversation, event: ev.MessageRemoved, _version: int, _time: int) -> None:
    for boundary in [*state.boundaries.values()]:
        if boundary.message == event.message:
            coverage.undo(state, boundary.part)
    message = state.messages.get(event.message)
    if message is None:
        if event.message == state.heard[0]:
            state.heard = ("", 0)
        return
    for compaction in list(state.compactions.values()):
        if message.id in {compaction.message, compaction.summary}:
            coverage.undo(state, compaction.part)
    message.removed = True
    for part in message.parts:
        state.asked.pop(part.id, None)
    state.newest_user = None
    state.reshaped = True


def _part(state: Conversation, event: ev.PartStarted, _version: int, _time: int) -> None:
    kind = event.kind
    message = state.messages.get(event.message)
    if message is not None:
        part = PART_MAKERS[type(kind)](event.part, kind, message)
        state.add_part(message, part)
        if type(part) is OpaquePart:
            coverage.begin_provided(state, message, part)
    if type(kind) is Patch:
        state.add_touches(tuple([FileTouch("written", path, part=event.part) for path in kind.files]))


def _ended(state: Conversation, event: ev.PartEnded, _version: int, _time: int) -> None:
    found = state.where.get(event.part)
    if found is None:
        return
    message, part = found
    if type(part) is TextPart or type(part) is ReasoningPart:
        part.ended = True
        if event.metadata is not None:
            part.metadata = event.metadata
        state.mark_changed(message.id, event.part)


def _edited(state: Conversation, event: ev.PartEdited, _version: int, _time: int) -> None:
    found = state.where.get(event.part)
    if found is None:
        return
    message, part = found
    if isinstance(part, (TextPart, ReasoningPart)):
        part.pieces = [event.text] if event.text else []
        if isinstance(part, ReasoningPart):
            part.metadata = None  # signature, cipher and id vouch for the text as it was
    elif isinstance(part, ToolPart):
        part.output, part.full = event.text, None
    state.mark_changed(message.id, event.part)


def _part_removed(state: Conversation, event: ev.PartRemoved, _version: int, _time: int) -> None:
    found = state.where.get(event.part)
    if found is None or isinstance(found[1], (CompactionPart, OpaquePart)):
        coverage.undo(state, event.part)
    if found is not None:
        found[1].removed = True
        state.asked.pop(event.part, None)
        state.mark_changed(found[0].id, event.part)


def _redacted(state: Conversation, event: ev.PartRedacted, _version: int, _time: int) -> None:
    found = state.where.get(event.part)
    if any(boundary.part == event.part for boundary in state.boundaries.values()):
        coverage.undo(state, event.part)  # its target is shown the messages again
    if found is not None and not found[1].redacted:
        found[1].redacted = True
        empty(found[1])
        state.redacted.add(event.part)
        state.mark_changed(found[0].id, event.part)
    carried = [compaction.carried for compaction in state.compactions.values() if compaction.carried is not None]
    for pin in (*state.pins.values(), *(pin for found in carried for pin in found.pins)):
        if pin.part == event.part and not pin.redacted:
            pin.redacted, pin.pieces, state.reshaped = True, (), True
    state.touches = {key: touch for key, touch in state.touches.items() if touch.part != event.part}
    for one in carried:
        if any(touch.part == event.part for touch in one.touches):
            one.touches = tuple(touch for touch in one.touches if touch.part != event.part)
            state.reshaped = True


def _step_started(state: Conversation, event: ev.StepStarted, _version: int, _time: int) -> None:
    message = state.messages.get(event.message)
    if message is not None:
        message.target = event.target
        state.add_part(message, StepPart(event.part, snapshot=event.snapshot))


def _step_finished(state: Conversation, event: ev.StepFinished, _version: int, _time: int) -> None:
    message = state.messages.get(event.message)
    if message is not None:
        part = StepPart(event.part, begins=False, reason=event.reason, snapshot=event.snapshot)
        state.add_part(message, part)
        _end_call(state, message, failed=False)


def _media_replaced(state: Conversation, event: ev.MediaReplaced, _version: int, _time: int) -> None:
    message, part = state.where.get(event.part, (None, None))
    if message is not None and isinstance(part, (FilePart, ToolPart)):
        one = ReplacedMedia(event.mime, event.name, event.target)
        part.replaced = (*(other for other in part.replaced if other != one), one)
        state.mark_changed(message.id, event.part)


def _media_restored(state: Conversation, event: ev.MediaRestored, _version: int, _time: int) -> None:
    message, part = state.where.get(event.part, (None, None))
    if message is not None and isinstance(part, (FilePart, ToolPart)):
        part.replaced = tuple(one for one in part.replaced if event.target and one.target != event.target)
        state.mark_changed(message.id, event.part)


RULES: dict[type[ev.Base], Rule] = {
    **TOOL_RULES,
    **COMPACTION_RULES,
    ev.SessionStarted: _nothing,
    ev.SessionRenamed: _nothing,
    ev.SessionArchived: _nothing,
    ev.SessionUnarchived: _nothing,
    ev.MetadataSet: _nothing,
    ev.SettingsSet: _settings,
    ev.SystemPromptSet: _system,
    ev.ToolsSet: _tools,
    ev.TodosSet: _todos,
    ev.Pinned: _pin,
    ev.Unpinned: _unpin,
    ev.UserMessageAdded: _user,
    ev.MessagePromoted: _promoted,
    ev.AssistantMessageStarted: _assistant,
    ev.MessageFinished: _finished,
    ev.MessageRemoved: _message_removed,
    ev.PartStarted: _part,
    ev.PartDelta: Conversation.append_delta,
    ev.PartEnded: _ended,
    ev.PartEdited: _edited,
    ev.PartRemoved: _part_removed,
    ev.StepStarted: _step_started,
    ev.StepFinished: _step_finished,
    ev.MediaReplaced: _media_replaced,
    ev.MediaRestored: _media_restored,
    ev.RolledBack: _rolled_back,
    ev.InterruptRequested: _nothing,
    ev.Settled: _nothing,
    ev.PartRedacted: _redacted,
    ev.SessionErased: _nothing,
    ev.ForeignKept: _nothing,
    ev.Custom: _nothing,
    ev.ShelfStarted: _nothing,
    ev.ValuePut: _nothing,
    ev.ValueDropped: _nothing,
    ev.NameGiven: _nothing,
    ev.NameFreed: _nothing,
    ev.NoteSet: _nothing,
    ev.RecordKept: _nothing,
    ev.RecordForgotten: _rolled_back,
}
"""The rule of each kind of event."""
