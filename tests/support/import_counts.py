"""Counts of messages, parts, calls and results of a file, independent of the importers."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

from eventlog import Session
from eventlog import events as ev
from eventlog.values import INTERRUPTED, Tool


class Counts(NamedTuple):
    """Counts of each kind; `deltas` are pieces of streamed text, input included."""

    messages: int = 0
    parts: int = 0
    calls: int = 0
    results: int = 0
    deltas: int = 0
    output_tokens: int = 0


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Whether a JSON value is an object."""
    return isinstance(value, dict)


def is_array(value: object) -> TypeGuard[list[Any]]:
    """Whether a JSON value is an array."""
    return isinstance(value, list)


def recorded(data: Path, *formats: str) -> list[Path]:
    """Recorded files whose format, in the folder's index, begins with one of the words."""
    rows = [line.split("|") for line in (data / "INDEX.md").read_text().splitlines() if line.count("|") > 8]
    return [data / row[1].strip() for row in rows if row[4].strip().startswith(formats)]


def claude_lines(path: Path) -> list[tuple[int, Any]]:
    """The JSON values of a file, each with its line, which may have two; without damaged ones."""
    if path.suffix == ".json":
        entries: list[Any] = json.loads(path.read_text())["loglines"]
        return list(enumerate(entries, start=1))
    found: list[tuple[int, Any]] = []
    for number, line in enumerate(path.read_text().split("\n"), start=1):
        rest = line.strip()
        while rest:
            try:
                value, end = json.JSONDecoder().raw_decode(rest)
            except ValueError:
                break
            found.append((number, value))
            rest = rest[end:].strip()
    return found


def _blocks(record: Any) -> list[Any] | None:
    """The content blocks of a record's message, None when it has none."""
    if not is_object(record) or not is_object(record.get("message")):
        return None
    content: Any = record["message"].get("content")
    if content is None:
        return None
    items: list[Any] = content if is_array(content) else [content]
    return [item if is_object(item) else {"type": "text"} for item in items]


def claude_counts(path: Path) -> Counts:
    """Counts of a Claude Code file: assistant records of one message id are one message."""
    seen: set[Any] = set()
    answers: dict[Any, int] = {}
    calls: set[str] = set()
    results: set[str] = set()
    messages = parts = 0
    for number, record in claude_lines(path):
        blocks = _blocks(record)
        if blocks is None or record.get("uuid", number) in seen:
            continue
        seen.add(record.get("uuid", number))
        kinds = [block["type"] for block in blocks]
        parts += len(kinds) - kinds.count("tool_result")
        calls |= {block["id"] for block in blocks if block["type"] == "tool_use"}
        results |= {block["tool_use_id"] for block in blocks if block["type"] == "tool_result"}
        if record["type"] == "assistant":
            message = record["message"]
            answers[message.get("id", number)] = message.get("usage", {}).get("output_tokens", 0)
        elif set(kinds) != {"tool_result"}:
            messages += 1
    return Counts(messages + len(answers), parts, len(calls), len(results & calls), 0, sum(answers.values()))


def _stream(path: Path) -> list[dict[str, Any]]:
    lines = [line.removeprefix("data:").strip() for line in path.read_text().split("\n")]
    return [json.loads(line) for line in lines if line.startswith("{")]


def anthropic_counts(path: Path) -> Counts:
    """Counts of an Anthropic stream."""
    records = _stream(path)
    starts = {record["message"]["id"]: record["message"] for record in records if record["type"] == "message_start"}
    blocks = [record["content_block"] for record in records if record["type"] == "content_block_start"]
    blocks += [block for message in starts.values() for block in message["content"]]
    deltas = [record["delta"] for record in records if record["type"] == "content_block_delta"]
    kinds = [block["type"] for block in blocks]
    calls = sum(kind.endswith("tool_use") for kind in kinds)
    return Counts(
        len(starts),
        calls + sum(kind in {"text", "thinking", "redacted_thinking", "compaction"} for kind in kinds),
        calls,
        sum(kind.endswith("tool_result") for kind in kinds),
        sum(bool(block.get("input")) for block in blocks)
        + sum(bool(delta.get("text") or delta.get("thinking") or delta.get("partial_json")) for delta in deltas),
    )


def openai_counts(path: Path) -> Counts:
    """Count an OpenAI Chat stream: calls, and text deltas that are not empty."""
    calls: set[Any] = set()
    deltas = 0
    for record in _stream(path):
        for choice in record.get("choices", []):
            delta = choice["delta"]
            texts = [delta.get("content"), delta.get("reasoning") or delta.get("reasoning_content")]
            pieces: list[Any] = delta.get("tool_calls") or []
            for call in pieces:
                calls.add(call.get("index", call.get("id")))
                texts.append(call["function"].get("arguments"))
            deltas += sum(bool(text) for text in texts)
    return Counts(1, 0, len(calls), 0, deltas)


