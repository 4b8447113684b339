"""Compactions: the effect of their events, and the messages that they cover or give back.

Compactions of the program and of the provider. One that only its target can read (`Opaque` without
a text) counts in the state of that target alone (`Conversation.own`).
"""

from __future__ import annotations

from collections.abc import Iterable

from eventlog import events as ev
from projections.conversation.parts import Compaction, CompactionPart, Message, OpaqueBoundary, OpaquePart
from projections.conversation.state import Conversation
from projections.conversation.tool_events import Rule
from projections.replay.projection import NeedsReplay


def complete(state: Conversation, compaction: Compaction) -> None:
    """Let a compaction count: it hides what it covers, and is in force."""
    compaction.status = "completed"
    target = compaction.target
    if target is None:
        state.boundaries.clear()
    elif not target:  # no target is known to read it
        return
    else:
        place = state.messages[compaction.message].place
        state.boundaries[target] = OpaqueBoundary(compaction.part, compaction.message, place)
        if target != state.own:
            return
    state.in_force = compaction.part
    state.carry(compaction)
    _hide_covered(state, compaction)
    state.reshaped = True


def begin_provided(state: Conversation, message: Message, part: OpaquePart) -> None:
    """A reply has a compaction of the provider's, which counts once the model call has ended."""
    opaque = part.opaque
    state.compactions[part.id] = Compaction(
        part.id,
        message.id,
        status="started",
        summary=message.id,
        kept=opaque.kept,
        target=opaque.target if opaque.text is None else None,
        bound=message.seen_upto,
    )


def end_provided(state: Conversation, message: Message, *, failed: bool = False) -> None:
    """The model call that a reply has its compactions from has ended, or failed."""
    for compaction in provided_in(state, message.id):
        if compaction.status == "started" and failed:
            compaction.status = "failed"
        elif compaction.status == "started":
            asked, answered = state.users.values(), state.answered_place()
            pending = [found.id for found in asked if found.place > answered]
            due = [each.message for each in state.compactions.values() if each.status in {"requested", "started"}]
            waiting = min((state.where[part][0].place for part in state.asked), default=None)
            behind = [found.id for found in state.messages.values() if waiting is not None and found.place >= waiting]
            compaction.kept = tuple(dict.fromkeys((*compaction.kept, *pending, *due, *behind)))
            complete(state, compaction)


def provided_in(state: Conversation, message: str | None) -> list[Compaction]:
    """Return the compactions of the provider's that a reply has."""
    return [each for each in state.compactions.values() if each.is_provided and each.message == message]


def undo(state: Conversation, part: str) -> None:
    """Take a compaction out of force; what it alone covered is visible again.

    Raises `NeedsReplay` where the state has evicted that.
    """
    for target, boundary in list(state.boundaries.items()):
        if boundary.part == part:  # the target is shown what all are
            del state.boundaries[target]
    compaction = state.compactions.get(part)
    if compaction is None:
        return
    if compaction.status == "completed" and compaction.target is None:
        if not state.whole:
            raise NeedsReplay(part)
        free = [message for message in state.messages.values() if message.covered == part]
        for message in free:
            message.covered = None
        for other in state.compactions.values():  # those after it cover what it covered, too
            if (
                _counts(other)
                and not other.is_provided
                and _summarised_at(state, other) > _summarised_at(state, compaction)
            ):
                for message in covered_messages(state, other, free):
                    message.covered = message.covered or other.part
    compaction.status = "undone"
    if state.in_force == part and compaction.target is None:
        state.in_force = next((other.part for other in reversed(state.compactions.values()) if _counts(other)), None)
    state.reshaped = True


def covered_messages(state: Conversation, compaction: Compaction, messages: Iterable[Message]) -> list[Message]:
    """Return the messages that a completed compaction covers, also covered by others."""
    keep = {compaction.message, compaction.summary, *compaction.kept}
    bound = bound_of(state, compaction)
    return [
        message for message in messages if message.place <= bound and not message.waiting and message.id not in keep
    ]


# -- helpers -------------------------------------------------------------------------------------


def _counts(compaction: Compaction) -> bool:
    """Whether a compaction counts for all targets."""
    return compaction.status == "completed" and compaction.target is None


def _hide_covered(state: Conversation, compaction: Compaction) -> None:
    """Forget, or mark, every message that a completed compaction covers."""
    covered = covered_messages(state, compaction, state.messages.values())
    if state.whole:  # a provider's compaction stands in its reply, and marks no other message
        for message in () if compaction.is_provided else covered:
            message.covered = message.covered or compaction.part
        return
    for message in covered:
        state.forget(message)
    gone = {other.message for other in state.compactions.values() if other.message not in state.messages}
    for message in list(state.messages.values()):  # a summary goes with its question, wherever it stands
        if message.summary and message.reply_to in gone:
            state.forget(message)
    state.added.clear()  # who follows this state looks at all messages again
    state.compactions = {part: other for part, other in state.compactions.items() if other.message in state.messages}


def _summarised_at(state: Conversation, compaction: Compaction) -> int:
    """Return the version at which the summary began; it orders completed compactions."""
    summary = state.messages.get(compaction.summary or "")
    return summary.version if summary is not None else -1


def bound_of(state: Conversation, compaction: Compaction) -> int:
    """Return the version of the last covered message's start; an unknown tail is no tail."""
    if compaction.bound is not None:
        return compaction.bound
    tail = state.messages.get(compaction.tail or "")
    if tail is not None:
        return tail.place - 1
    through = state.messages.get(compaction.through or "")
    if through is not None:
        return through.place
    own = state.messages.get(compaction.message)
    return own.version - 1 if own is not None else -1


def _requested(state: Conversation, event: ev.CompactionRequested, _version: int, _time: int) -> None:
    state.compactions[event.part] = Compaction(event.part, event.message, event.auto, event.overflow)
    message = state.messages.get(event.message)
    if message is not None:
        state.add_part(message, CompactionPart(event.part))


def _started(state: Conversation, event: ev.CompactionStarted, _version: int, _time: int) -> None:
    compaction = state.compactions.get(event.part)
    if compaction is not None:
        compaction.status, compaction.through, compaction.tail = "started", event.through, event.tail
        compaction.kept = event.kept


def _completed(state: Conversation, event: ev.CompactionCompleted, _version: int, _time: int) -> None:
    compaction = state.compactions.get(event.part)
    if compaction is not None and compaction.message in state.messages:
        compaction.summary = event.summary
        complete(state, compaction)


def _failed(state: Conversation, event: ev.CompactionFailed, _version: int, _time: int) -> None:
    compaction = state.compactions.get(event.part)
    if compaction is not None:
        compaction.status, compaction.reason = "failed", event.reason
        compaction.summary = event.summary or compaction.summary
        state.reshaped = True


def _undone(state: Conversation, event: ev.CompactionUndone, _version: int, _time: int) -> None:
    undo(state, event.part)


def _used(state: Conversation, event: ev.UsageRecorded, _version: int, _time: int) -> None:
    for compaction in provided_in(state, event.message):
        part = state.where[compaction.part][1]
        if isinstance(part, OpaquePart) and part.tokens is None:
            part.tokens = event.usage.tokens.output
            state.mark_changed(compaction.message, part.id)


COMPACTION_RULES: dict[type[ev.Base], Rule] = {
    ev.CompactionRequested: _requested,
    ev.CompactionStarted: _started,
    ev.CompactionCompleted: _completed,
    ev.CompactionFailed: _failed,
    ev.CompactionUndone: _undone,
    ev.UsageRecorded: _used,
}
"""Rules by the type of the event."""
