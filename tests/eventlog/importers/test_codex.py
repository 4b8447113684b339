"""Codex rollouts: each item is stored once, and every record can be exported again."""

from __future__ import annotations

import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import eventlog
from eventlog import Session, Store
from eventlog import events as ev
from eventlog.importers import Report, import_file
from eventlog.importers.common.conversation_parts import COVERS_NOTHING
from eventlog.importers.common.remainder import emit
from eventlog.values import File, Limits, Model, Opaque, Reasoning, Text, Todo, Tool
from projections import ModelView
from tests.support.import_counts import codex_counts, recorded, stored_counts
from tests.support.shared import shared_path

DATA = shared_path("data")
ROLLOUTS = recorded(DATA, "codex_rollout_jsonl")
OLD = [
    path
    for path in sorted([*(DATA / "agent_sessions_fixtures").iterdir(), *(DATA / "agentsview_fixtures").iterdir()])
    if "codex" in path.name or ("session_" in path.name.rpartition("__")[2] and "agent_sessions" in str(path))
]
META = {"id": "s1", "cwd": "/work", "cli_version": "0.136.0", "model_provider": "openai"}


def happened(store: Store, report: Report) -> list[ev.Event]:
    """Return the events of the one session of a file."""
    (name,) = report.sessions
    return [found.event for found in store.session(name).events()]


def rollout(*records: tuple[str, dict[str, Any]]) -> bytes:
    """Make a rollout of these records, a second apart."""
    lines = [
        {"timestamp": f"2026-01-01T00:00:{number:02d}.250Z", "type": kind, "payload": payload}
        for number, (kind, payload) in enumerate([("session_meta", META), *records])
    ]
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def run(store: Store, data: bytes) -> tuple[Report, list[ev.Event]]:
    """Import these bytes, always under one name."""
    file = io.BytesIO(data)
    file.name = "rollout.jsonl"
    report = import_file(store, file)
    return report, happened(store, report)


def message(role: str, *texts: str, **more: Any) -> tuple[str, dict[str, Any]]:
    """Make an item with a message."""
    kind = "output_text" if role == "assistant" else "input_text"
    return item("message", role=role, content=[{"type": kind, "text": text} for text in texts], **more)


def item(kind: str, **more: Any) -> tuple[str, dict[str, Any]]:
    """Make an item."""
    return "response_item", {"type": kind, **more}


def event(kind: str, **more: Any) -> tuple[str, dict[str, Any]]:
    """Make an event."""
    return "event_msg", {"type": kind, **more}


def shell(name: str, **more: Any) -> tuple[str, dict[str, Any]]:
    """Make a call."""
    return item("function_call", name="shell", arguments='{"command": ["ls"]}', call_id=name, **more)


def texts(store: Store, events: list[ev.Event], kind: type[Text | Reasoning] = Text) -> list[str]:
    """Return the texts of the parts of a kind, in order."""
    kinds = [found.kind for found in events if isinstance(found, ev.PartStarted)]
    return [store.text(found.text) for found in kinds if isinstance(found, kind)]


def sources(store: Store, sessions: list[Session]) -> list[Any]:
    """Return the records of a file from its sessions."""
    return [source.record for source in emit(sessions, store.text)]


def test_counts_agree_and_a_second_import_adds_nothing(store: Store) -> None:
    """Counts of messages, calls and tokens agree with each rollout; a repeat adds nothing."""
    assert len(ROLLOUTS) >= 9
    for path in ROLLOUTS:
        report = import_file(store, path)
        assert report.format == "codex"
        assert {found.reason for found in report.skipped} <= {COVERS_NOTHING}
        counted = stored_counts([store.session(name) for name in report.sessions])
        assert counted == codex_counts(path), path.name
        listed = sum(store.info(name).messages for name in report.sessions)
        assert report.messages == listed or report.skipped
        assert report.parts == counted[1]
    position = store.log.last_positions()
    for path in ROLLOUTS:
        assert import_file(store, path).events == 0
    assert store.log.last_positions() == position


