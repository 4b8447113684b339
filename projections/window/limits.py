"""When the window is full: the exact sums, over the limits of a model and the numbers of a policy.

Not the counting (`sizing/sizes.py`) and not what is done about it (`next_step.py`).  Pure.
`usable` is what a request may fill before the conversation must be compacted, in tokens; None stands for an unlimited window.
"""

from __future__ import annotations

from eventlog.values import Limits, Tokens
from projections.window.policy import OverflowPolicy

__all__ = ["is_over", "max_output", "step_total", "usable"]


def max_output(limits: Limits | None, policy: OverflowPolicy) -> int:
    """Most tokens of one answer: the model's limit, at most `output_cap`; `output_cap` if the limit is unknown (None or 0)."""
    known = limits.output if limits is not None else None
    return min(known, policy.output_cap) if known else policy.output_cap


def usable(limits: Limits | None, policy: OverflowPolicy) -> int | None:
    """Tokens that a request may fill; None: unlimited, because the context is (0) or nothing is known of the model.

    A model with an input limit keeps `reserved` free below it; another keeps room for its largest answer, whatever is reserved.
    Never negative: 0 means that no request fits.
    """
    if limits is None or limits.context == 0:
        return None
    output = max_output(limits, policy)
    if limits.input:
        reserved = min(policy.buffer, output) if policy.reserved is None else policy.reserved
        return max(0, limits.input - reserved)
    return max(0, limits.context - output)


def step_total(tokens: Tokens) -> int:
    """Tokens that a finished step says are in the window: its total, or input, output and both cached kinds together."""
    return tokens.total or tokens.input + tokens.output + tokens.cache_read + tokens.cache_write


def is_over(count: int, usable: int | None, policy: OverflowPolicy) -> bool:
    """Whether so many tokens overflow a window; never with `auto` off, never an unlimited one."""
    return policy.auto and usable is not None and count >= usable
