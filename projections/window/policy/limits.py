"""Limits of the window: what a request may have, and when it has too much.

Pure.  `usable` is what a request may have before the conversation must be compacted, in tokens;
None is an unlimited window.
"""

from __future__ import annotations

from eventlog.values import Limits, Tokens
from projections.window.policy.policy import OverflowPolicy


def max_output(limits: Limits | None, policy: OverflowPolicy) -> int:
    """Return the most tokens of one answer: the model's limit, at most `output_cap`.

    `output_cap` if the limit is unknown (None or 0).
    """
    known = limits.output if limits is not None else None
    return min(known, policy.output_cap) if known else policy.output_cap


def usable(limits: Limits | None, policy: OverflowPolicy) -> int | None:
    """Return the tokens that a request may have; None: unlimited, or nothing is known.

    A model with an input limit keeps `reserved` tokens free below it; another keeps room for its
    largest answer.  Never negative: 0 means that no request fits.
    """
    if limits is None or limits.context == 0:
        return None
    output = max_output(limits, policy)
    if limits.input:
        reserved = min(policy.buffer, output) if policy.reserved is None else policy.reserved
        return max(0, limits.input - reserved)
    return max(0, limits.context - output)


def largest_request(limits: Limits | None, policy: OverflowPolicy) -> int | None:
    """Return the tokens that a request may have if no compaction helps; None: any number.

    Half of what is kept free above `usable` is left for the answer.
    """
    least = usable(limits, policy)
    if limits is None or least is None:
        return None
    return (least + max(least, min(limits.input or limits.context, limits.context)) + 1) // 2


def step_total(tokens: Tokens) -> int:
    """Return the tokens in the window after a step: its total, or the sum of its kinds."""
    return tokens.total or tokens.input + tokens.output + tokens.cache_read + tokens.cache_write


def is_over(count: int, usable: int | None, policy: OverflowPolicy) -> bool:
    """Whether so many tokens overflow a window; never with `auto` off, never an unlimited one."""
    return policy.auto and usable is not None and count >= usable
