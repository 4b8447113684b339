"""Text that every provider accepts."""

from __future__ import annotations

import re

from eventlog.errors import RefusedError
from projections.view.neutral import Opaque

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


def summary_of(compaction: Opaque) -> str:
    """Return the readable summary of a compaction that another provider made.

    `RefusedError` without one: the view is that of another target.
    """
    if not compaction.text:
        raise RefusedError(
            f"the view begins with a compaction of kind {compaction.kind!r}, which this provider cannot read",
            expected="the view of the target that is asked: `RenderOptions(model=…)`",
        )
    return compaction.text


def failure(output: str) -> str:
    """Return the text of a failed call, which is never blank."""
    return output if output.strip() else FAILED
