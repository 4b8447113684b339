"""What all provider formats share: text that may be sent.  Not a format."""

from __future__ import annotations

import re

__all__ = ["sendable"]

_SURROGATES = re.compile("[\ud800-\udfff]")


def sendable(text: str) -> str:
    """The text with each lone surrogate, which cannot be sent, as U+FFFD (spec §3)."""
    if text.isascii():
        return text
    try:
        text.encode()  # much quicker than looking at each character
    except UnicodeEncodeError:
        return _SURROGATES.sub("\ufffd", text)
    return text
