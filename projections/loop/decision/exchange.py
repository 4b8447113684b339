"""The newest question of a conversation, the answers to it, and the messages that wait.

Each look begins at the newest message, so it costs the same however long the view is.
"""

from __future__ import annotations

from collections.abc import Iterator

from projections.conversation.parts import Message
from projections.conversation.state import Conversation


def newest_question(state: Conversation) -> Message | None:
    """The newest message of the view that is a user's, or the program's in a user's name."""
    said = reversed(state.users.values())
    return next((message for message in said if not (message.removed or message.is_marker)), None)


def answers(state: Conversation) -> Iterator[Message]:
    """Yield the answers of the view, newest first, without summaries."""
    return filter(_is_answer, reversed(state.messages.values()))


def turn_answers(state: Conversation) -> Iterator[Message]:
    """Yield the answers since the user last said something, newest first."""
    for message in reversed(state.messages.values()):
        if _is_answer(message):
            yield message
        elif message.user and not (message.synthetic or message.removed or message.waiting or message.is_marker):
            return


def open_answer(state: Conversation) -> Message | None:
    """The newest answer that is not finished."""
    open_ones = (message for message in reversed(state.unsettled.values()) if message.finished is None)
    return next(filter(_is_answer, open_ones), None)


def queued_message(state: Conversation) -> Message | None:
    """The oldest message that is queued."""
    return next((message for message in state.unsettled.values() if message.waiting and not message.removed), None)


def _is_answer(message: Message) -> bool:
    return not (message.user or message.summary or message.removed)
