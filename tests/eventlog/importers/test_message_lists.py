"""Message lists: requests, replies and files of them, detected strictly, exported whole."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eventlog import Store
from eventlog import events as ev
from eventlog.errors import ImportFormatError
from eventlog.importers import Report, detect, import_file
from eventlog.importers.common.remainder import emit
from eventlog.values import File, Model, Reasoning, Text, Tool
from tests.support.import_counts import is_array, message_counts, recorded, stored_counts
from tests.support.shared import shared_path
from tests.support.source_documents import document

DATA = shared_path("data")
LISTS = [
    *recorded(DATA, "openai_messages", "mini_swe_agent", "swe_agent_traj"),
    *(
        path
        for path in recorded(DATA, "fixture:jsonl")
        if "__vibe__" in path.name or ("legacy" in path.name and "chat" in path.name)
    ),
]
OTHERS = recorded(DATA, "sharegpt", "recorded_http", "openhands", "crosswoz", "emollm")
IMAGE = "data:image/png;base64,AAAA"


def listed(path: Path) -> tuple[Any, list[Any]]:
    """Return a file's document, and the messages in it."""
    text = path.read_text()
    try:
        found: Any = json.loads(text)
    except ValueError:
        found = [json.loads(line) for line in text.splitlines() if line]
    messages: list[Any] = found if is_array(found) else found.get("traj") or found["history"]
    return found, messages


def run(store: Store, *values: Any, name: str = "messages.json") -> tuple[Report, list[ev.Event]]:
    """Import these values, one a line; the events of the last session."""
    file = io.BytesIO(b"\n".join(json.dumps(value).encode() for value in values))
    file.name = name
    report = import_file(store, file)
    session = store.session(report.sessions[-1])
    return report, [found.event for found in session.events()]


def whole(store: Store, report: Report) -> list[Any]:
    """Return the documents of a file's sessions."""
    return [document(emit([store.session(name)], store.text)) for name in report.sessions]


def call(name: str, tool: str = "f", arguments: Any = '{"x": 1, "why": "because"}') -> dict[str, Any]:
    """Make an OpenAI tool call."""
    return {"id": name, "type": "function", "function": {"name": tool, "arguments": arguments}}


def test_counts_agree_and_documents_are_given_back(store: Store) -> None:
    """Counts agree with each list, the document comes back equal, and a repeat adds nothing."""
    assert len(LISTS) >= 19
    for path in LISTS:
        report = import_file(store, path)
        assert (report.format, report.skipped) == ("openai_messages", []), path.name
        document_, messages = listed(path)
        counted = stored_counts([store.session(name) for name in report.sessions])
        assert counted == message_counts(messages), path.name
        assert whole(store, report) == [document_], path.name
        assert import_file(store, path).events == 0


def test_other_files_are_not_taken() -> None:
    """A file with other roles, texts or members is no message list."""
    assert len(OTHERS) >= 19
    for path in OTHERS:
        with pytest.raises(ImportFormatError):
            detect(path.read_bytes()[:65536], str(path))
    both = [
        {"role": "tool", "content": "x", "tool_call_id": "c"},
        {"role": "user", "content": [{"type": "tool_result"}]},
    ]
    values: list[Any] = [[], {}, [1], {"messages": []}, [{"role": "user"}], [{"role": "client", "content": "x"}], both]
    for value in values:
        with pytest.raises(ImportFormatError):
            detect(json.dumps(value).encode())


def test_a_list_that_grows_appends(store: Store) -> None:
    """A grown list appends to its session; a changed one forks at the last common version."""
    _, messages = listed(LISTS[0])
    wraps: dict[str, Callable[[list[Any]], list[Any]]] = {
        "array.json": lambda some: [some],
        "request.json": lambda some: [{"model": "m", "messages": some, "temperature": 0}],
        "lines.jsonl": lambda some: some,
    }
    for name, wrap in wraps.items():
        added = 0
        for end in (3, 4, 9, 10, len(messages)):
            report, events = run(store, *wrap(messages[:end]), name=name)
            added += report.events
            assert len(report.sessions) == 1
            assert added == len(events), (name, end)
            assert run(store, *wrap(messages[:3]), name=name)[0].events == 0
        changed = [*messages[:5], {"role": "user", "content": "another word"}]
        report, _ = run(store, *wrap(changed), name=name)
        assert store.info(report.sessions[0]).fork_of is not None


