"""Random transcripts of Claude Code, and what a model is shown of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from hypothesis import strategies as st
from msgspec.json import decode

from projections.view.neutral import Call, NeutralMessage, Result, Text

INTERRUPTED = "[Tool execution was interrupted]"
ASKED = "What did we do so far?"
"""How a view asks for the summary that follows."""
SUMMARY = "summary: "
SESSION = "0f4a7c6e-0000-4000-8000-000000000001"
KEY: dict[str, Any] = {"project_key": "-work", "session_id": SESSION}
Shown = tuple[str, ...]
KINDS = st.lists(
    st.tuples(
        st.sampled_from(
            ["prompt", "prompt", "answer", "answer", "calls", "calls", "results", "aside", "system", "turn end", "branch", "compact", "title"]
        ),
        st.integers(0, 30),
    ),
    min_size=1,
    max_size=5,
)  # fmt: skip


def said(number: int, kind: str, content: Any, parent: str | None = None, **more: Any) -> dict[str, Any]:
    """Return an entry of a conversation."""
    return {
        "type": kind,
        "uuid": f"00000000-0000-4000-8000-{number:012}",
        "parentUuid": parent,
        "sessionId": SESSION,
        "timestamp": f"2026-01-01T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}.000Z",
        "isSidechain": False,
        "cwd": "/work",
        "version": "2.1.0",
        "gitBranch": "main",
        "message": {"role": kind, "content": content} | more.pop("message", {}),
        **more,
    }


class Talk:
    """Makes entries as Claude Code does: one for each block, results behind their calls."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []
        self.number = 0
        self.leaf: str | None = None
        self.points: list[str | None] = []
        """Entries before prompts, where branches may begin."""
        self.waiting: list[tuple[str, str]] = []
        """Calls of the newest answer without a result, each with its entry."""

    def more(self, kinds: Iterable[tuple[str, int]]) -> list[dict[str, Any]]:
        """Make entries of these kinds, and return them."""
        before = len(self.entries)
        for kind, pick in (*(() if before else (("prompt", 0), ("answer", 0))), *kinds):
            self._make(kind, pick)
        return self.entries[before:]

    def _add(self, kind: str, content: Any, **more: Any) -> str:
        self.number += 1
        entry = said(self.number, kind, content, more.pop("parent", self.leaf), **more)
        self.entries.append(entry)
        self.leaf = str(entry["uuid"])
        return self.leaf

    def _aside(self, kind: str, *, linked: bool, **more: Any) -> None:
        self.number += 1
        entry = said(self.number, kind, "", self.leaf, **more)
        del entry["message"]
        if linked:
            self.leaf = str(entry["uuid"])
        else:
            del entry["uuid"], entry["parentUuid"]
        self.entries.append(entry)

    def _make(self, kind: str, pick: int) -> None:
        text = f"{kind} {self.number} é, long enough to be moved"
        match kind:
            case "prompt":
                self._prompt(text)
            case "branch" if self.points:
                self.leaf = self.points[pick % len(self.points)]
                self._prompt(text)
            case "answer":
                self._answer(
                    [{"type": "thinking", "thinking": text, "signature": "sig"}, {"type": "text", "text": text}], pick
                )
            case "calls":
                calls = [
                    {"type": "tool_use", "id": f"toolu_{self.number}_{one}", "name": "Bash", "input": {"command": text}}
                    for one in range(1 + pick % 3)
                ]
                self._answer([{"type": "text", "text": text}, *calls], pick)
            case "results":
                for call, entry in self.waiting[: 1 + pick % 3]:
                    block = {
                        "type": "tool_result",
                        "tool_use_id": call,
                        "content": f"{text} of {call}",
                        "is_error": pick % 4 == 0,
                    }
                    self._add("user", [block], parent=entry, toolUseResult={"stdout": text})
                del self.waiting[: 1 + pick % 3]
            case "aside":
                self._aside("file-history-snapshot", linked=False, snapshot={"n": self.number})
            case "system":
                self._aside("attachment" if pick % 2 else "system", linked=True, subtype="informational")
            case "turn end":
                self._aside("system", linked=True, subtype="turn_duration", durationMs=pick)
            case "title":
                self._aside("custom-title" if pick % 2 else "ai-title", linked=False, customTitle=text, aiTitle=text)
            case "compact":
                self._aside("system", linked=True, subtype="compact_boundary", compactMetadata={"trigger": "manual"})
                self.entries[-1] |= {"logicalParentUuid": self.entries[-1]["parentUuid"], "parentUuid": None}
                self._add("user", f"{SUMMARY}{text}", isCompactSummary=True, isVisibleInTranscriptOnly=True)
                self.points, self.waiting = [], []
            case _:
                pass

    def _prompt(self, text: str) -> None:
        self.points.append(self.leaf)
        self.waiting = []
        self._add("user", text if self.number % 2 else [{"type": "text", "text": text}])

    def _answer(self, blocks: list[Any], pick: int) -> None:
        name = f"msg_{self.number}"
        self.waiting = []
        for place, block in enumerate(blocks):
            usage = {"input_tokens": 10, "output_tokens": place + 1, "cache_read_input_tokens": pick}
            message = {"id": name, "model": "claude-x", "stop_reason": None, "usage": usage}
            entry = self._add("assistant", [block], message=message)
            if block["type"] == "tool_use":
                self.waiting.append((block["id"], entry))


def listed(messages: Sequence[Any]) -> list[Shown]:
    """Return what a model is shown of messages that the SDK lists: texts, calls with results."""
    blocks: list[tuple[str, Any]] = []
    for one in messages:
        content = one.message["content"]
        found = [{"type": "text", "text": content}] if isinstance(content, str) else content
        blocks += [(one.type, block) for block in found]
    outputs = {block["tool_use_id"]: block["content"] for _, block in blocks if block["type"] == "tool_result"}
    shown: list[Shown] = []
    for role, block in blocks:
        if block["type"] == "text":
            shown.append(_text(role, block["text"]))
        elif block["type"] == "tool_use":
            shown.append(
                ("call", block["id"], block["name"], block["input"]["command"], outputs.get(block["id"], INTERRUPTED))
            )
    return shown


def _text(role: str, text: str) -> Shown:
    """Return a text; a summary is the user's in a transcript, and the assistant's in a view."""
    return ("summary", text) if text.startswith(SUMMARY) else (role, text)


def viewed(messages: Iterable[NeutralMessage]) -> list[Shown]:
    """Return the same of the messages of a view."""
    parts = [(message.role, part) for message in messages for part in message.parts]
    outputs = {part.call: part.output for _, part in parts if isinstance(part, Result)}
    shown: list[Shown] = []
    for role, part in parts:
        if isinstance(part, Text) and part.text != ASKED:
            shown.append(_text(role, part.text))
        elif isinstance(part, Call):
            shown.append(("call", part.call, part.tool, decode(part.input)["command"], outputs[part.call]))
    return shown
