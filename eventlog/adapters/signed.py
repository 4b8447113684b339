"""Provider metadata of the parts that frameworks give: signatures, ciphers, ids of items."""

from __future__ import annotations

from eventlog.streams.records import metadata_of
from eventlog.values import Json

REFUSAL = '{"openai":{"refusal":true}}'
"""Metadata of a text with which OpenAI's model refuses."""
_REDACTED = frozenset({"redacted_thinking", "redacted_content"})


def is_google(provider: str) -> bool:
    """Return whether a provider's parts have Gemini's signatures."""
    return any(word in provider for word in ("google", "gemini", "vertex"))


def signed(provider: str, secret: str = "", id: str = "", *, is_thought: bool = False) -> Json | None:
    """Return the metadata of a part in its provider's words; None without any.

    `secret` is a signature or a cipher, `id` the id of the part's item. `is_thought` is True for
    reasoning.
    """
    if is_google(provider):
        return metadata_of("google", thoughtSignature=secret)
    if id.startswith(("rs_", "msg_", "fc_", "ws_")) or any(word in provider for word in ("openai", "azure")):
        return metadata_of("openai", itemId=id, reasoningEncryptedContent=secret if is_thought else "")
    return metadata_of("anthropic", **{"redactedData" if id in _REDACTED else "signature": secret})
