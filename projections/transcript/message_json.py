"""Messages of the transcript as JSON values: what `show --json` prints and pages are sent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec.structs import asdict

from projections.transcript.message import TranscriptMessage, TranscriptPart


def part_json(part: TranscriptPart) -> dict[str, Any]:
    """Return a part as JSON values, every field named."""
    return asdict(part)


def header_json(message: TranscriptMessage) -> dict[str, Any]:
    """Return a message as JSON values, without its parts."""
    fields = asdict(message)
    del fields["parts"]
    fields["model"] = None if message.model is None else str(message.model)
    fields["error"] = None if message.error is None else msgspec.to_builtins(asdict(message.error))
    return fields


def message_json(message: TranscriptMessage) -> dict[str, Any]:
    """Return a message as JSON values, with its parts."""
    return {**header_json(message), "parts": [part_json(part) for part in message.parts]}


def page_json(session: str, version: int, messages: Iterable[dict[str, Any]], more: int | None) -> dict[str, Any]:
    """Return a page as a JSON value; `more` is the version that older messages began before."""
    return {"session": session, "version": version, "messages": list(messages), "next": more}
