"""Tokens of a model call, from the fields of each API: no token counts twice."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from eventlog.streams.records import number_of, object_of, objects_of
from eventlog.values import Tokens, Usage

_DEAREST = 1_000_000_000


def chat_usage(found: dict[str, Any]) -> Usage:
    """Return the usage of Chat Completions; a cost is taken where the server sends one.

    Some servers count reasoning beside the completion: their total has both.
    """
    prompt, completion = (
        object_of(found.get("prompt_tokens_details")),
        object_of(found.get("completion_tokens_details")),
    )
    read = number_of(prompt.get("cached_tokens")) or number_of(found.get("prompt_cache_hit_tokens"))
    written = number_of(prompt.get("cache_write_tokens")) or number_of(found.get("cache_creation_input_tokens"))
    total = found.get("total_tokens")
    given, said = number_of(found.get("prompt_tokens")), number_of(found.get("completion_tokens"))
    thought = number_of(completion.get("reasoning_tokens"))
    tokens = Tokens(
        input=max(given - read - written, 0),
        output=said + thought if total == given + said + thought else said,
        reasoning=thought,
        cache_read=read,
        cache_write=written,
        total=number_of(total) if isinstance(total, int) else None,
    )
    return Usage(tokens, price_of(found.get("cost")))


def responses_usage(found: dict[str, Any]) -> Usage:
    """Return the usage of Responses, and of Codex, which has the details beside the sums.

    A cost is taken where the server sends one.
    """
    given, made = object_of(found.get("input_tokens_details")), object_of(found.get("output_tokens_details"))
    read = number_of(given.get("cached_tokens")) or number_of(found.get("cached_input_tokens"))
    written = number_of(given.get("cache_write_tokens")) or number_of(found.get("cache_write_input_tokens"))
    total = found.get("total_tokens")
    return Usage(
        Tokens(
            input=max(number_of(found.get("input_tokens")) - read - written, 0),
            output=number_of(found.get("output_tokens")),
            reasoning=number_of(made.get("reasoning_tokens")) or number_of(found.get("reasoning_output_tokens")),
            cache_read=read,
            cache_write=written,
            total=number_of(total) if isinstance(total, int) else None,
        ),
        price_of(found.get("cost")),
    )


def anthropic_usage(found: dict[str, Any]) -> Usage:
    """Return the usage of Messages, whose input has no tokens of the cache.

    Its sums leave out a compaction, which is an iteration of its own.
    """
    given = made = read = written = 0
    compactions = [one for one in objects_of(found.get("iterations")) if one.get("type") == "compaction"]
    for call in (found, *compactions):
        given += number_of(call.get("input_tokens"))
        made += number_of(call.get("output_tokens"))
        read += number_of(call.get("cache_read_input_tokens"))
        written += number_of(call.get("cache_creation_input_tokens"))
    thought = number_of(object_of(found.get("output_tokens_details")).get("thinking_tokens"))
    return Usage(Tokens(given, made, thought, read, written))


def gemini_usage(found: dict[str, Any]) -> Usage:
    """Return the usage of Gemini; thoughts, which candidates lack, are output."""
    given = number_of(found.get("promptTokenCount")) + number_of(found.get("toolUsePromptTokenCount"))
    return usage_of_gemini(
        given,
        number_of(found.get("cachedContentTokenCount")),
        number_of(found.get("candidatesTokenCount")),
        number_of(found.get("thoughtsTokenCount")),
        found.get("totalTokenCount"),
    )


def usage_of_gemini(given: int, read: int, said: int, thought: int, total: object) -> Usage:
    """Return the usage of Gemini's counts: `given` has what was `read`, `said` lacks thoughts."""
    return Usage(
        Tokens(
            input=max(given - read, 0),
            output=said + thought,
            reasoning=thought,
            cache_read=read,
            total=number_of(total) if isinstance(total, int) else None,
        )
    )


def price_of(found: object) -> Decimal | None:
    """Return a price in US dollars, a number or one as a text; None for anything else.

    It has the 15 digits that a float has. More are what adding floats leaves: 0.1 + 0.2 is spelled
    0.30000000000000004.
    """
    if isinstance(found, str):
        try:
            found = float(found)
        except ValueError:
            return None
    if not isinstance(found, (int, float)) or isinstance(found, bool) or not 0 <= found < _DEAREST:
        return None
    return Decimal(f"{found:.15g}")
