"""Lists with which Gemini CLI replaces a session: resumed, compressed, shortened."""

from __future__ import annotations

from typing import Any

from eventlog import Store
from eventlog.importers.common.remainder import emit
from tests.eventlog.importers.test_histories import (
    CALL,
    GEMINI,
    GEMINI_MESSAGES,
    check_damage,
    grow,
    lines,
    shown,
)


def told(name: str, kind: str, *parts: object) -> dict[str, Any]:
    """Make a message of a list that `$set` has."""
    return {"id": name, "timestamp": "2026-05-01T10:00:04Z", "type": kind, "content": list(parts)}


def test_a_list_of_gemini_cli_replaces_its_messages(store: Store) -> None:
    """A resumed list changes nothing, a compressed one compacts, a shorter one goes back."""
    context = told("0", "user", {"text": "This is the context of the session."})
    response = told("2_response", "user", *CALL["result"])
    resumed = [context, *GEMINI_MESSAGES[:2], response]
    summary = told("7", "user", {"text": "One note was read, of three."})
    thanks = told("8", "gemini", {"text": "Got it, with thanks."})
    records: list[dict[str, Any]] = [
        GEMINI,
        {"$set": {"messages": [context]}},
        *GEMINI_MESSAGES[:2],
        {**response, "id": "2b"},
        {"$set": {"messages": [context]}},
        {"$set": {"messages": resumed}},
        GEMINI_MESSAGES[2],
        {"$set": {"messages": [context, summary, thanks]}},
        {**GEMINI_MESSAGES[2], "id": "9"},
        {"$set": {"messages": [context, summary, thanks]}},
    ]
    report = grow(store, "session-3.jsonl", (lines(*records[:end]) for end in (4, 7)))
    assert shown(store, report) == ["0", "1", "2"]
    report = grow(store, "session-3.jsonl", (lines(*records[:end]) for end in (8, 10)))
    assert shown(store, report) == ["message-9", "7", "8", "9"]
    report = grow(store, "session-3.jsonl", [lines(*records)])
    assert shown(store, report) == ["message-9", "7", "8"]
    assert (report.messages, report.skipped) == (8, [])
    assert store.info(report.sessions[0]).title == "Which notes are there?"
    assert [source.record for source in emit([store.session(report.sessions[0])], store.text)] == records
    check_damage(lines(*records), "session-3.jsonl")