def test_records_are_given_back() -> None:
    """Every JSON record of whole files, and of every known shape, comes back equal."""
    assert len(OLD) >= 15
    for path in [*ROLLOUTS, *OLD]:
        wanted = [json.loads(line) for line in path.read_text().splitlines() if line]
        with eventlog.open("memory:") as alone:
            report = import_file(alone, path)
            assert report.format == "codex", path.name
            assert sources(alone, [alone.session(name) for name in report.sessions]) == wanted, path.name
            assert import_file(alone, path).events == 0


def test_growth_line_by_line(tmp_path: Path) -> None:
    """A rollout that grows, also by half lines, never forks and ends as if imported at once."""
    small = min(ROLLOUTS, key=lambda path: path.stat().st_size)
    for source in (small, next(path for path in OLD if path.name.endswith("codex__small.jsonl"))):
        data = source.read_bytes()
        path = tmp_path / source.name
        with eventlog.open("memory:") as store:
            added = 0
            for end in [*range(2_000, len(data), 2_000), len(data)]:
                path.write_bytes(data[:end])
                added += import_file(store, path).events if b'"role"' in data[:end] else 0
            (info,) = store.sessions()
            assert info.events == added
            with eventlog.open("memory:") as alone:
                assert import_file(alone, path).events == added


def test_what_is_said_twice_is_stored_once(store: Store) -> None:
    """An item and the event that repeats it make one message; text said twice makes two."""
    _, events = run(
        store,
        rollout(
            event("user_message", message="go", images=[]),
            ("turn_context", {"model": "gpt-5", "effort": "high", "cwd": "/work"}),
            message("user", "go"),
            event("agent_reasoning", text="**thinking**"),
            item("reasoning", summary=[{"type": "summary_text", "text": "**thinking**"}], encrypted_content="opaque"),
            event("agent_message", message="ok"),
            message("assistant", "ok"),
            event("task_complete", last_agent_message="ok"),
            message("user", "go"),
            event("user_message", message="go", images=[]),
            message("assistant", "ok"),
            event("agent_message", message="ok"),
            event("item_completed", item={"type": "AgentMessage", "content": [{"type": "Text", "text": "ok"}]}),
            event("task_complete"),
        ),
    )
    assert texts(store, events)[:4] == ["go", "ok", "go", "ok"]
    assert texts(store, events, Reasoning) == ["**thinking**"]
    ends = [json.loads(found.metadata) for found in events if isinstance(found, ev.PartEnded) and found.metadata]
    assert ends == [{"openai": {"reasoningEncryptedContent": "opaque"}}]


def test_events_without_items_are_messages_too(store: Store) -> None:
    """Events without items make the messages, in order with their times; a final one waits."""
    records = [
        event("user_message", message="go", images=["data:image/png;base64,AAAA"]),
        event("agent_reasoning", text="thinking"),
        event("agent_message", message="first"),
        event("agent_message", message="second"),
        event("task_complete"),
        event("user_message", message="again"),
    ]
    report, events = run(store, rollout(*records))
    assert texts(store, events) == ["go", "first", "second"]
    assert [found.reason for found in report.skipped] == ["an event with a text of the user whose item has not come"]
    (image,) = [found.kind for found in events if isinstance(found, ev.PartStarted) and isinstance(found.kind, File)]
    assert (image.mime, image.url) == ("image/png", "data:image/png;base64,AAAA")
    report, events = run(store, rollout(*records, event("task_complete")))
    assert texts(store, events) == ["go", "first", "second", "again"]
    assert report.skipped == []
    assert len(list(store.sessions())) == 1