def test_openai_messages(store: Store) -> None:
    """Every field of an OpenAI message becomes an event; model, prompt and tools are set."""
    messages = [
        {"role": "system", "content": "You are a system prompt."},
        {
            "role": "user",
            "name": "ann",
            "content": [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": IMAGE}}],
        },
        {"role": "developer", "content": "be brief"},
        {
            "role": "assistant",
            "reasoning_content": "thinking",
            "content": "looking",
            "tool_calls": [call("c1"), call("c2", arguments="not json"), call("c2", arguments={"y": 2})],
        },
        {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "second"}]},
        {"role": "tool", "tool_call_id": "c1", "content": "first"},
        {"role": "tool", "tool_call_id": "c9", "content": "whose?"},
        {"role": "assistant", "content": None, "function_call": {"name": "g", "arguments": ""}},
        {"role": "function", "name": "g", "content": "done"},
        {"role": "assistant", "content": None, "refusal": "I will not."},
    ]
    tools = [{"type": "function", "function": {"name": "f"}}]
    request = {"model": "gpt-x", "messages": messages, "tools": tools, "created": 1_700_000_000}
    report, events = run(store, request)
    assert report.format == "openai_messages"
    assert [(found.line, found.reason.partition(":")[0]) for found in report.skipped] == [
        (7, "a tool message for no open call"),
    ]
    assert {ev.SettingsSet(Model("", "gpt-x")), ev.SystemPromptSet("You are a system prompt.")} <= set(events)
    assert [json.loads(store.text(event.schemas)) for event in events if isinstance(event, ev.ToolsSet)] == [tools]
    kinds = [event.kind for event in events if isinstance(event, ev.PartStarted)]
    assert kinds[:5] == [
        Text("look"),
        File("image/png", IMAGE),
        Text("be brief", synthetic=True),
        Reasoning("thinking"),
        Text("looking"),
    ]
    assert [kind.tool for kind in kinds if isinstance(kind, Tool)] == ["f", "f", "f", "g"]
    given = [json.loads(store.text(event.input)) for event in events if isinstance(event, ev.ToolRunning)]
    assert given == [{"x": 1, "why": "because"}, {"input": "not json"}, {"y": 2}, {}]
    assert [event.output for event in events if isinstance(event, ev.ToolCompleted)] == ["second", "first", "done"]
    assert whole(store, report) == [request]
    times = [found.time for found in store.session(report.sessions[0]).events()]
    assert (times[0], times[-1]) == (1_700_000_000_000, 1_700_000_000_010)


def test_anthropic_messages(store: Store) -> None:
    """Every field of an Anthropic message becomes an event; results belong to their calls."""
    messages = [
        {
            "role": "user",
            "content": [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 40}}],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "a thought of mine", "signature": "a signature, opaque"},
                {"type": "text", "text": "let me look", "citations": [{"url": "u"}]},
                {"type": "tool_use", "id": "t1", "name": "ls", "input": {"path": "/"}},
                {"type": "server_tool_use", "id": "t2", "name": "web_search", "input": {"q": 1}},
                {"type": "web_search_tool_result", "tool_use_id": "t2", "content": [{"title": "t"}]},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": "no such thing", "is_error": True},
                {"type": "text", "text": "go on"},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t9", "content": "whose?"}]},
    ]
    request = {
        "model": "claude-x",
        "system": [{"type": "text", "text": "You are a system prompt."}],
        "messages": messages,
    }
    report, events = run(store, request)
    assert report.format == "anthropic_messages"
    assert [(found.line, found.reason) for found in report.skipped] == [
        (4, "a result for a call that the file does not have")
    ]
    assert ev.SystemPromptSet("You are a system prompt.") in events
    kinds = [event.kind for event in events if isinstance(event, ev.PartStarted)]
    assert [type(kind) for kind in kinds] == [File, Reasoning, Text, Tool, Tool, Text]
    metadata = [json.loads(event.metadata or "null") for event in events if isinstance(event, ev.PartEnded)]
    assert metadata == [
        {"anthropic": {"signature": "a signature, opaque"}},
        {"anthropic": {"citations": [{"url": "u"}]}},
    ]
    assert [event.output for event in events if isinstance(event, ev.ToolCompleted)] == ['[{"title":"t"}]']
    assert [event.error for event in events if isinstance(event, ev.ToolFailed)] == ["no such thing"]
    assert whole(store, report) == [request]


