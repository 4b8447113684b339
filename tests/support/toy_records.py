"""A made-up framework for tests of records: its mapping, and what a view shows of a session."""

from __future__ import annotations

from typing import Any

from eventlog import RecordBuilder, Session
from projections import ModelView
from projections.formats.openai import chat_messages

__all__ = ["ToyMapping", "shown"]


class ToyMapping:
    """Records of four kinds; any other means nothing."""

    format = "toy"

    def read(self, record: Any, to: RecordBuilder) -> None:
        """Tell what a record means."""
        if not isinstance(record, dict):
            return
        match record:
            case {"kind": "user", "text": str(text)}:
                to.user(text)
            case {"kind": "answer", "text": str(text), "calls": list(calls)}:
                to.answer(model="toy/1")
                to.text(text)
                for call in calls:
                    to.call(call["id"], call["tool"], call["input"])
                to.end()
            case {"kind": "result", "call": str(call), "output": str(output)}:
                to.result(call, output)
            case {"kind": "summary", "text": str(text)}:
                to.compaction(text)
            case _:
                pass


def shown(session: Session, at: int | None = None) -> list[tuple[Any, ...]]:
    """Messages of the view: role, text, and calls or the call that is answered."""
    view = ModelView.of(session, at=at)
    found: list[tuple[Any, ...]] = []
    for message in chat_messages(view.messages, view.system):
        content = message.get("content") or ""
        if isinstance(content, list):
            content = "".join(block.get("text", "") for block in content)
        if message["role"] == "tool":
            found.append(("tool", content, message["tool_call_id"]))
        else:
            calls = tuple(call["id"] for call in message.get("tool_calls", ()))
            found.append((message["role"], content, calls))
    return found
