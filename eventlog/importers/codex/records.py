"""Records of a Codex rollout: reading and recognising them; old shapes become today's.

Today's records are `{timestamp, type, payload}`.  Older files have the item itself on the line,
after a first line with the session's data.  The oldest have `role` and a text, or a call's
`function`, beside a time.

A rollout has messages twice: items for the model, events for the screen. The item is imported,
because it has more.  An event waits for its item, and is imported itself when the conversation goes
on without one.  Either may come first.  Messages are matched by their text within a turn, so the
events of a record depend on that record and earlier ones only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

from eventlog.importers.common.importer import Report
from eventlog.importers.common.json_lines import OBJECT, has_record, is_object, lines, milliseconds, title_of
from eventlog.importers.common.record_index import RecordIndex
from eventlog.importers.common.torn_lines import values
from eventlog.importers.openai.items import texts_of
from eventlog.streams.records import text_of

OUTER = frozenset({"session_meta", "turn_context", "response_item", "event_msg", "compacted"})
ITEMS = frozenset(
    {
        "message", "reasoning", "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output",
        "local_shell_call", "local_shell_call_output", "web_search_call", "tool_search_call", "tool_search_output",
        "image_generation_call", "ghost_snapshot", "compaction", "compaction_summary", "agent_message", "tool_call",
        "tool_result", "function_result",
    }
)  # fmt: skip
"""Types of response items."""
_SUMMARY = "Another language model started to solve this problem"
"""How the message begins in which Codex hands a summary to the model."""
_INJECTED = (
    "<environment_context>", "<user_instructions>", "<turn_aborted>", "<permissions instructions>", "<skill>", "<INSTRUCTIONS>",
    "<user_shell_command>", "<subagent_notification>", "<collaboration_mode>", "# AGENTS.md instructions", "<apps_instructions>",
    "<skills_instructions>", "<recommended_plugins>",
)  # fmt: skip
"""Beginnings of texts that Codex writes in the user's name."""


class CodexRecord(NamedTuple):
    """A record as read; `kind` and `payload` are in today's shape."""

    line: int
    record: Any
    plain: bool
    kind: str
    payload: dict[str, Any]
    time: int | None


def is_codex(start: bytes) -> bool:
    """Whether one of the first lines of a file is a record of Codex."""
    return has_record(start, 20, _is_record, lambda data: b'"session_meta"' in data[:200] and b'"payload"' in data)


def _is_record(record: dict[str, Any]) -> bool:
    if text_of(record.get("type")) in OUTER:
        return is_object(record.get("payload")) and "timestamp" in record
    if _is_old_meta(record):
        return True
    if "timestamp" not in record and "created_at" not in record:
        return False
    if text_of(record.get("type")) in {"tool_call", "function_call"}:
        return is_object(record.get("function")) and "arguments" in record and "choices" not in record
    return text_of(record.get("role")) in {"user", "assistant"} and "created_at" in record and "message" in record


def _is_old_meta(record: dict[str, Any]) -> bool:
    """Whether this is the first line of a rollout of the time before records had a type."""
    return (
        "type" not in record
        and "role" not in record
        and isinstance(record.get("id"), str)
        and "timestamp" in record
        and ("instructions" in record or "git" in record)
    )


def entries(file: BinaryIO, report: Report, seen: RecordIndex, after: int = 0) -> Iterator[CodexRecord]:
    """Yield the records of the file, `after` lines of which were read.

    Damaged and repeated lines are reported. A line is repeated when it equals an earlier line, its
    time included; `seen` has those.
    """
    for number, value, plain, data in values(lines(file, after=after), report, _is_whole):
        entry = _entry(number, value, plain=plain)
        if entry.time is not None and not seen.put(data, 0):
            report.skip(number, "equal to an earlier line, time and all")
            entry = entry._replace(kind="repeated", payload={})
        yield entry


def _is_whole(record: dict[str, Any]) -> bool:
    """Whether an object on a torn line is a record, not an item inside one."""
    return (isinstance(record.get("type"), str) and "payload" in record) or _is_record(record)


def _entry(line: int, value: Any, *, plain: bool) -> CodexRecord:
    if not isinstance(value, OBJECT):
        return CodexRecord(line, value, plain, "", {}, None)
    record: dict[str, Any] = value
    time = milliseconds(record.get("timestamp", record.get("created_at")))
    kind, payload = record.get("type"), record.get("payload")
    if payload is not None and kind and isinstance(kind, str):
        return CodexRecord(line, record, plain, kind, payload if isinstance(payload, OBJECT) else {}, time)
    return _older(line, record, plain, text_of(kind), time)


