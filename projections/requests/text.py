"""Text that every provider accepts."""

from __future__ import annotations

import re

__all__ = ["failure", "sendable"]

FAILED = "The tool failed."
"""Text of an error without a text, which providers refuse."""

_SURROGATES = re.compile("[\ud800-\udfff]")


def sendable(text: str) -> str:
    """Return the text with each lone surrogate, which cannot be sent, as U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()  # much quicker than looking at each character
    except UnicodeEncodeError:
        return _SURROGATES.sub("\ufffd", text)
    return text


def failure(output: str) -> str:
    """Return the text of a failed call, which is never blank."""
    return output if output.strip() else FAILED
