"""Recorded provider streams: each delta is an event, in order, and nothing is invented."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pytest

from eventlog import Store
from eventlog import events as ev
from eventlog.errors import ImportFormatError
from eventlog.importers import Report, detect, import_file
from eventlog.importers.streams.sse import kind_of_stream
from eventlog.values import File, Reasoning, Text, Tool
from tests.support.import_counts import (
    anthropic_counts,
    openai_counts,
    recorded,
    responses_counts,
    stored_counts,
    stream_records,
)
from tests.support.shared import shared_path

DATA = shared_path("data")
STREAMS = [*recorded(DATA, "sse"), *sorted((DATA / "anthropic_sdk").glob("*.*"))]
KIND = {path: kind_of_stream(path.read_bytes()[:65536]) for path in STREAMS}
ANTHROPIC = [path for path, kind in KIND.items() if kind == "anthropic_sse"]
OPENAI = [path for path, kind in KIND.items() if kind == "openai_chat_sse"]
RESPONSES = [path for path, kind in KIND.items() if kind == "openai_responses_sse"]
GEMINI = [path for path, kind in KIND.items() if kind == "gemini_stream"]
HAIKU: dict[str, Any] = {
    "id": "msg_1",
    "model": "claude-haiku",
    "content": [],
    "usage": {"input_tokens": 3, "output_tokens": 1},
}


def happened(store: Store, report: Report) -> list[ev.Event]:
    """Return the events of the one session that a stream makes."""
    (name,) = report.sessions
    return [found.event for found in store.session(name).events()]


def told(store: Store, report: Report) -> list[ev.Event]:
    """Return the events of a stream without the remainders of its records."""
    return [event for event in happened(store, report) if not isinstance(event, ev.ForeignKept)]


def stream(store: Store, *values: Any, done: bool = True) -> tuple[Report, list[ev.Event]]:
    """Import a stream of these records."""
    text = "".join(f"data: {json.dumps(value)}\n\n" for value in values)
    file = io.BytesIO((text + ("data: [DONE]\n\n" if done else "")).encode())
    file.name = "stream.sse"
    report = import_file(store, file)
    return report, told(store, report)


def chunk(delta: dict[str, Any] | None = None, reason: str | None = None, **more: Any) -> dict[str, Any]:
    """Make a chunk of a chat completion."""
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": reason}]
    base = {"id": "cmpl_1", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "gpt-x"}
    return {**base, "choices": choices, **more}


def block(index: int, started: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    """Make the records of a whole content block."""
    return [
        {"type": "content_block_start", "index": index, "content_block": started},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def end(reason: str, **usage: int) -> list[dict[str, Any]]:
    """Make the records that end an Anthropic message."""
    return [{"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}, {"type": "message_stop"}]


def test_counts_agree_and_a_second_import_adds_nothing(store: Store) -> None:
    """Counts of messages, calls and deltas agree with each stream; a repeat adds nothing."""
    assert len(ANTHROPIC) >= 32
    assert len(OPENAI) >= 99
    for path in ANTHROPIC:
        report = import_file(store, path)
        stored = stored_counts(store.session(name) for name in report.sessions)
        assert stored[:5] == anthropic_counts(path)[:5], path.name
        assert (report.messages, report.parts) == stored[:2]
    for path in OPENAI:
        report = import_file(store, path)
        stored = stored_counts(store.session(name) for name in report.sessions)
        counted = openai_counts(path)
        assert (stored.messages, stored.calls, stored.deltas) == (counted.messages, counted.calls, counted.deltas), (
            path.name
        )
        assert (report.messages, report.parts) == stored[:2]
    assert len(RESPONSES) >= 31
    for path in RESPONSES:
        report = import_file(store, path)
        stored = stored_counts(store.session(name) for name in report.sessions)
        assert stored._replace(deltas=0) == responses_counts(path), path.name
        assert (report.messages, report.parts, report.skipped) == (*stored[:2], [])
    position = store.log.last_positions()
    for path in [*ANTHROPIC, *OPENAI, *RESPONSES]:
        assert import_file(store, path).events == 0
    assert store.log.last_positions() == position


def leaves(value: Any) -> Iterator[str]:
    """Yield each field of a record with its value, except texts, as a text."""
    if isinstance(value, dict):
        for key, item in cast("dict[str, Any]", value).items():
            for inner in leaves(item):
                yield f"{key}.{inner}"
    elif isinstance(value, list):
        for item in value:  # pyright: ignore[reportUnknownVariableType]
            yield from leaves(item)
    else:
        yield json.dumps(value)


def test_fields_without_an_event_stay_readable(store: Store) -> None:
    """Each field of each record is kept aside, or is a text of an event; far from all twice."""
    raw = kept = 0
    for path in [*ANTHROPIC, *OPENAI, *RESPONSES, *GEMINI]:
        report = import_file(store, path)
        events = happened(store, report)
        aside = [json.loads(store.text(event.data)) for event in events if isinstance(event, ev.ForeignKept)]
        fields = {leaf for record in aside for leaf in leaves(record)}
        errors = [event.error.data or "{}" for event in events if isinstance(event, ev.MessageFinished) and event.error]
        fields |= {leaf for error in errors for leaf in leaves(json.loads(error))}
        for record in stream_records(path).values():
            for leaf in leaves(record) if isinstance(record, dict) else ():
                name = leaf.partition('."')[0] if leaf.endswith('"') else leaf.rpartition(".")[0]
                is_text = leaf.endswith('"') and f"{name}.null" in fields
                assert leaf in fields or is_text or name in {"sequence_number", "obfuscation"}, (path.name, leaf)
        raw += path.stat().st_size
        kept += sum(len(store.text(event.data)) for event in events if isinstance(event, ev.ForeignKept))
    assert kept < raw / 2


def test_a_stream_that_grows_goes_on_in_its_session(store: Store) -> None:
    """A stream cut at any record grows in its session; an older file adds nothing."""
    for path in (ANTHROPIC[1], OPENAI[1], RESPONSES[1], GEMINI[0]):
        lines = path.read_bytes().splitlines(keepends=True)
        file = io.BytesIO()
        file.name = path.name
        added = 0
        grown: Report | None = None
        for end in [*range(4, len(lines), 7), len(lines), len(lines) // 2]:
            file.seek(0)
            file.truncate()
            file.write(b"".join(lines[:end]))
            file.seek(0)
            grown = import_file(store, file, format=KIND[path])
            assert end != len(lines) // 2 or grown.events == 0
            added += grown.events
        assert grown is not None
        assert grown.sessions == [info.id for info in store.sessions() if info.title == path.name]
        assert added == len(happened(store, grown))


def test_texts_are_whole(store: Store) -> None:
    """A stream's deltas, joined in order, are its texts and inputs."""
    for path in OPENAI:
        texts: list[str] = []
        for line in path.read_text().split("\n"):
            found = line.removeprefix("data:").strip()
            choices: list[Any] = json.loads(found).get("choices", []) if found.startswith("{") else []
            texts.extend(choice["delta"].get("content") or "" for choice in choices)
        events = happened(store, import_file(store, path))
        kinds = {event.part: event.kind for event in events if isinstance(event, ev.PartStarted)}
        deltas = [event for event in events if isinstance(event, ev.PartDelta)]
        assert "".join(event.text for event in deltas if isinstance(kinds[event.part], Text)) == "".join(texts), (
            path.name
        )


