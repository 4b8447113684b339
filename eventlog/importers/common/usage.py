"""Difference of two usages.

A message's usage is the sum of its `UsageRecorded`.  A source that repeats and corrects its usage
gives the first as it is and then differences, so no record has to wait for a later one.
"""

from __future__ import annotations

from decimal import Decimal

from eventlog.values import Tokens, Usage

__all__ = ["added"]


def added(before: Usage, now: Usage) -> Usage | None:
    """Return what `now` adds to `before`; None when that is nothing.

    A total is only given when nothing was recorded before.
    """
    if (now.tokens, now.cost) == (before.tokens, before.cost):
        return None
    if before == Usage(Tokens()):
        return now
    old, new = before.tokens, now.tokens
    tokens = Tokens(
        new.input - old.input,
        new.output - old.output,
        new.reasoning - old.reasoning,
        new.cache_read - old.cache_read,
        new.cache_write - old.cache_write,
    )
    return Usage(tokens, None if now.cost is None else now.cost - (before.cost or Decimal(0)))
