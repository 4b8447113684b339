"""A second reader of recorded histories, written from the formats alone."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from projections import Transcript

Item = tuple[str, str, str]
"""Role, kind (text, reasoning, call or result) and text: for a call, name and arguments."""

UNANSWERED = "[Tool execution was interrupted]"
"""The store's own words for a call whose history has no result."""


def call_text(name: str, arguments: Any) -> str:
    """Return a call's name and arguments as one JSON text whose keys are sorted."""
    return json.dumps([name, arguments], sort_keys=True, ensure_ascii=False)


def read_gemini_cli(path: Path) -> list[Item]:
    """Read a Gemini CLI session: thoughts, then the text, then each call with its result."""
    items: list[Item] = []
    for message in json.loads(path.read_text())["messages"]:
        role = {"user": "user", "gemini": "assistant"}.get(message["type"])
        if role is None:
            continue
        for thought in message.get("thoughts", []):
            items += [(role, "reasoning", thought[key]) for key in ("subject", "description") if thought[key]]
        if message["content"]:
            items.append((role, "text", message["content"]))
        for call in message.get("toolCalls", []):
            items.append((role, "call", call_text(call["name"], call["args"])))
            for answer in call.get("result", []):
                items.append((role, "result", answer["functionResponse"]["response"]["output"]))
    return items


def read_pi(path: Path) -> list[Item]:
    """Read a pi session: blocks in order, each call followed by the result that names it."""
    lines = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    messages = [line["message"] for line in lines if line["type"] == "message"]
    results: dict[str, str] = {}
    for message in messages:
        if message["role"] == "toolResult":
            assert message["toolCallId"] not in results
            results[message["toolCallId"]] = "\n".join(block["text"] for block in message["content"])
    items: list[Item] = []
    for message in messages:
        role = message["role"]
        blocks: list[Any] = message["content"] if role != "toolResult" else []
        for block in blocks:
            if block["type"] == "toolCall":
                items.append((role, "call", call_text(block["name"], block["arguments"])))
                if block["id"] in results:
                    items.append((role, "result", results.pop(block["id"])))
            elif block["type"] == "thinking":
                items.append((role, "reasoning", block["thinking"]))
            else:
                items.append((role, "text", block["text"]))
    assert not results
    return items


def aider_lines(text: str) -> Iterator[tuple[str, str]]:
    """Give each line with its speaker: fenced lines are the assistant's, however they begin."""
    fence = ""
    for line in text.splitlines():
        if fence:
            fence = "" if line.strip() == fence else fence
        elif line.startswith("####"):
            yield "user", line[5:].rstrip()
            continue
        elif line.startswith(("> ", "# ")) or line == ">":
            yield "aider", line
            continue
        elif line.startswith("```"):
            fence = line[: len(line) - len(line.lstrip("`"))]
        yield "assistant", line


def read_aider(path: Path) -> list[Item]:
    """Read an aider chat history; a command such as `/add` is not for the model."""
    items: list[Item] = []
    for role, group in itertools.groupby(aider_lines(path.read_text()), key=lambda line: line[0]):
        text = "\n".join(line for _, line in group).strip()
        if text and role != "aider" and not (role == "user" and text.startswith("/")):
            items.append((role, "text", text))
    return items


def read_roles(path: Path) -> list[Item]:
    """Read a list of roles and contents; `counselor` answers, `system` is no message."""
    text = path.read_text()
    messages: Any = json.loads(text)
    if text.startswith("{"):
        messages = messages.get("traj") or messages["history"]
    results: dict[str, list[str]] = {}
    for message in messages:
        if message["role"] == "tool":
            name: str = (message.get("tool_call_ids") or [message["tool_call_id"]])[0]
            results.setdefault(name, []).append(message["content"])
    items: list[Item] = []
    for message in messages:
        if message["role"] in ("system", "tool"):
            continue
        role = "assistant" if message["role"] in ("assistant", "counselor") else "user"
        if message["content"]:
            items.append((role, "text", message["content"]))
        calls: list[Any] = message.get("tool_calls") or []
        for call in calls:
            function = call["function"]
            items.append((role, "call", call_text(function["name"], json.loads(function["arguments"]))))
            if results.get(call["id"]):
                items.append((role, "result", results[call["id"]].pop(0)))
    assert not any(results.values())
    return items


def read_codex(path: Path) -> list[Item]:
    """Read the response items of a Codex rollout; what the developer says, the model is told."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    payloads = [line["payload"] for line in lines if line["type"] == "response_item"]
    results: dict[str, str] = {}
    for payload in payloads:
        if payload["type"] in ("function_call_output", "custom_tool_call_output"):
            assert payload["call_id"] not in results
            results[payload["call_id"]] = payload["output"]
    items: list[Item] = []
    for payload in payloads:
        kind = payload["type"]
        if kind == "message":
            role = "assistant" if payload["role"] == "assistant" else "user"
            items += [(role, "text", block["text"]) for block in payload["content"]]
        elif kind == "reasoning":
            items += [("assistant", "reasoning", block["text"]) for block in payload["summary"]]
        elif kind == "web_search_call":
            items.append(("assistant", "call", call_text("web_search", payload["action"])))
            items.append(("assistant", "result", ""))
        elif kind in ("function_call", "custom_tool_call"):
            custom = kind == "custom_tool_call"
            arguments: Any = {"input": payload["input"]} if custom else json.loads(payload["arguments"])
            items.append(("assistant", "call", call_text(payload["name"], arguments)))
            if payload["call_id"] in results:
                items.append(("assistant", "result", results.pop(payload["call_id"])))
        else:
            assert kind in ("function_call_output", "custom_tool_call_output"), kind
    assert not results
    return items


def read_claude_code(path: Path) -> list[Item]:
    """Read a Claude Code transcript of one branch, each call with its result."""
    records: dict[str, Any] = {}
    for line in path.read_text().splitlines():
        with contextlib.suppress(json.JSONDecodeError):  # a torn line is no record
            record = json.loads(line)
            if record["type"] in ("user", "assistant"):
                records.setdefault(record["uuid"], record)
    blocks: list[tuple[str, Any]] = []
    for record in records.values():
        content = record["message"]["content"]
        listed: list[Any] = [{"type": "text", "text": content}] if content == f"{content}" else content
        blocks += [(record["type"], block) for block in listed]
    results: dict[str, str] = {}
    for _, block in blocks:
        if block["type"] == "tool_result":
            found = block["content"]
            told = found if found == f"{found}" else "\n".join(piece["text"] for piece in found)
            results[block["tool_use_id"]] = told
    items: list[Item] = []
    for role, block in blocks:
        if block["type"] == "tool_use":
            items.append((role, "call", call_text(block["name"], block["input"])))
            if block["id"] in results:
                items.append((role, "result", results.pop(block["id"])))
        elif block["type"] == "text" and block["text"]:
            items.append((role, "text", block["text"]))
        elif block["type"] == "thinking" and block["thinking"]:
            items.append((role, "reasoning", block["thinking"]))
    assert not results
    return items


def read_transcript(transcript: Transcript) -> list[Item]:
    """Read what the store holds, in the same words."""
    items: list[Item] = []
    for message in transcript.oldest_first():
        for part in message.parts:
            if part.kind == "tool":
                items.append((message.role, "call", call_text(part.tool, json.loads(str(part.input)))))
                if part.status in ("completed", "failed") and part.error != UNANSWERED:
                    items.append((message.role, "result", part.error or part.text))
            elif part.text:
                items.append((message.role, part.kind, part.text))
    return items
