"""The check of a summary before it takes the place of messages.

Pure; `loop/context/summary_run.py` raises a refusal, and asks once more for what is too thin.
"""

from __future__ import annotations

from projections.window.compaction.foreign_headings import foreign_sections
from projections.window.compaction.template import sections_of

__all__ = ["EMPTY", "TOOL_CALLED", "VIEW_TOO_LARGE", "check_summary", "is_thin"]

EMPTY = "empty"
TOOL_CALLED = "tool-called"
VIEW_TOO_LARGE = "view-too-large"

LONG_ENOUGH = 200
"""Tokens of a summary that is long enough for any conversation."""
SHARE = 50
"""Tokens that one token of a summary may stand for, up to `LONG_ENOUGH`."""


def check_summary(
    text: str,
    *,
    tool_called: str | None = None,
    view_tokens_after: int | None = None,
    usable: int | None = None,
) -> str | None:
    """Why a summary is no good, as the reason of `CompactionFailed`, or None if it may stand.

    `tool_called` is the tool that the summariser called, if it did: none was offered.
    `view_tokens_after` are the tokens of the view with the summary, `usable` those that the next
    request may have; the check is left out while either is unknown. A reason begins with one of the
    names above and never holds text of the conversation.
    """
    if tool_called is not None:
        return f"{TOOL_CALLED}: {tool_called[:80]}" if tool_called else TOOL_CALLED
    if not text.strip():
        return EMPTY
    if usable is not None and view_tokens_after is not None and view_tokens_after >= usable:
        return f"{VIEW_TOO_LARGE}: {view_tokens_after} tokens, {usable} usable"
    return None


def is_thin(text: str, tokens: int, covered: int) -> bool:
    """Whether a summary says too little for the tokens that it covers.

    A known heading is enough, ours or another agent's; so is a text of any form and language that
    is long enough.
    """
    if tokens >= min(LONG_ENOUGH, covered // SHARE) or not text.strip():
        return False
    return not (sections_of(text) or foreign_sections(text))
