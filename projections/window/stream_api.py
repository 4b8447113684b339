"""The API of a provider's answer, told by a chunk that only one API has.

Chat Completions are read here. The others are named in an error, so that an answer is never taken
for an empty one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eventlog.errors import UnknownStreamError

__all__ = ["CHAT", "is_chat"]

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


def is_chat(chunk: Mapping[str, Any]) -> bool:
    """Return whether a chunk is one of Chat Completions; False for an empty one.

    `UnknownStreamError` for a chunk of another API, and for an error of the provider.
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
