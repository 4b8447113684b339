"""Compactions without a readable text cover nothing, and the report says so."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

import eventlog
from eventlog import Store
from eventlog import events as ev
from eventlog.importers import Report, import_file
from eventlog.importers.common.conversation_parts import COVERS_NOTHING
from eventlog.importers.common.remainder import emit
from projections import ModelView
from projections.view.neutral import Reasoning, Text

CIPHER = "gAAAA" + "opaque" * 400
HANDED_OVER = "Another language model started to solve this problem and handed over: the summary"


def lines(records: list[Any]) -> bytes:
    """A file of these records."""
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def codex(compacted: dict[str, Any]) -> bytes:
    """A rollout with a compaction between its two turns."""

    def said(role: str, text: str) -> tuple[str, dict[str, Any]]:
        kind = "output_text" if role == "assistant" else "input_text"
        return "response_item", {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}

    told = [
        ("session_meta", {"id": "s"}),
        said("user", "question one"),
        said("assistant", "answer one"),
        ("compacted", compacted),
        said("user", "question two"),
        said("assistant", "answer two"),
    ]
    return lines(
        [
            {"timestamp": f"2026-01-01T00:00:0{number}Z", "type": kind, "payload": payload}
            for number, (kind, payload) in enumerate(told)
        ]
    )


def message(text: str) -> dict[str, Any]:
    """A message of the history that a compaction left."""
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def claude(summary: Any) -> bytes:
    """A transcript with a compaction between its two turns."""

    def said(number: int, kind: str, content: Any, **more: Any) -> dict[str, Any]:
        parent = f"u{number - 1}" if number else None
        message = {"role": kind, "content": content, "id": f"msg_{number}"}
        return {"type": kind, "uuid": f"u{number}", "parentUuid": parent, "sessionId": "s", "message": message, **more}

    boundary = {"type": "system", "subtype": "compact_boundary", "uuid": "u2", "parentUuid": None, "sessionId": "s"}
    return lines(
        [
            said(0, "user", "question one"),
            said(1, "assistant", [{"type": "text", "text": "answer one"}]),
            boundary,
            said(3, "user", summary, isCompactSummary=True),
            said(4, "user", "question two"),
            said(5, "assistant", [{"type": "text", "text": "answer two"}]),
        ]
    )


def opencode(*parts: dict[str, Any]) -> bytes:
    """An export whose third answer is a summary of these parts."""
    told: list[tuple[str, list[dict[str, Any]], dict[str, Any]]] = [
        ("user", [{"type": "text", "text": "question one"}], {}),
        ("assistant", [{"type": "text", "text": "answer one"}], {"parentID": "m0"}),
        ("user", [{"type": "compaction", "auto": True}], {}),
        ("assistant", list(parts), {"parentID": "m2", "summary": True}),
        ("user", [{"type": "text", "text": "question two"}], {}),
        ("assistant", [{"type": "text", "text": "answer two"}], {"parentID": "m4"}),
    ]
    messages: list[Any] = []
    for number, (role, blocks, more) in enumerate(told):
        own = {"sessionID": "s", "messageID": f"m{number}"}
        ended = {"completed": number * 10 + 5} if role == "assistant" else {}
        info = {
            "id": f"m{number}",
            "sessionID": "s",
            "role": role,
            "time": {"created": number * 10 + 1, **ended},
            **more,
        }
        info |= {"finish": "stop"} if ended else {}
        found = [{"id": f"p{number}.{place}", **own, **block} for place, block in enumerate(blocks)]
        messages.append({"info": info, "parts": found})
    return json.dumps(
        {"info": {"id": "s", "title": "t", "time": {"created": 1, "updated": 90}}, "messages": messages}
    ).encode()


def read(store: Store, data: bytes, format: str) -> Report:
    """Import a file, always under one name."""
    file = io.BytesIO(data)
    file.name = "compacted.json"
    return import_file(store, file, format=format)


def shown(store: Store, report: Report) -> list[str]:
    """Return the texts of the model's view."""
    messages = ModelView.of(store.session(report.sessions[0])).messages
    return [part.text for found in messages for part in found.parts if isinstance(part, (Text, Reasoning))]


ALL = ["question one", "answer one", "question two", "answer two"]
UNREADABLE = {
    "codex-opaque-message": (
        "codex",
        codex({"message": "", "replacement_history": [message("question one") | {"encrypted_content": CIPHER}]}),
    ),
    "codex-repeated": ("codex", codex({"message": "", "replacement_history": [message("question one")]})),
    "codex-nothing": ("codex", codex({"message": ""})),
    "codex-blank": ("codex", codex({"message": " \n", "replacement_history": []})),
    "claude-empty": ("claude_code", claude("")),
    "claude-no-text": ("claude_code", claude([{"type": "compaction", "content": None, "encrypted_content": CIPHER}])),
    "opencode-empty": ("opencode", opencode({"type": "text", "text": "\n"})),
    "opencode-no-text": ("opencode", opencode({"type": "reasoning", "text": "", "time": {"start": 32}})),
}
READABLE = {
    "codex": (
        "codex",
        codex({"message": "the summary", "replacement_history": [{"type": "compaction", "encrypted_content": CIPHER}]}),
    ),
    "codex-handed-over": ("codex", codex({"message": "", "replacement_history": [message(HANDED_OVER)]})),
    "claude": ("claude_code", claude("the summary")),
    "opencode": ("opencode", opencode({"type": "text", "text": "the summary"})),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_an_unreadable_compaction_covers_nothing(name: str) -> None:
    """The view has every message once, in order, and the report names the compaction."""
    format, data = UNREADABLE[name]
    with eventlog.open("memory:") as store:
        report = read(store, data, format)
        assert shown(store, report) == ALL
        begun = (ev.UserMessageAdded, ev.AssistantMessageStarted)
        events = store.session(report.sessions[0]).events()
        assert report.messages == sum(isinstance(found.event, begun) for found in events)
        assert [found.reason.endswith(COVERS_NOTHING) for found in report.skipped] == [True]
        assert read(store, data, format).events == 0
        if format != "opencode":
            back = [found.record for found in emit([store.session(report.sessions[0])], store.text)]
            assert back == [json.loads(line) for line in data.splitlines()]


@pytest.mark.parametrize("name", READABLE)
def test_a_readable_compaction_covers_what_came_before(name: str) -> None:
    """The view begins with the summary, opaque state beside it or not."""
    format, data = READABLE[name]
    with eventlog.open("memory:") as store:
        report = read(store, data, format)
        texts = [text for text in shown(store, report) if text]
        assert texts[0] == "What did we do so far?"
        assert texts[1].endswith("the summary")
        assert texts[2:] == ALL[2:]
        assert not report.skipped
