"""A turn that a provider refused: whether the loop asks again, and what helps.

Media to name instead of sending are first those that the refusal names, else those that break the
model's rules, else those of the newest message that has any; the second time all. After a refusal
for its size, they are those of a question whose turn has begun. A sentence names actions of the
user, any one of which is enough for the next question to be answered. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from eventlog.session.failure import NOT_BEFORE
from eventlog.streams.refusals import OPAQUE, RATE
from eventlog.values import Media, MessageError
from projections.conversation.parts import FilePart, OpaquePart, ReasoningPart, TextPart, ToolPart
from projections.loop.decision.exchange import turn_answers
from projections.loop.decision.full_window import BY_HAND
from projections.loop.decision.loop_state import number_in, refusing
from projections.loop.decision.steps import Blocked
from projections.requests.anthropic import anthropic_request
from projections.requests.files import data_of, too_much
from projections.requests.openai import chat_messages
from projections.requests.servers import ANTHROPIC
from projections.view.neutral import File
from projections.view.part_rendering import is_replaced
from projections.window.compaction.selection import kept_turn, summarisable

if TYPE_CHECKING:
    from eventlog.values import Content
    from projections.loop.decision.loop_state import LatestAnswer
    from projections.loop.decision.situation import Situation

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
MOST_REQUESTS = 2
"""Requests that are made again, each with fewer media."""

_PATH = re.compile(r"messages(?:\.(\d+)|\[(\d+)\])\.content(?:\.(\d+)|\[(\d+)\])(?:\.content(?:\.(\d+)|\[(\d+)\]))?")
_KINDS = ("image/", "audio/", "video/", "application/pdf")


class _Shown(NamedTuple):
    """A file that the view sends, and the message that it is in."""

    message: str
    media: Media
    url: Content


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


def media_to_replace(now: Situation, error: MessageError, times: int) -> tuple[Media, ...]:
    """Return the media to name after the refusal of this number `times`; () if none are left."""
    shown = list(_shown(now))
    if times > MOST_REQUESTS or not shown:
        return ()
    if times == 1:
        newest = [one for one in shown if one.message == shown[-1].message]
        shown = _named(now, shown, error.message) or _unruly(now, shown) or newest
    return tuple(dict.fromkeys(one.media for one in shown))


def media_of_question(now: Situation) -> tuple[Media, ...]:
    """Return the media to name after a refusal for size: those of a question that stays.

    Such a question is not replayed with its media named. () without automatic compaction, and where
    the policy replays.
    """
    policy = now.policy.compaction
    if not (now.policy.overflow.auto and policy.replay):
        return ()
    messages = summarisable(now.state, now.options, None)
    place = kept_turn(messages, policy)
    if place is None:
        return ()
    return tuple(dict.fromkeys(one.media for one in _shown(now) if one.message == messages[place].id))


# -- helpers -----------------------------------------------------------------------------------


def _shown(now: Situation) -> Iterator[_Shown]:
    for message in now.messages:
        for part in message.parts:
            if part.removed or part.redacted:
                continue
            files: Sequence[Any] = ()
            if isinstance(part, FilePart) and not part.pruned:
                files = (part.file,)
            elif isinstance(part, ToolPart) and part.status == "completed" and not part.pruned:
                files = part.attachments
            for file in files:
                sent = isinstance(part, (FilePart, ToolPart)) and not is_replaced(
                    part, file.mime, file.filename, now.options
                )
                if sent and file.mime.startswith(_KINDS):
                    yield _Shown(message.id, Media(part.id, file.mime, file.filename or ""), file.url)


def _named(now: Situation, shown: list[_Shown], refusal: str) -> list[_Shown]:
    """Those at the place in the request that a refusal names."""
    match = _PATH.search(refusal)
    if match is None:
        return []
    is_dotted = match[1] is not None
    view = now.view()
    try:
        found: Any = anthropic_request(view)["messages"] if is_dotted else chat_messages(view, now.system())
        found = found[int(match[1] or match[2])]["content"][int(match[3] or match[4])]
        if match[5] or match[6]:
            found = found["content"][int(match[5] or match[6])]
    except (LookupError, TypeError):
        return []
    sent = {text for text in _texts(found) if len(text) > len("image/jpeg")}
    return [one for one in shown if _is_sent(now.measure.text(one.url), sent)]


def _is_sent(url: str, sent: set[str]) -> bool:
    return url in sent or url.partition(",")[2] in sent or url.removeprefix("file:") in sent


def _texts(found: Any) -> Iterator[str]:
    """Every text in a block of a request."""
    if isinstance(found, str):
        yield found
    elif isinstance(found, dict):
        for value in cast("dict[str, Any]", found).values():
            yield from _texts(value)


def _unruly(now: Situation, shown: list[_Shown]) -> list[_Shown]:
    """Those over what Anthropic's models take: bytes, number, and pixels where many are sent."""
    model = now.options.model
    if model is None or ("claude" not in model.name and model.provider != "anthropic"):
        return []
    images = [one for one in shown if one.media.mime.startswith("image/")]
    data = [data_of(File(one.media.mime, now.measure.text(one.url))) for one in images]
    return [images[place] for place in too_much(data, ANTHROPIC)]


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