def test_calls_and_results(store: Store) -> None:
    """Each kind of call has JSON input and one result; oddities are reported."""
    plan = '{"plan": [{"step": "write", "status": "in_progress"}]}'
    report, events = run(
        store,
        rollout(
            message("user", "go"),
            shell("c1", id="fc_1"),
            event("exec_command_end", call_id="c1", exit_code=1, stdout="x" * 5_000),
            item("function_call_output", call_id="c1", output="listing"),
            item("custom_tool_call", name="apply_patch", call_id="c2", input="*** Begin Patch"),
            item("custom_tool_call_output", call_id="c2", output=[{"type": "input_text", "text": "done"}]),
            item("local_shell_call", id="c3", action={"type": "exec", "command": ["ls"]}, status="completed"),
            item("function_call_output", call_id="c3", output={"content": "denied", "success": False}),
            item("web_search_call", id="ws_1", status="completed", action={"type": "search", "query": "q"}),
            item("function_call", name="update_plan", arguments=plan, call_id="c4"),
            item("function_call_output", call_id="c4", output="Plan updated"),
            shell("c5"),
            item("function_call_output", call_id="c5", output="aborted by user after 1.0s"),
            shell("c6"),
            shell("c6"),
            item("function_call_output", call_id="c6", output="listing"),
            item("function_call_output", call_id="c9", output="whose?"),
            event("mcp_tool_call_end", call_id="c10", result={"Ok": {}}),
        ),
    )
    assert [(found.line, found.reason.split(":")[0]) for found in report.skipped] == [
        (19, "the end of a call that the conversation does not have"),
        (18, "a result for a call that the file does not have"),
    ]
    given = [json.loads(store.text(found.input)) for found in events if isinstance(found, ev.ToolRunning)]
    assert given[:4] == [
        {"command": ["ls"]},
        {"input": "*** Begin Patch"},
        {"type": "exec", "command": ["ls"]},
        {"type": "search", "query": "q"},
    ]
    kinds = [found.kind for found in events if isinstance(found, ev.PartStarted) and isinstance(found.kind, Tool)]
    assert [kind.tool for kind in kinds[:5]] == ["shell", "apply_patch", "local_shell", "web_search", "update_plan"]
    assert (kinds[3].provider_executed, kinds[0].metadata) == (True, '{"openai":{"itemId":"fc_1"}}')
    assert [found.metadata for found in events if isinstance(found, ev.ToolProgress)] == ['{"exit_code":1}']
    done = [found.output for found in events if isinstance(found, ev.ToolCompleted)]
    assert done == ["done", "", "Plan updated", "listing"]
    failed = [(found.error, found.interrupted) for found in events if isinstance(found, ev.ToolFailed)]
    assert failed[:3] == [("listing", False), ("denied", False), ("aborted by user after 1.0s", True)]
    assert [found.todos for found in events if isinstance(found, ev.TodosSet)] == [(Todo("write", "in_progress"),)]


def test_settings_usage_and_times(store: Store) -> None:
    """Prompt, tools, branch, model, window, title, tokens and times of a rollout are events."""
    tokens = {
        "input_tokens": 100,
        "cached_input_tokens": 60,
        "output_tokens": 9,
        "reasoning_output_tokens": 5,
        "total_tokens": 109,
    }
    info = {"total_token_usage": tokens, "last_token_usage": tokens, "model_context_window": 258_400}
    meta = META | {
        "base_instructions": {"text": "You are Codex."},
        "dynamic_tools": [{"name": "t"}],
        "git": {"branch": "main"},
        "forked_from_id": "s0",
        "parent_thread_id": "p1",
        "source": {"subagent": "review"},
    }
    data = rollout(
        ("turn_context", {"model": "gpt-5", "effort": "high", "cwd": "/work"}),
        message("developer", "<permissions instructions>"),
        message("user", "<environment_context>"),
        message("user", "go"),
        message("assistant", "ok", id="msg_1"),
        event("token_count", info=info),
        event("token_count", info=info),
        event("thread_name_updated", thread_name="A title"),
    )
    first, rest = data.split(b"\n", 1)
    report, events = run(store, json.dumps(json.loads(first) | {"payload": meta}).encode() + b"\n" + rest)
    info_ = store.info(report.sessions[0])
    assert (info_.id, info_.parent, info_.agent, info_.title) == ("s1", "p1", "review", "A title")
    assert ev.SystemPromptSet("You are Codex.") in events
    assert ev.ToolsSet('[{"name":"t"}]') in events
    settings = [found for found in events if isinstance(found, ev.SettingsSet)]
    assert settings == [ev.SettingsSet(Model("openai", "gpt-5")), ev.SettingsSet(limits=Limits(258_400))]
    assert {found.key: found.value for found in events if isinstance(found, ev.MetadataSet)} == {
        "git_branch": '"main"',
        "forked_from": '"s0"',
    }
    users = [found for found in events if isinstance(found, ev.UserMessageAdded)]
    assert [found.synthetic for found in users] == [True, True, False]
    (usage,) = [found for found in events if isinstance(found, ev.UsageRecorded)]
    assert (usage.message, usage.model) == ("msg_1", Model("openai", "gpt-5"))
    counted = usage.usage.tokens
    assert (counted.input, counted.cache_read, counted.output, counted.reasoning, counted.total) == (40, 60, 9, 5, 109)
    times = [found.time for found in store.session("s1").events()]
    assert [time % 60_000 for time in sorted(set(times))] == [number * 1_000 + 250 for number in range(9)]


