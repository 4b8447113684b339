"""A turn that a provider refused: whether the loop asks again, and what helps.

Pure. A sentence names actions of the user, any one of which is enough for the next question to be
answered.
"""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import takewhile
from typing import TYPE_CHECKING

from eventlog.session.failure import NOT_BEFORE
from eventlog.streams.refusals import OPAQUE, RATE
from projections.conversation.parts import OpaquePart, ReasoningPart, TextPart, ToolPart
from projections.loop.decision.exchange import turn_answers
from projections.loop.decision.full_window import BY_HAND
from projections.loop.decision.loop_state import number_in, refusing
from projections.loop.decision.steps import Blocked

if TYPE_CHECKING:
    from eventlog.values import MessageError
    from projections.loop.decision.loop_state import LatestAnswer
    from projections.loop.decision.situation import Situation

__all__ = ["asks_without_state", "helps_after", "too_early"]

TOO_LARGE = 413
RETRY = "`turn.retry()` begins it again"
_HELPS = {
    "billing": f"raise the limit or add credit at the provider, or take another model; then {RETRY}",
    "auth": f"give the client a key that may use this model, or take another model; then {RETRY}",
    "unknown-model": f"take another model, `ContextWindow(session, model=…)`; then {RETRY}",
    "transient": RETRY,
}
_REQUEST = frozenset({"api", "media", "content-filter", OPAQUE})
"""Kinds of refusals for the content of the request."""
_REFUSED = frozenset({400, 404, 413, 415, 422})


def asks_without_state(now: Situation, last: LatestAnswer) -> bool:
    """Whether the model is asked again without its own state, which it refused.

    Once, and only if the refused request had such state.
    """
    if last.error is None or last.error.name != OPAQUE:
        return False
    refused = refusing(now.loop.targets, now.options.asked)
    if refused.state_from != last.place:
        return refused.state_from > last.place
    answers = list(turn_answers(now.state))
    times = len([*takewhile(lambda answer: answer.error is not None and answer.error.name == OPAQUE, answers)])
    return times <= 1 and _had_state(now, refused.state_before, refused.state_from)


def too_early(now: Situation) -> Blocked | None:
    """Return the step that ends the loop, if the model's provider asked to wait for longer."""
    until = refusing(now.loop.targets, now.options.asked).not_before
    if until <= now.time:
        return None
    why = f"the provider limits the rate of requests; ask again after {_told(until)}, or take another model"
    return Blocked("rate", why)


def helps_after(error: MessageError, question: str, status: int | None) -> str:
    """Return what helps after a refusal other than for the size; "" if asking again does.

    `question` is the message that asked, `status` that of the refusal.
    """
    if error.name == RATE:
        smaller = f"; if the request is over all that a minute allows, {BY_HAND}" if status == TOO_LARGE else ""
        return f"after {_told(number_in(error, NOT_BEFORE) or 0)}, or with another model, {RETRY}{smaller}"
    if error.name in _REQUEST and (error.name != "api" or status in _REFUSED):
        out = f"take the question out, `session.rollback(before={question!r})`, and ask in another way"
        return f"{out}, or take another model; then {RETRY}" if error.name != "content-filter" else f"{out}; {RETRY}"
    return _HELPS.get(error.name, "")


def _had_state(now: Situation, after: int, before: int) -> bool:
    """Whether replies between two places have state of their provider's own."""
    replies = [message for message in now.messages if not message.user and after <= message.place < before]
    parts = [part for message in replies for part in message.parts]
    return any(
        isinstance(part, OpaquePart)
        or (isinstance(part, (TextPart, ReasoningPart, ToolPart)) and part.metadata is not None)
        for part in parts
    )


def _told(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