def test_calls_wait_with_the_input_that_was_streamed(store: Store) -> None:
    """A call of the program stays pending with its deltas as input, as in a live answer."""
    seen = 0
    for path in [*ANTHROPIC, *OPENAI]:
        report = import_file(store, path)
        events = happened(store, report)
        ran = {event.part for event in events if isinstance(event, ev.ToolRunning)}
        for event in events:
            if isinstance(event, ev.PartStarted) and isinstance(event.kind, Tool) and not event.kind.provider_executed:
                assert event.part not in ran
                pieces = [
                    found.text for found in events if isinstance(found, ev.PartDelta) and found.part == event.part
                ]
                json.loads("".join(pieces) or "{}")
                seen += 1
    assert seen > 70


def test_nothing_ends_that_the_stream_does_not_end(store: Store) -> None:
    """A stream cut at any record leaves its message open and goes on in the same session."""
    for path in (ANTHROPIC[0], OPENAI[0]):
        lines = path.read_bytes().splitlines(keepends=True)
        file = io.BytesIO()
        file.name = path.name
        added = 0
        for line in lines[: len(lines) * 3 // 4]:
            file.seek(0, io.SEEK_END)
            file.write(line)
            file.seek(0)
            try:
                report = import_file(store, file)
            except ImportFormatError:
                continue
            added += report.events
            if report.sessions:
                assert not any(isinstance(event, ev.MessageFinished) for event in happened(store, report))
        file.seek(0)
        file.write(b"".join(lines))
        file.seek(0)
        report = import_file(store, file)
        assert added + report.events == len(happened(store, report))


def test_anthropic_blocks(store: Store) -> None:
    """Signatures and citations become metadata, provider tools get results, others reports."""
    report, events = stream(
        store,
        {"type": "message_start", "message": HAIKU},
        {"type": "ping"},
        *block(
            0,
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "thinking_delta", "thinking": "hm"},
            {"type": "signature_delta", "signature": "s1"},
        ),
        *block(1, {"type": "redacted_thinking", "data": "opaque"}),
        *block(
            2,
            {"type": "server_tool_use", "id": "srv", "name": "web_search", "input": {}},
            {"type": "input_json_delta", "partial_json": '{"q":'},
            {"type": "input_json_delta", "partial_json": "1}"},
        ),
        *block(3, {"type": "web_search_tool_result", "tool_use_id": "srv", "content": [{"title": "t"}]}),
        *block(
            4,
            {"type": "text", "text": ""},
            {"type": "text_delta", "text": "hi"},
            {"type": "citations_delta", "citation": {"url": "u"}},
        ),
        *block(5, {"type": "hologram"}),
        *end("end_turn", output_tokens=9),
        done=False,
    )
    assert [found.reason for found in report.skipped] == ["no part of a message: anthropic.hologram"]
    kinds = [event.kind for event in events if isinstance(event, ev.PartStarted)]
    assert [type(kind) for kind in kinds] == [Reasoning, Reasoning, Tool, Text]
    assert kinds[2] == Tool("srv", "web_search", provider_executed=True)
    metadata = [json.loads(event.metadata or "null") for event in events if isinstance(event, ev.PartEnded)]
    assert metadata == [
        {"anthropic": {"signature": "s1"}},
        {"anthropic": {"redactedData": "opaque"}},
        {"anthropic": {"citations": [{"url": "u"}]}},
    ]
    assert [event.output for event in events if isinstance(event, ev.ToolCompleted)] == ['[{"title":"t"}]']
    (usage,) = [event for event in events if isinstance(event, ev.UsageRecorded)]
    assert (usage.usage.tokens.input, usage.usage.tokens.output) == (3, 9)
    assert events[-1] == ev.MessageFinished("msg_1", "stop")


