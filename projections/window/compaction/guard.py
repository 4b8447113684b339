"""The check of a summary before it takes the place of messages.

Pure; `window/compact.py` records a refusal.
"""

from __future__ import annotations

from projections.window.compaction.template import missing_sections
from projections.window.policy import CompactionPolicy

__all__ = ["EMPTY", "SECTIONS_MISSING", "TOOL_CALLED", "VIEW_TOO_LARGE", "check_summary"]

EMPTY = "empty"
TOOL_CALLED = "tool-called"
SECTIONS_MISSING = "sections-missing"
VIEW_TOO_LARGE = "view-too-large"


def check_summary(
    text: str,
    policy: CompactionPolicy,
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
    if policy.require_sections:
        missing = missing_sections(text)
        if missing:
            return f"{SECTIONS_MISSING}: {', '.join(missing)}"
    if usable is not None and view_tokens_after is not None and view_tokens_after >= usable:
        return f"{VIEW_TOO_LARGE}: {view_tokens_after} tokens, {usable} usable"
    return None
