"""The API of a provider's answer, told by a chunk that only one API has.

Chat Completions are read here. The others are named in an error, so that an answer is never taken
for an empty one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from eventlog.errors import StreamError, UnknownStreamError

__all__ = ["CHAT", "error_in", "is_chat"]

CHAT = "OpenAI Chat Completions"
_ANTHROPIC = frozenset(
    {
        "message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop", "ping",
        "message",
    }
)  # fmt: skip
"""Types of the events and of the whole answer of Anthropic."""
_FIELDS = {
    "candidates": "Gemini generateContent",
    "usageMetadata": "Gemini generateContent",
    "messageStart": "Bedrock Converse",
    "contentBlockStart": "Bedrock Converse",
    "contentBlockDelta": "Bedrock Converse",
    "messageStop": "Bedrock Converse",
    "done": "Ollama chat",
}
"""Fields that one API alone has at the top of a chunk."""
_STATUSES = range(400, 600)
_MOST_SAID = 1_000
"""Characters of a provider's error that are quoted."""


def is_chat(chunk: Mapping[str, Any]) -> bool:
    """Return whether a chunk is one of Chat Completions; False for an empty one.

    `UnknownStreamError` for a chunk of another API.
    """
    if "choices" in chunk or str(chunk.get("object", "")).startswith("chat.completion"):
        return True
    kind = chunk.get("type")
    name = kind if isinstance(kind, str) else ""
    if name.startswith("response.") or chunk.get("object") == "response":
        raise UnknownStreamError(name, "OpenAI Responses")
    if name in _ANTHROPIC:
        raise UnknownStreamError(name, "Anthropic Messages")
    field = next((field for field in _FIELDS if field in chunk), None)
    if field is not None:
        raise UnknownStreamError(name, _FIELDS[field])
    if "usage" in chunk and not name:  # some servers send it last, in a chunk of its own
        return True
    if chunk:
        raise UnknownStreamError(name or ", ".join(sorted(map(str, chunk))[:8]))
    return False


def error_in(chunk: Mapping[str, Any]) -> StreamError | None:
    """Return the provider's error that a chunk, or a choice of it, says; None if it says none."""
    choices: object = chunk.get("choices")
    places = [chunk, *(cast("list[object]", choices) if isinstance(choices, list) else [])]
    records = (cast("Mapping[str, Any]", place) for place in places if isinstance(place, Mapping))
    found: object = next((error for record in records if (error := record.get("error"))), None)
    if found is None:
        return None
    error = cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {"message": found}
    said = error.get("message") or error
    text = said if isinstance(said, str) else msgspec.json.encode(said, enc_hook=str).decode()
    codes = [error.get(name) for name in ("code", "status", "type")]
    status = next((code for code in codes if isinstance(code, int) and code in _STATUSES), None)
    code = next((code for code in codes if isinstance(code, str)), "")
    return StreamError(text[:_MOST_SAID], status_code=status, code=code)