def test_an_error_ends_the_message(store: Store) -> None:
    """An error record closes open parts and is the message's error, with the provider's data."""
    start: dict[str, Any] = {"type": "message_start", "message": HAIKU}
    opened: list[Any] = [
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "so far"}},
        {
            "type": "content_block_start",
            "index": 1,
            "content_block": {"type": "tool_use", "id": "c", "name": "t", "input": {}},
        },
    ]
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    _, events = stream(store, start, *opened, error, done=False)
    finished = events[-1]
    assert isinstance(finished, ev.MessageFinished)
    assert finished.error is not None
    assert (finished.error.name, json.loads(finished.error.data or "")) == ("overloaded_error", error)
    assert [event.interrupted for event in events if isinstance(event, ev.ToolFailed)] == [True]
    path = next(path for path in OPENAI if "tool_use_failed_error_streaming_with_text.0" in path.name)
    last = told(store, import_file(store, path))[-1]
    assert isinstance(last, ev.MessageFinished)
    assert last.error is not None
    assert last.error.name == "tool_use_failed"


def test_openai_fields(store: Store) -> None:
    """Reasoning, refusals, calls by index, usage chunks and cost are read; choices reported."""
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "total_tokens": 120,
        "prompt_tokens_details": {"cached_tokens": 60},
        "completion_tokens_details": {"reasoning_tokens": 5},
        "cost": 0.00020436,
    }
    signature = [{"type": "reasoning.text", "signature": "s1", "text": ""}]
    other = chunk({"content": "x"})
    other["choices"][0]["index"] = 1
    report, events = stream(
        store,
        chunk({"role": "assistant", "content": ""}),
        chunk({"reasoning_content": "hm"}),
        chunk({"reasoning_details": signature}),
        chunk({"content": "hi"}),
        other,
        chunk({"refusal": "no"}),
        chunk({"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "a", "arguments": '{"x"'}}]}),
        chunk({"tool_calls": [{"index": 1, "id": "c2", "function": {"name": "b", "arguments": ""}}]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": ":1}"}}]}),
        chunk({"tool_calls": [{"index": 2, "id": "c3", "function": {"name": "c", "arguments": '{"brok'}}]}),
        chunk({}, "tool_calls"),
        chunk(None, usage=usage),
    )
    assert [found.reason.split(":")[0] for found in report.skipped] == [
        "choice 1 and its later chunks",
        "a call whose input is not whole",
    ]
    kinds = [event.kind for event in events if isinstance(event, ev.PartStarted)]
    assert kinds == [Reasoning(), Text(), Text(), Tool("c1", "a"), Tool("c2", "b"), Tool("c3", "c")]
    metadata = [json.loads(event.metadata or "null") for event in events if isinstance(event, ev.PartEnded)]
    signed = [{"type": "reasoning.text", "signature": "s1"}]
    assert metadata == [{"openrouter": {"reasoning_details": signed}}, None, {"openai": {"refusal": True}}]
    (failed,) = [event for event in events if isinstance(event, ev.ToolFailed)]
    assert '{"brok' in str(failed.error)
    assert [event.part for event in events if isinstance(event, ev.ToolRunning)] == [failed.part]
    (recorded_usage,) = [event.usage for event in events if isinstance(event, ev.UsageRecorded)]
    tokens = recorded_usage.tokens
    assert (tokens.input, tokens.cache_read, tokens.output, tokens.reasoning, tokens.total) == (40, 60, 20, 5, 120)
    assert recorded_usage.cost == Decimal("0.00020436")
    assert [event.reason for event in events if isinstance(event, ev.StepFinished)] == ["tool-calls"]
    assert not any(isinstance(event, ev.MessageFinished) for event in events)


def test_times_come_from_the_stream(store: Store) -> None:
    """Times come from `created` plus a millisecond per record, or from 1970: no clock."""
    report, _ = stream(store, chunk({"content": "a"}), chunk({"content": "b"}), chunk({}, "stop"))
    recorded_events = store.session(report.sessions[0]).events()
    times = [found.time for found in recorded_events if not isinstance(found.event, ev.ForeignKept)]
    assert (times[0], times[-1]) == (1_700_000_000_000, 1_700_000_000_002)
    report = import_file(store, ANTHROPIC[0])
    assert all(found.time < 60_000 for found in store.session(report.sessions[0]).events())


def test_responses_items(store: Store) -> None:
    """Reasoning, refusals, calls, results, prompt and tools of a response become events."""
    base = {
        "id": "resp_1",
        "created_at": 1_700_000_000,
        "model": "gpt-x",
        "instructions": "Be brief.",
        "tools": [{"type": "x"}],
    }
    usage = {"input_tokens": 9, "input_tokens_details": {"cached_tokens": 4}, "output_tokens": 3, "total_tokens": 12}

    def of(kind: str, **more: Any) -> dict[str, Any]:
        return {"type": f"response.{kind}", **more}

    def whole(item: dict[str, Any], *between: dict[str, Any]) -> list[dict[str, Any]]:
        bare = {
            key: value
            for key, value in item.items()
            if key in {"type", "id", "name", "call_id", "environment", "execution"}
        }
        return [of("output_item.added", item=bare), *between, of("output_item.done", item=item)]

    shell = {"type": "shell_call", "id": "sh_1", "call_id": "c9", "environment": {"type": "container_reference"}}
    report, events = stream(
        store,
        of("created", response=base),
        *whole(
            {"type": "reasoning", "id": "rs_1", "encrypted_content": "opaque"},
            of("reasoning_summary_part.added", item_id="rs_1", summary_index=0),
            of("reasoning_summary_text.delta", item_id="rs_1", summary_index=0, delta="hm"),
        ),
        *whole(
            {"type": "message", "id": "msg_1"},
            of("refusal.delta", item_id="msg_1", content_index=0, delta="no"),
        ),
        *whole(
            {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}}
        ),
        *whole({"type": "mcp_call", "id": "mcp_1", "name": "roll", "arguments": "{}", "error": "down"}),
        *whole(shell | {"action": {"commands": ["ls"]}}, of("shell_call_command.delta", delta="ls")),
        of("shell_call_output_content.delta", item_id="sho_1", delta={"stdout": "a.txt"}),
        *whole({"type": "shell_call_output", "id": "sho_1", "call_id": "c9", "output": [{"stdout": "a.txt"}]}),
        *whole({"type": "image_generation_call", "id": "ig_1", "result": "AAAA"}),
        *whole(
            {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": '{"x":1}'},
            of("function_call_arguments.delta", item_id="fc_1", delta='{"x":1}'),
        ),
        *whole({"type": "function_call", "id": "fc_2", "call_id": "c2", "name": "g", "arguments": '{"x"'})[:1],
        *whole({"type": "hologram", "id": "h_1"}),
        of("completed", response=base | {"status": "completed", "usage": usage}),
        of("created", response={"id": "resp_2"}),
        of("failed", response={"status": "failed", "error": {"code": "server_error", "message": "oops"}}),
        done=False,
    )
    assert [found.reason for found in report.skipped] == ["no part of a message: openai.hologram"]
    assert ev.SystemPromptSet("Be brief.") in events
    assert ev.ToolsSet('[{"type":"x"}]') in events
    tools = [event.kind for event in events if isinstance(event, ev.PartStarted) and isinstance(event.kind, Tool)]
    assert [(kind.tool, kind.provider_executed) for kind in tools] == [
        ("web_search", True),
        ("roll", True),
        ("shell", True),
        ("image_generation", True),
        ("f", False),
        ("g", False),
    ]
    metadata = [json.loads(event.metadata or "null") for event in events if isinstance(event, ev.PartEnded)]
    assert metadata == [
        {"openai": {"itemId": "rs_1", "reasoningEncryptedContent": "opaque"}},
        {"openai": {"itemId": "msg_1", "refusal": True}},
    ]
    inputs = [event.input for event in events if isinstance(event, ev.ToolRunning)]
    assert inputs == ['{"type":"search","query":"q"}', "{}", '{"commands":["ls"]}', "{}"]
    done = [(event.output, len(event.attachments)) for event in events if isinstance(event, ev.ToolCompleted)]
    assert done == [("", 0), ('[{"stdout":"a.txt"}]', 0), ("", 0)]
    kinds = [event.kind for event in events if isinstance(event, ev.PartStarted)]
    assert File("image/png", "data:image/png;base64,AAAA") in kinds
    assert [event.error for event in events if isinstance(event, ev.ToolFailed)] == ["down"]
    pieces = [event.text for event in events if isinstance(event, ev.PartDelta)]
    assert pieces == ["hm", "no", '{"type":"search","query":"q"}', "{}", '{"commands":["ls"]}', '{"x":1}']
    (spent,) = [event.usage.tokens for event in events if isinstance(event, ev.UsageRecorded)]
    assert (spent.input, spent.cache_read, spent.output, spent.total) == (5, 4, 3, 12)
    finished = [event for event in events if isinstance(event, ev.MessageFinished)]
    assert [(event.message, event.error and event.error.name) for event in finished] == [("resp_2", "server_error")]
    assert [event.reason for event in events if isinstance(event, ev.StepFinished)] == ["tool-calls", "error"]


def test_other_streams_are_refused_by_name() -> None:
    """Streams of unsupported formats are refused by name and never misread."""
    others = [path for path in STREAMS if path not in {*ANTHROPIC, *OPENAI, *RESPONSES, *GEMINI}]
    assert len(others) >= 10
    assert {KIND[path] for path in others} == {"bedrock_stream", "ollama_stream"}
    for path in others:
        with pytest.raises(ImportFormatError, match=KIND[path]):
            detect(path.read_bytes()[:65536], str(path))


def test_the_path_is_a_streams_identity(store: Store, tmp_path: Path) -> None:
    """One stream under two paths is two sessions; under one path, however written, one."""
    content = ANTHROPIC[0].read_bytes()
    for name in ("a.sse", "b.sse"):
        (tmp_path / name).write_bytes(content)
    (tmp_path / "x").mkdir()
    first = import_file(store, tmp_path / "a.sse")
    assert import_file(store, tmp_path / "b.sse").sessions != first.sessions
    again = import_file(store, f"{tmp_path}/x/../a.sse")
    assert (again.sessions, again.events) == (first.sessions, 0)


def test_an_error_after_a_message_records_no_usage_again(store: Store) -> None:
    """An error that comes after a finished message is a message of its own, without usage."""
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "later"}}
    _, events = stream(
        store, {"type": "message_start", "message": HAIKU}, *end("end_turn", output_tokens=7), error, done=False
    )
    assert [event.message for event in events if isinstance(event, ev.UsageRecorded)] == ["msg_1"]
    assert [event.error and event.error.name for event in events if isinstance(event, ev.MessageFinished)] == [
        None,
        "overloaded_error",
    ]
