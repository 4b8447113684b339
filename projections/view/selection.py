"""The messages of the view, and their order.

Pure functions of a conversation's state.
"""

from __future__ import annotations

from projections.conversation.carryover import Carryover
from projections.conversation.parts import CompactionPart, Message
from projections.conversation.state import Conversation
from projections.view.options import RenderOptions


def compaction_of(state: Conversation, message: Message) -> str | None:
    """The compaction (its part) whose marker or summary this message is, or None."""
    if message.user:
        for part in message.parts:
            if isinstance(part, CompactionPart) and not part.removed:
                return part.id
        return None
    if not message.summary:
        return None
    for compaction in state.compactions.values():
        if message.id == compaction.summary or message.reply_to == compaction.message:
            return compaction.part
    return None


def is_hidden(state: Conversation, message: Message, options: RenderOptions) -> bool:
    """Whether a message that is not covered is left out of the view all the same."""
    if message.removed or message.covered is not None or (message.delivery == "queue" and message.waiting):
        return True
    if not state.compactions:
        return False
    compaction = compaction_of(state, message)
    if compaction is None:  # of a marker whose compaction was removed nothing is left
        return message.is_marker and _only_marks(message)
    if options.show_all_compactions and state.compactions[compaction].status != "undone":
        return False
    if compaction == state.in_force:  # an earlier attempt's summary, broken off by a crash, says nothing
        return not message.user and message.id != state.compactions[compaction].summary
    return not message.user or _only_marks(message)


def _only_marks(message: Message) -> bool:
    """Whether a message has nothing but compactions and removed parts."""
    return all(isinstance(part, CompactionPart) or part.removed for part in message.parts)


def shows_question(state: Conversation, message: Message, options: RenderOptions) -> bool:
    """Whether the compaction part of a user message is to be seen."""
    if not state.compactions:
        return False
    for part in message.parts:
        if isinstance(part, CompactionPart):
            if part.id == state.in_force:
                return True
            compaction = state.compactions.get(part.id)
            return options.show_all_compactions and compaction is not None and compaction.status != "undone"
    return False


def carryover_of(state: Conversation, message: Message) -> Carryover | None:
    """Return the carryover shown with this message, if it is the summary in force."""
    compaction = state.compaction_in_force
    return compaction.carried if compaction is not None and compaction.summary == message.id else None


def boundary_of(state: Conversation, message: Message) -> str | None:
    """Return the part of a reply with the provider's compaction in force, or None."""
    compaction = state.compaction_in_force
    is_here = compaction is not None and compaction.is_provided and compaction.message == message.id
    return state.in_force if is_here else None


def visible_messages(state: Conversation, options: RenderOptions) -> list[Message]:
    """Return the view's messages in order: marker and summary in force, then the others."""
    shown = [message for message in state.messages.values() if not is_hidden(state, message, options)]
    if options.order_by_seen:
        shown = _by_seen(shown)
    compaction = state.compaction_in_force
    if compaction is None or compaction.is_provided:
        return shown
    marker = state.messages.get(compaction.message)
    summary = state.messages.get(compaction.summary or "")
    if marker is None or summary is None:
        return shown
    if options.show_all_compactions:
        first = [message for message in shown if marker.version <= message.place <= summary.version]
    else:
        first = [message for message in (marker, summary) if not message.removed]
    leading = {message.id for message in first}
    return first + [message for message in shown if message.id not in leading]


def _by_seen(shown: list[Message]) -> list[Message]:
    """Return messages with each of a user behind the replies that had not seen it.

    It stands right before the first reply that has. What is no answer, such as a summary, is passed
    by no message.
    """
    ordered: list[Message] = []
    late: list[Message] = []
    """Messages of users that no reply so far has seen, the oldest first."""
    for message in shown:
        if message.user and not message.is_marker:
            late.append(message)
            continue
        if late:
            is_answer = not (message.user or message.summary)
            seen = sum(not is_answer or message.has_seen(asked.place) for asked in late)
            ordered += late[:seen]
            del late[:seen]
        ordered.append(message)
    return ordered + late
