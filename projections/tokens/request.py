"""The tokens of a whole request: the texts that are sent, and a frame around each message.

The rule, published for OpenAI's chat models and confirmed by the usage in recorded requests: each
message costs four tokens for its frame (its start, its role, the end of the head, its end), and a
request three more, which begin the answer. The frame's marks are special tokens, so nothing merges
across them and the sum over the messages is exact. Inside a message the texts are counted one by
one; *one count of the whole request* is the count of each message's texts written one after
another, plus the same frames. The two differ only where texts meet, by at most a token or two each.

What a message sends: its text parts, reasoning, a tool call's name and its arguments as compact
JSON, a tool result's output. Tool schemas and the system prompt are messages for this purpose. What
a provider adds itself is left to calibration.
"""

from __future__ import annotations

__all__ = ["MESSAGE_TOKENS", "REQUEST_TOKENS", "frame_tokens"]

MESSAGE_TOKENS = 4
"""Tokens of one message's frame."""
REQUEST_TOKENS = 3
"""Tokens that begin the answer."""


def frame_tokens(messages: int) -> int:
    """Return the tokens that the frames of so many messages add to their texts."""
    return REQUEST_TOKENS + MESSAGE_TOKENS * messages