def test_replies_and_logs_of_conversations(store: Store) -> None:
    """A completion is an answer with usage and reason; a log has one session per line."""
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 4,
        "total_tokens": 14,
        "prompt_tokens_details": {"cached_tokens": 6},
    }
    choice = {"index": 0, "finish_reason": "length", "message": {"role": "assistant", "content": "so far"}}
    completion: dict[str, Any] = {
        "id": "cmpl_1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "gpt-x",
        "choices": [choice],
        "usage": usage,
    }
    reply: dict[str, Any] = {
        "type": "message",
        "role": "assistant",
        "id": "msg_1",
        "model": "claude-x",
        "stop_reason": "end_turn",
    }
    reply |= {"content": [{"type": "text", "text": "all of it"}], "usage": {"input_tokens": 3, "output_tokens": 2}}
    for value, reason, tokens in ((completion, "length", (4, 4, 6)), (reply, "stop", (3, 2, 0))):
        report, events = run(store, value, name=value["id"])
        (spent,) = [event.usage.tokens for event in events if isinstance(event, ev.UsageRecorded)]
        assert (spent.input, spent.output, spent.cache_read) == tokens
        assert [event.reason for event in events if isinstance(event, ev.MessageFinished)] == [reason]
        assert whole(store, report) == [value]
        spread = json.dumps(value, indent=1).encode()
        assert detect(spread) == report.format
    logs = [{"messages": [{"role": "user", "content": f"question {number}"}]} for number in range(3)]
    report, _ = run(store, *logs, name="log.jsonl")
    assert len(set(report.sessions)) == 3
    assert whole(store, report) == logs


def test_damaged_lists(store: Store, tmp_path: Path) -> None:
    """A document that breaks off gives the messages before the damage and names its place."""
    path = tmp_path / "list.json"
    data = recorded(DATA, "openai_messages")[0].read_bytes()
    before = 0
    for end in (len(data) // 3, len(data) // 2, len(data) - 20):
        path.write_bytes(data[:end])
        report = import_file(store, path, format="openai_messages")
        assert report.messages > before
        before = report.messages
        (found,) = report.skipped[-1:]
        assert 0 <= data[:end].count(b"\n") + 1 - found.line < 12
    strange = [
        {"role": "user", "content": "a"},
        7,
        {"role": "wizard", "content": 1},
        {"role": "assistant", "content": "b", "tool_calls": [1]},
    ]
    file = io.BytesIO(json.dumps(strange).encode())
    file.name = "strange.json"
    report = import_file(store, file, format="openai_messages")
    assert [(found.line, found.reason) for found in report.skipped] == [
        (2, "not an object"),
        (3, "a message of an unknown role"),
        (4, "a tool call that is not an object"),
    ]
    assert whole(store, report) == [strange]


def test_one_bad_byte_does_not_cost_the_rest(store: Store) -> None:
    """Invalid UTF-8 is reported by line and replaced by U+FFFD; other messages stay whole."""
    messages = [{"role": "user" if number % 2 else "assistant", "content": f"text {number}"} for number in range(40)]
    for wanted in (messages, {"model": "x", "messages": messages, "metadata": {"k": "v"}}):
        data = json.dumps(wanted, indent=0).encode()
        file = io.BytesIO(data.replace(b"text 7", b"te\xfft 7"))
        file.name = f"bad-{type(wanted).__name__}.json"
        report = import_file(store, file)
        line = data[: data.index(b"text 7")].count(b"\n") + 1
        assert [(found.line, "U+FFFD" in found.reason) for found in report.skipped] == [(line, True)]
        assert whole(store, report) == [json.loads(json.dumps(wanted).replace("text 7", "te\ufffdt 7"))]


def test_what_follows_a_list_is_reported(store: Store) -> None:
    """Content behind the end of a document is reported; odd JSON before it counts as a line."""
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    for end, data in enumerate((json.dumps(messages, indent=1), json.dumps({"messages": messages}, indent=1))):
        file = io.BytesIO(data.encode() + b"\nand more")
        file.name = f"more-{end}.json"
        report = import_file(store, file)
        assert report.messages == 2
        assert [(found.line, "follows" in found.reason) for found in report.skipped] == [(data.count("\n") + 2, True)]
    for strange in ("[[]]", "[null]", "[1, 2]"):
        file = io.BytesIO("\n".join([strange, *map(json.dumps, messages)]).encode())
        file.name = f"strange-{strange}.jsonl"
        report = import_file(store, file, format="openai_messages")
        assert (report.messages, [found.line for found in report.skipped]) == (2, [1])