def test_interrupts_and_errors(store: Store) -> None:
    """An aborted turn fails its open calls and its answer; an error is recorded as its error."""
    _, events = run(
        store,
        rollout(
            message("user", "go"),
            shell("c1"),
            event("turn_aborted", reason="interrupted"),
            message("user", "again"),
            event("error", message="limit reached", codex_error_info="usage_limit_exceeded"),
        ),
    )
    assert [found.interrupted for found in events if isinstance(found, ev.ToolFailed)] == [True]
    errors = [found.error for found in events if isinstance(found, ev.MessageFinished)]
    assert [(error.name, error.message) for error in errors if error] == [
        ("aborted", "interrupted by the user"),
        ("usage_limit_exceeded", "limit reached"),
    ]


def test_compaction_hides_what_it_replaced(store: Store) -> None:
    """After a compaction the view is the summary, the retained history, then later messages."""
    old = message("user", "old prompt")[1]
    record = {"message": "the summary", "replacement_history": [old, message("user", "Before: the summary")[1]]}
    report, _ = run(
        store,
        rollout(
            message("user", "old prompt"),
            message("assistant", "old answer"),
            ("compacted", record),
            event("context_compacted"),
            message("user", "new prompt"),
        ),
    )
    view = json.dumps([str(found) for found in ModelView.of(store.session(report.sessions[0])).messages])
    assert "old answer" not in view
    assert [view.count(text) for text in ("the summary", "old prompt", "new prompt")] == [1, 1, 1]
    big = next(path for path in ROLLOUTS if "entire-graph" in path.name)  # its compaction is encrypted
    events = happened(store, import_file(store, big))
    kinds = Counter(type(found) for found in events)
    assert (kinds[ev.CompactionStarted], kinds[ev.CompactionCompleted], kinds[ev.CompactionFailed]) == (0, 0, 0)
    assert sum(isinstance(found, ev.PartStarted) and isinstance(found.kind, Opaque) for found in events) == 1


def test_dropped_turns_are_rolled_back(store: Store) -> None:
    """`thread_rolled_back` rolls back the dropped turns, also across a compaction."""
    report, _ = run(
        store,
        rollout(
            message("user", "one"),
            message("assistant", "first"),
            message("user", "two"),
            shell("c1"),
            ("compacted", {"message": "the summary"}),
            event("thread_rolled_back", num_turns=1),
            message("user", "three"),
            message("assistant", "third"),
        ),
    )
    session = store.session(report.sessions[0])
    effective = [found.event for span in session.history() for found in span.events()]
    assert texts(store, effective) == ["one", "first", "three", "third"]


def test_repeated_and_unknown_lines_are_listed(store: Store) -> None:
    """A repeated line counts once; unknown records are listed with line and reason."""
    data = rollout(
        message("user", "go"),
        item("hologram"),
        event("hologram"),
        ("hologram", {}),
        ("response_item", {}),
        message("wizard", "x"),
    )
    lines = data.splitlines(keepends=True)
    report, events = run(store, b"".join([*lines, lines[1], b'"text"\n', b'{"timestamp": 1, "x']))
    assert texts(store, events) == ["go"]
    assert [(found.line, found.reason.partition(" (")[0]) for found in report.skipped] == [
        (3, "an item of unknown type 'hologram'"),
        (4, "an event of unknown type 'hologram'"),
        (5, "a record of unknown type 'hologram'"),
        (6, "its payload is not an object, or empty"),
        (7, "a message of an unknown role"),
        (8, "equal to an earlier line, time and all"),
        (9, "not an object"),
        (10, "incomplete last line"),
    ]