def _older(line: int, value: dict[str, Any], plain: bool, kind: str, time: int | None) -> CodexRecord:
    """Return a record of an older shape in today's."""
    if "payload" in value and kind:
        return CodexRecord(line, value, plain, kind, {}, time)
    if kind in ITEMS or (not kind and isinstance(value.get("role"), str)):
        return CodexRecord(line, value, plain, "response_item", value, time)
    if _is_old_meta(value):
        return CodexRecord(line, value, plain, "session_meta", value, time)
    if kind == "error":
        return CodexRecord(line, value, plain, "event_msg", value, time)
    return CodexRecord(line, value, plain, "state" if "record_type" in value else kind, {}, time)


def parent_of(meta: dict[str, Any]) -> tuple[str | None, str]:
    """Return the session that a sub-agent's session works for, and the agent's name."""
    source = meta.get("source")
    inner = source.get("subagent") if is_object(source) else None
    spawn = inner.get("thread_spawn") if is_object(inner) else None
    fields = spawn if is_object(spawn) else {}
    parent = text_of(meta.get("parent_thread_id")) or text_of(fields.get("parent_thread_id"))
    name = (
        inner if isinstance(inner, str) else text_of(fields.get("agent_role")) or text_of(fields.get("agent_nickname"))
    )
    return parent or None, name


def injected(text: str) -> bool:
    """Whether Codex wrote this text in the user's name."""
    return text.lstrip().startswith(_INJECTED)


def summary_of(history: list[dict[str, Any]]) -> str:
    """Return the summary in the history that a compaction left, "" if none can be read."""
    texts = texts_of(history[-1].get("content")) if history else []
    return next((text for text in texts if text.startswith(_SUMMARY)), "")


def prompt_of(texts: list[str]) -> str:
    """Return the first line of a user's prompt as a title; "" if Codex wrote it."""
    for text in texts:
        if text.strip() and not injected(text):
            return title_of(text)
    return ""


RECENT = 64
"""Texts that are remembered of a turn."""


class ScreenEvent(NamedTuple):
    """Event that shows a text of the "user", the "assistant" or "reasoning"."""

    kind: str
    text: str
    line: int
    time: int
    images: tuple[str, ...] = ()


class Duplicates:
    """Events that wait for their items, and what was imported in this turn."""

    def __init__(self) -> None:
        self._waiting: list[ScreenEvent] = []
        self._items: deque[tuple[str, int]] = deque(maxlen=RECENT)
        self._events: deque[tuple[str, int]] = deque(maxlen=RECENT)

    def add_event(self, event: ScreenEvent) -> None:
        """Let an event wait for its item, unless the item has come."""
        key = (event.kind, hash(event.text))
        if key in self._items:
            self._items.remove(key)
        else:
            self._waiting.append(event)

    def add_item(self, kind: str, texts: list[str]) -> bool:
        """Note an item; whether to import it, as no event with its text was imported."""
        known = False
        for text in texts if kind == "reasoning" else dict.fromkeys([*texts, "".join(texts), "\n".join(texts)]):
            key = (kind, hash(text))
            found = next((event for event in self._waiting if (event.kind, event.text) == (kind, text)), None)
            if found is not None:
                self._waiting.remove(found)
            elif key in self._events:
                self._events.remove(key)
                known = True
            else:
                self._items.append(key)
        return not known

    def pop_unmatched(self, kinds: tuple[str, ...]) -> list[ScreenEvent]:
        """Remove and return the events of these kinds that no item repeats, in order."""
        if not self._waiting:
            return []
        due = [event for event in self._waiting if event.kind in kinds]
        self._waiting = [event for event in self._waiting if event.kind not in kinds]
        self._events.extend((event.kind, hash(event.text)) for event in due)
        return due

    def waiting(self) -> list[ScreenEvent]:
        """Return the events that still wait."""
        return self._waiting

    def begin_turn(self) -> None:
        """Begin a turn, in which the model may repeat texts of the turn before."""
        self._events.clear()
        prompts = [key for key in self._items if key[0] == "user"]
        self._items.clear()
        self._items.extend(prompts)
