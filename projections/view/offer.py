"""The offer of a request: the tools that the question allows, and the format it asks for.

The question is the newest message that a user wrote. Its `tools` switch recorded tools off by name;
a tool that it does not name is offered. Pure.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import msgspec

from eventlog.session.tool_functions import GROUPS
from eventlog.values import Content, Json
from projections.conversation.parts import Message, ToolPart
from projections.conversation.state import Conversation, is_from_user
from projections.view.part_rendering import Resolver


class Offer(NamedTuple):
    """The schemas of tools, and the output format, as JSON; None: none."""

    tools: Json | None
    format: Json | None


NOTHING_OFFERED = Offer(None, None)


class OfferReader:
    """The offer of a growing conversation; built again only when its sources change."""

    __slots__ = ("_offer", "_resolve", "_schemas", "_switches")

    def __init__(self, resolve: Resolver) -> None:
        self._resolve = resolve
        self._schemas: Content | None = None
        self._switches: Json | None = None
        self._offer = NOTHING_OFFERED

    def of(self, state: Conversation) -> Offer:
        """Return the offer now."""
        question = _question(state)
        switches, format_ = (None, None) if question is None else (question.tools, question.format)
        if state.tools is not self._schemas or switches != self._switches:
            schemas = None if state.tools is None else self._resolve(state.tools)
            self._offer = Offer(_allowed(schemas, switches), format_)
            self._schemas, self._switches = state.tools, switches
        elif format_ != self._offer.format:
            self._offer = Offer(self._offer.tools, format_)
        return self._offer


def offer_of(state: Conversation, resolve: Resolver) -> Offer:
    """Return the offer of a conversation now."""
    return OfferReader(resolve).of(state)


def is_switched_off(call: ToolPart, reply: Message, state: Conversation) -> bool:
    """Whether the question that a reply has seen switches the tool of its call off."""
    question = _question(state, reply)
    return question is not None and call.tool in _off(question.tools)


def _question(state: Conversation, reply: Message | None = None) -> Message | None:
    """The newest message that a user wrote, or the program's that stands for a covered one.

    With a `reply`, the newest that it has seen.
    """
    found = state.newest_user or state.newest_user_message()
    if found is not None and (reply is None or reply.has_seen(found.place)):
        return found
    said = [message for message in reversed(state.messages.values()) if message.user and not message.removed]
    seen = [message for message in said if not message.waiting and (reply is None or reply.has_seen(message.place))]
    written = (message for message in seen if is_from_user(message))
    return next(written, None) or next((message for message in seen if not message.is_marker), None)


def _allowed(schemas: Json | None, switches: Json | None) -> Json | None:
    """The schemas without those that are switched off; None if none is left."""
    off = _off(switches)
    found = _decoded(schemas) if off else None
    if not isinstance(found, list):
        return schemas
    tools = cast("list[object]", found)
    left = [kept for tool in tools if (kept := _without(tool, off)) is not None]
    if left == tools:
        return schemas
    return msgspec.json.encode(left).decode() if left else None


def _off(switches: Json | None) -> set[str]:
    found = _decoded(switches)
    if not isinstance(found, dict):
        return set()
    return {name for name, is_on in cast("dict[str, Any]", found).items() if is_on is False}


def _decoded(text: Json | None) -> Any:
    """The value of a JSON text; None if it cannot be read, as the beginning of a large one."""
    try:
        return None if text is None else msgspec.json.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None


def _without(tool: object, off: set[str]) -> Any:
    """A schema in any provider's form without these functions; None if none is left."""
    if not isinstance(tool, dict):
        return tool
    fields = cast("dict[str, Any]", tool)
    for group in GROUPS:
        found = fields.get(group)
        if isinstance(found, list):
            functions = cast("list[object]", found)
            left = [kept for each in functions if (kept := _without(each, off)) is not None]
            return {**fields, group: left} if left else None
    function: Any = fields.get("function", fields)
    name: Any = cast("dict[str, Any]", function).get("name") if isinstance(function, dict) else None
    return None if (name or fields.get("type")) in off else fields
