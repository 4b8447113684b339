"""Choose the images and documents to name instead of sending, after a refused request.

First those that the refusal names, else those that break the model's rules, else those of the
newest message that has any; the second time all.  After a refusal for its size, those of a question
whose turn has begun.  Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from eventlog.values import Media, MessageError
from projections.conversation.parts import FilePart, ToolPart
from projections.requests.anthropic import anthropic_request
from projections.requests.files import data_of, too_much
from projections.requests.openai import chat_messages
from projections.requests.servers import ANTHROPIC
from projections.view.neutral import File
from projections.view.part_rendering import is_replaced
from projections.window.compaction.selection import kept_turn

if TYPE_CHECKING:
    from eventlog.values import Content
    from projections.loop.decision.situation import Situation

__all__ = ["MOST_REQUESTS", "media_of_question", "media_to_replace"]

MOST_REQUESTS = 2
"""Requests that are made again, each with fewer media."""

_PATH = re.compile(r"messages(?:\.(\d+)|\[(\d+)\])\.content(?:\.(\d+)|\[(\d+)\])(?:\.content(?:\.(\d+)|\[(\d+)\]))?")
_KINDS = ("image/", "audio/", "video/", "application/pdf")


class _Shown(NamedTuple):
    """A file that the view sends, and the message that it is in."""

    message: str
    media: Media
    url: Content


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
    """Return the media to name after a refusal for size: those of a question with steps.

    The question stays in front of its steps, and is not replayed with its media named. () without
    automatic compaction, and where the policy replays.
    """
    policy = now.policy.compaction
    if not (now.policy.overflow.auto and policy.replay):
        return ()
    place = kept_turn(now.messages, policy)
    if place is None:
        return ()
    return tuple(dict.fromkeys(one.media for one in _shown(now) if one.message == now.messages[place].id))


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
