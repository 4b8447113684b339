"""The tokens of a whole request: the texts that are sent, and a frame around each message.

Not rendering: it is given plain strings.

The rule, published for OpenAI's chat models and confirmed by the usage in recorded requests: each message
costs four tokens for its frame (its start, its role, the end of the head, its end), and a request three more, which begin the
answer.  The frame's marks are special tokens, so nothing merges across them and the sum over the
messages is exact.  Inside a message the texts are counted one by one; *one count of the whole request* is the
count of each message's texts written one after another, plus the same frames.  The two differ only where texts meet,
by at most a token or two each.

What a message sends: its text parts, reasoning, a tool call's name and its arguments as compact JSON, a tool
result's output.  Tool schemas and the system prompt are messages for this purpose.  What a provider adds
itself is left to calibration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from projections.tokens.counter import Counter

__all__ = ["MESSAGE_TOKENS", "REQUEST_TOKENS", "RequestCount", "count_request", "frame_tokens"]

MESSAGE_TOKENS = 4
"""Tokens of one message's frame."""
REQUEST_TOKENS = 3
"""Tokens that begin the answer."""


class RequestCount(msgspec.Struct, frozen=True):
    """The tokens of a request: of its texts, and of the frames around them."""

    content: int
    frames: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.content + self.frames


def frame_tokens(messages: int) -> int:
    """Return the tokens that the frames of so many messages add to their texts."""
    return REQUEST_TOKENS + MESSAGE_TOKENS * messages


def count_request(messages: Iterable[Iterable[str]], counter: Counter) -> RequestCount:
    """Count a request given as messages, each as the texts it sends."""
    content = number = 0
    for texts in messages:
        number += 1
        content += sum(map(counter.count, texts))
    return RequestCount(content, frame_tokens(number))
