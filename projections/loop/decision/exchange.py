"""The newest question of a conversation, the answers to it, and the messages that wait.

Each look begins at the newest message, so it costs the same however long the view is.
"""

from __future__ import annotations

from collections.abc import Iterator

from projections.conversation.parts import Message
from projections.conversation.state import Conversation
from projections.loop.decision.loop_state import LatestAnswer
from projections.view.message_rendering import render_user_message
from projections.view.neutral import Text
from projections.view.options import RenderOptions


def newest_question(state: Conversation) -> Message | None:
    """The newest message of the view that is a user's, or the program's in a user's name.

    One with nothing that a model can see is no question.
    """
    said = reversed(state.users.values())
    return next((one for one in said if not (one.removed or one.is_marker) and asks(one)), None)


def asks(message: Message) -> bool:
    """Whether a user message shows a model anything: a file, or a text with words."""
    shown = render_user_message(message, RenderOptions(), lambda text: text if type(text) is str else "a large text")
    return any(not isinstance(part, Text) or bool(part.text.strip()) for one in shown for part in one.parts)


def answers(state: Conversation) -> Iterator[Message]:
    """Yield the answers of the view, newest first, without summaries."""
    return filter(_is_answer, reversed(state.messages.values()))


def newest_answer(state: Conversation, asked: Message | None) -> Message | None:
    """The newest answer; one to a question that is gone counts until `asked` is answered."""
    newest = next(answers(state), None)
    own = None if newest is None else state.messages.get(newest.reply_to or "")
    if asked is None or own is None or own is asked or (asks(own) and not own.removed):
        return newest
    place = asked.place
    done = (one for one in answers(state) if one.ends_turn and not one.error and one.has_seen(place))
    return next(done, newest)


def answer_of(message: Message) -> LatestAnswer:
    """The answer that a message is."""
    return LatestAnswer(
        message.id, message.place, message.reply_to, message.calls, message.reason, message.error, message.seen
    )


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
    waiting = (one for one in state.unsettled.values() if one.waiting and not one.removed)
    return next(filter(asks, waiting), None)


def _is_answer(message: Message) -> bool:
    return not (message.user or message.summary or message.removed)
