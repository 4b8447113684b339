"""The SDK's summaries of sessions: values, kept in the appends of what they sum up.

What is in a summary is the SDK's own: its `fold_session_summary` makes one of the one before.
"""

from __future__ import annotations

from typing import Any

from eventlog.adapters.claude_keys import TranscriptKey
from eventlog.adapters.claude_transcript import Keep, TranscriptFeed
from eventlog.errors import CallError
from eventlog.importers.claude_code.records import is_custom_title
from eventlog.importers.common.json_lines import is_object
from eventlog.records.json_value import dumped, parsed
from eventlog.session.session import Session

__all__ = ["folding", "summary_of"]

SUMMARY = "claude-agent/summary"
"""Key of the value: the SDK's data, and whether a person gave the session its title."""


def summary_of(session: Session) -> dict[str, Any]:
    """Return `data` and `titled` of a session; empty if it has no summary."""
    stored = session.values.get(SUMMARY)
    found: dict[str, Any] = {} if stored is None else parsed(str(stored.value))
    return found


def folding(feed: TranscriptFeed, transcript: TranscriptKey) -> Keep:
    """Return what folds entries into the summary of a main transcript, and keeps changes."""
    project, session, subpath = transcript
    if subpath is not None:
        return _nothing
    try:
        from claude_agent_sdk import fold_session_summary
    except ImportError as error:
        raise CallError("the summary of a session needs the SDK: pip install claude-agent-sdk") from error
    fold: Any = fold_session_summary
    key = {"project_key": project, "session_id": session}
    known = summary_of(feed.session)
    feed.mapping.titled = known.get("titled", False)

    def keep(entries: list[Any]) -> dict[str, str | bytes]:
        nonlocal known
        before = {"session_id": session, "mtime": 0, "data": known["data"]} if known else None
        data = fold(before, key, list(filter(is_object, entries)))["data"]
        found = {"data": data, "titled": known.get("titled", False) or any(map(is_custom_title, entries))}
        if found == known:
            return {}
        known = found
        return {SUMMARY: dumped(found)}

    return keep


def _nothing(_entries: list[Any]) -> dict[str, str | bytes]:
    return {}
