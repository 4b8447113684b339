"""Messages of the transcript as JSON values: what `show --json` prints and pages are sent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import asdict

from projections.conversation.parts import Message, Part
from projections.transcript.message import (
    TranscriptMessage,
    TranscriptPart,
    transcript_header,
    transcript_part,
)
from projections.view.part_rendering import Resolver

Json: TypeAlias = dict[str, Any]

_LONG = ("text", "input", "error")
"""The fields of a part that may be long, and are cut."""


def part_json(part: TranscriptPart) -> Json:
    """Return a part as JSON values, every field named."""
    return asdict(part)


def header_json(message: TranscriptMessage) -> Json:
    """Return a message as JSON values, without its parts."""
    fields = asdict(message)
    del fields["parts"]
    fields["model"] = None if message.model is None else str(message.model)
    fields["error"] = None if message.error is None else msgspec.to_builtins(asdict(message.error))
    return fields


def message_json(message: TranscriptMessage) -> Json:
    """Return a message as JSON values, with its parts."""
    return {**header_json(message), "parts": [part_json(part) for part in message.parts]}


def page_json(session: str, version: int, messages: Iterable[Json], more: int | None) -> Json:
    """Return a page as a JSON value; `more` is the version that older messages began before."""
    return {"session": session, "version": version, "messages": list(messages), "next": more}


def units(text: str) -> int:
    """Return the length of a text in UTF-16, as JavaScript counts it."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


class Form:
    """How messages and parts are shown; `longest` is the most characters of a text."""

    def __init__(self, longest: int) -> None:
        self.longest = longest

    def part(self, part: TranscriptPart) -> Json:
        """Return a part; `cut` says whether one of its texts is longer than shown."""
        fields = part_json(part)
        longest, cut = self.longest, False
        for name in _LONG:
            if len(fields[name]) > longest:
                fields[name], cut = fields[name][:longest], True
        fields["cut"] = cut
        return fields

    def message(self, message: TranscriptMessage) -> Json:
        """Return a message with its parts."""
        return {**header_json(message), "parts": [self.part(part) for part in message.parts]}

    def live_part(self, part: Part, resolve: Resolver) -> Json:
        """Return a part of a conversation."""
        return self.part(transcript_part(part, resolve))

    def live_header(self, message: Message) -> Json:
        """Return a message of a conversation, without its parts."""
        return header_json(transcript_header(message))