def stored_counts(sessions: Iterable[Session]) -> Counts:
    """Count the events of a file's sessions, without the markers of compactions."""
    happened = [found.event for session in sessions for found in session.events()]
    kinds = [type(event) for event in happened]
    results = [event for event in happened if isinstance(event, (ev.ToolCompleted, ev.ToolFailed))]
    return Counts(
        kinds.count(ev.UserMessageAdded)
        + kinds.count(ev.AssistantMessageStarted)
        - kinds.count(ev.CompactionRequested),
        kinds.count(ev.PartStarted),
        sum(isinstance(event, ev.PartStarted) and isinstance(event.kind, Tool) for event in happened),
        sum(not (isinstance(event, ev.ToolFailed) and event.error == INTERRUPTED) for event in results),
        kinds.count(ev.PartDelta),
        sum(event.usage.tokens.output for event in happened if isinstance(event, ev.UsageRecorded)),
    )


def codex_counts(path: Path) -> Counts:
    """Count a Codex rollout of today's shape, from its items alone."""
    messages = parts = results = 0
    calls: set[Any] = set()
    answering = False
    total: dict[str, int] = {}
    for line in path.read_text().splitlines():
        record = json.loads(line)
        item = record["payload"]
        kind = item.get("type", "")
        if record["type"] == "compacted":
            left: list[Any] = item["replacement_history"]
            if not item["message"] and any(entry["type"] == "compaction" for entry in left):
                messages, parts, answering = messages + (not answering), parts + 1, True
                continue
            again = left if item["message"] else [entry for entry in left if entry["type"] != "message"]
            messages += 1 + sum(entry["type"] == "message" for entry in again)
            parts += sum(len(entry["content"]) if entry["type"] == "message" else 1 for entry in again)
            answering = False
        elif kind == "token_count" and is_object(item["info"]):
            answering = answering and item["info"]["total_token_usage"] == total
            total = item["info"]["total_token_usage"]
        elif record["type"] == "event_msg":
            answering = answering and kind not in {"task_complete", "turn_aborted"}
        elif record["type"] != "response_item":
            continue
        elif kind.endswith("_output"):
            results += item["call_id"] in calls
            answering = False
        elif kind == "message" and item["role"] != "assistant":
            messages += 1
            parts += len(item["content"])
            answering = False
        else:
            said = 1
            if kind == "message":
                said = len(item["content"])
            elif kind == "reasoning":
                said = len(item["summary"]) or int("encrypted_content" in item)
            else:
                calls.add(item.get("call_id", line))
                results += kind == "web_search_call"
            messages += bool(said) and not answering
            parts += said
            answering = answering or bool(said)
    return Counts(messages, parts, len(calls), results, 0, total.get("output_tokens", 0))


def responses_counts(path: Path) -> Counts:
    """Counts of a Responses stream without deltas: texts by place, calls and outputs by item."""
    places: set[Any] = set()
    calls: set[Any] = set()
    messages: set[Any] = set()
    results = tokens = images = 0
    for record in _stream(path):
        kind: str = record["type"]
        item: dict[str, Any] = record.get("item", {})
        if kind == "response.created":
            messages.add(record["response"]["id"])
        elif kind == "response.completed":
            usage: dict[str, int] = record["response"]["usage"] or {}
            tokens += usage.get("output_tokens", 0)
        elif kind in {"response.content_part.added", "response.output_text.delta", "response.reasoning_text.delta"}:
            places.add((record["item_id"], record["content_index"]))
        elif kind == "response.output_item.added" and item["type"].endswith("_call"):
            calls.add(item["id"])
        elif kind == "response.output_item.done":
            hosted = item["type"].startswith(("web_search", "code_", "mcp_call", "image_", "file_search"))
            results += hosted or item["type"].endswith("_output")
            images += item["type"] == "image_generation_call" and bool(item.get("result"))
            if item["type"] == "reasoning":
                places |= set() if any(place[0] == item["id"] for place in places) else {(item["id"], 0)}
    return Counts(len(messages), len(places) + len(calls) + images, len(calls), results, 0, tokens)


def message_counts(messages: list[Any]) -> Counts:
    """Count a list of OpenAI messages; a leading system prompt is no message."""
    said = [message for message in messages if message["role"] != "system"]
    calls: list[Any] = []
    for message in said:
        calls += message.get("tool_calls") or []
    answered = [
        message for message in said if message["role"] == "tool" and message.keys() & {"tool_call_id", "tool_call_ids"}
    ]
    texts = sum(bool(message.get("content") is not None) for message in said if message not in answered)
    texts += sum(bool(message.get("reasoning_content")) for message in said)
    return Counts(len(said) - len(answered), texts + len(calls), len(calls), len(answered))


def stream_records(path: Path) -> dict[int, Any]:
    """The records of a stream by line, `[DONE]` as a text."""
    found: dict[int, Any] = {}
    for number, line in enumerate(path.read_text().split("\n"), start=1):
        data = line.strip("\ufeff \t\r").removeprefix("data:").strip()
        if data.startswith("{"):
            found[number] = json.loads(data)
        elif data == "[DONE]":
            found[number] = data
    return found
