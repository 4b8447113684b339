"""A made-up framework for tests of records: its mapping, and what a view shows."""

from __future__ import annotations

from typing import Any

from eventlog import RecordBuilder, Session
from eventlog.importers.common.json_lines import is_object
from projections import ModelView
from projections.requests.openai import chat_messages


class ToyMapping:
    """Records of four kinds; any other means nothing."""

    format = "toy"

    def read(self, record: Any, to: RecordBuilder) -> None:
        """Tell what a record means."""
        kind = record.get("kind") if is_object(record) else None
        if kind == "user":
            to.user(record["text"])
        elif kind == "answer":
            to.answer(model="toy/1")
            to.text(record["text"])
            for call in record["calls"]:
                to.call(call["id"], call["tool"], call["input"])
            to.end()
        elif kind == "result":
            to.result(record["call"], record["output"])
        elif kind == "summary":
            to.compaction(record["text"])


def shown(session: Session, at: int | None = None) -> list[tuple[Any, ...]]:
    """Messages of the view: role, text, and calls or the call that is answered."""
    view = ModelView.of(session, at=at)
    found: list[tuple[Any, ...]] = []
    for message in chat_messages(view.messages, view.system):
        content: Any = message.get("content") or ""
        if message["role"] == "tool":
            found.append(("tool", content, message["tool_call_id"]))
        else:
            calls = tuple(call["id"] for call in message.get("tool_calls", ()))
            found.append((message["role"], content, calls))
    return found
