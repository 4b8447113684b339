"""Words of providers for a request that is too large.

Sources: the APIs' documentation and public reports. A rate limit of tokens per minute is no size,
nor is an image that is too large.
"""

from __future__ import annotations

import re

__all__ = ["is_too_large"]

_CODES = frozenset(
    {
        "context_length_exceeded",  # OpenAI
        "exceed_context_size_error",  # llama.cpp
        "model_max_prompt_tokens_exceeded",  # GitHub Copilot
        "1261",  # GLM
    }
)
_WORDS = re.compile(
    r"context[ _-]?(?:length|window|limit|size)|maximum context|prompt is too long|input is too long|too many (?:input )?tokens"
    r"|request (?:is )?too large|exceeds the maximum size|input token count .*exceeds|maximum prompt length|exceeded model token limit"
    r"|prompt exceeds max length|range of input length should be|longer than the maximum model length|"
    + "|".join(_CODES),
    re.IGNORECASE,
)
"""Words of OpenAI, Anthropic, Gemini, Bedrock, xAI, llama.cpp, Moonshot, GLM and vLLM."""
_OTHER = re.compile(r"tokens? per (?:min|day|hour)|\bTPM\b|rate limit|image exceeds", re.IGNORECASE)
_STATUSES = frozenset({400, 413, 422})


def is_too_large(status: int | None, code: object, text: str) -> bool:
    """Return whether a refusal is for the size of the request.

    `status` is that of HTTP, None for an error inside a stream; `code` and `text` are the
    provider's.
    """
    if code in _CODES:
        return True
    if status not in {None, *_STATUSES} or _OTHER.search(text):
        return False
    return status == 413 or _WORDS.search(text) is not None
