"""Rules of the providers' prefix caches: least size, blocks, time to live, marks.

A rule is found by a word of the model's name, so that a model behind a gateway has that of its
maker. The numbers are those of the makers' documentation:

* OpenAI, developers.openai.com, guide "Prompt caching": from 1,024 tokens on, in steps of 128; kept
  for 5 to 10 minutes without use, at most an hour (a day, where a request asks for that).
* Anthropic, platform.claude.com, "Prompt caching": up to the marks of a request; the least size is
  that of the model; kept for 5 minutes without use (an hour, where a mark asks for that).
* Google, ai.google.dev, "Context caching", implicit: 2,048 tokens for Gemini 2.5, 4,096 for later
  models. How long is not documented; the makers say "a few minutes".
* DeepSeek, api-docs.deepseek.com, "Context Caching": in units of 64 tokens, kept for hours to days.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from eventlog.values import Model

_MINUTES = 60
_HOURS = 60 * _MINUTES


class CacheRules(NamedTuple):
    """The rules of one prefix cache."""

    least: int = 0
    """Tokens of the smallest beginning that is kept."""
    block: int = 1
    """Tokens are kept in multiples of this."""
    life: int | None = None
    """Seconds without use after which a beginning may be gone; None: not known."""
    marked: bool = False
    """Whether only what a request marks is kept, and its provider reports what it wrote."""

    def kept(self, tokens: int) -> int:
        """Return how many of a request's tokens the cache keeps at most."""
        whole = tokens - tokens % self.block
        return whole if whole >= self.least else 0


_CLAUDE = CacheRules(1_024, life=5 * _MINUTES, marked=True)
_GEMINI = CacheRules(4_096, life=5 * _MINUTES)
_GPT = CacheRules(1_024, 128, life=5 * _MINUTES)

RULES: dict[str, CacheRules] = {
    "claude-opus-4-7": _CLAUDE._replace(least=2_048),
    "claude-opus-4-6": _CLAUDE._replace(least=4_096),
    "claude-opus-4-5": _CLAUDE._replace(least=4_096),
    "claude-haiku-4-5": _CLAUDE._replace(least=4_096),
    "claude-3-5-haiku": _CLAUDE._replace(least=2_048),
    "claude-3-haiku": _CLAUDE._replace(least=2_048),
    "claude": _CLAUDE,
    "anthropic/": _CLAUDE,
    "gemini-2.5": _GEMINI._replace(least=2_048),
    "gemini": _GEMINI,
    "deepseek": CacheRules(64, 64, life=2 * _HOURS),
    "gpt-4": _GPT,
    "gpt-5": _GPT,
    "openai/": _GPT,
}
"""Rules by a word of "provider/name"; the first that is found holds."""

UNKNOWN = CacheRules()
"""Rules of a cache of which nothing is known: everything may be kept, for any time."""


def cache_rules(model: Model | None, own: Mapping[str, CacheRules] | None = None) -> CacheRules:
    """Return the rules of a model's cache; `own` ones, by word or name, go before `RULES`."""
    name = "" if model is None else str(model).replace(".", "-" if "claude" in str(model) else ".")
    for word, rules in (*(own or {}).items(), *RULES.items()):
        if word and word in name:
            return rules
    return UNKNOWN
