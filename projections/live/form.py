"""Messages and parts as a live page has them: as `show --json`, with long texts cut."""

from __future__ import annotations

from typing import Any, TypeAlias

from projections.conversation.parts import Message, Part
from projections.transcript.message import (
    TranscriptMessage,
    TranscriptPart,
    transcript_header,
    transcript_part,
)
from projections.transcript.message_json import header_json, part_json
from projections.view.part_rendering import Resolver

Json: TypeAlias = dict[str, Any]

LONG_FIELDS = ("text", "input", "error")
"""The fields of a part that may be long, and are cut."""


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
        for name in LONG_FIELDS:
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
