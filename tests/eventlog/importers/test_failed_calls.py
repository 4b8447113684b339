"""A call that failed in another program is imported as failed, and its record comes back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from eventlog import Store
from eventlog import events as ev
from eventlog.importers import Report
from eventlog.importers.common.remainder import emit
from tests.eventlog.importers.test_claude_code import call, record, result
from tests.eventlog.importers.test_codex import event, item, message, rollout, shell
from tests.eventlog.importers.test_histories import (
    CALL,
    CHATGPT,
    GEMINI,
    GEMINI_MESSAGES,
    PI,
    QWEN,
    RESULT_OF_PI,
    entry,
    export,
    lines,
    node,
    put,
)
from tests.eventlog.importers.test_opencode import assistant, user
from tests.eventlog.importers.test_opencode import export as opencode_export


def codex(output: object, *ends: tuple[str, dict[str, Any]]) -> bytes:
    """Make a rollout with one call, what the screen says of its end, and its result."""
    return rollout(message("user", "go"), shell("c"), *ends, item("function_call_output", call_id="c", output=output))


def ended(kind: str, **more: object) -> tuple[str, dict[str, Any]]:
    """Make the event that ends the call of `codex`."""
    return event(kind, call_id="c", **more)


EXEC = "Chunk ID: 1\nWall time: 0.1 seconds\nProcess exited with code {}\nOutput:\nExit code: 1"
FAILED: dict[str, tuple[str, bytes]] = {
    "codex, an exit code in the head": ("r.jsonl", codex("Exit code: 2\nWall time: 1 seconds\nOutput:\nno file")),
    "codex, an exit code of a terminal": ("r.jsonl", codex(EXEC.format(1))),
    "codex, an exit code in older JSON": ("r.jsonl", codex('{"output":"no","metadata":{"exit_code":1}}')),
    "codex, an output of no success": ("r.jsonl", codex({"content": "denied", "success": False})),
    "codex, a patch that does not fit": ("r.jsonl", codex("apply_patch verification failed: Failed to find")),
    "codex, a command's end": ("r.jsonl", codex("no file", ended("exec_command_end", exit_code=1))),
    "codex, a patch's end": ("r.jsonl", codex("no file", ended("patch_apply_end", success=False))),
    "codex, a declined command": ("r.jsonl", codex("no", ended("exec_command_end", status="declined"))),
    "codex, an error of MCP": ("r.jsonl", codex("no", ended("mcp_tool_call_end", result={"Err": "no server"}))),
    "codex, an error of an MCP tool": (
        "r.jsonl",
        codex("no", ended("mcp_tool_call_end", result={"Ok": {"content": [], "isError": True}})),
    ),
    "codex, a turn that was aborted": ("r.jsonl", rollout(message("user", "go"), shell("c"), event("turn_aborted"))),
    "claude code": (
        "s.jsonl",
        lines(
            record("user", "u1", None, "go"),
            record("assistant", "a1", "u1", [call("c")]),
            record("user", "r1", "a1", [result("c", "no file", is_error=True)]),
        ),
    ),
    "gemini cli": (
        "session-1.json",
        json.dumps({**GEMINI, "messages": [{**GEMINI_MESSAGES[1], "toolCalls": [{**CALL, "status": "error"}]}]}).encode(),
    ),
    "qwen code": ("q.jsonl", lines(*QWEN[:2], {**QWEN[2], "toolCallResult": {"callId": "c", "status": "error"}})),
    "qwen code, cancelled": ("q.jsonl", lines(*QWEN[:2], {**QWEN[2], "toolCallResult": {"status": "cancelled"}})),
    "pi": ("pi.jsonl", lines(*PI[:3], entry("message", "c", "b", message={**RESULT_OF_PI, "isError": True}))),
    "chatgpt": (
        "conversations.json",
        json.dumps(
            [
                export(
                    [
                        *CHATGPT[:5],
                        node(
                            "5",
                            "4",
                            "tool",
                            {"content_type": "execution_output", "text": "NameError: this cat is not defined"},
                            tool="python",
                            metadata={"aggregate_result": {"status": "failed_with_in_kernel_exception"}},
                        ),
                    ],
                    "5",
                )
            ]
        ).encode(),
    ),
    "opencode": (
        "export.json",
        json.dumps(
            opencode_export(
                user("u", 10),
                assistant("a", 20, {"type": "tool", "callID": "c", "tool": "bash", "state": {
                    "status": "error", "input": {}, "error": "no file", "time": {"start": 21, "end": 22}}}),
            )
        ).encode(),
    ),
}  # fmt: skip


def outcomes(store: Store, report: Report) -> list[type[ev.Event]]:
    """Return the types of the events that end calls."""
    events = (found.event for name in report.sessions for found in store.session(name).events())
    return [type(event) for event in events if isinstance(event, (ev.ToolCompleted, ev.ToolFailed))]


@pytest.mark.parametrize("case", FAILED)
def test_a_failed_call_is_imported_as_failed(store: Store, case: str) -> None:
    """The one call of each file failed, wherever the program says so; nothing is skipped."""
    name, data = FAILED[case]
    report = put(store, data, name)
    assert outcomes(store, report) == [ev.ToolFailed]
    assert report.skipped == []
    assert put(store, data, name).events == 0
    if name.endswith(".jsonl"):
        back = [source.record for source in emit([store.session(report.sessions[0])], store.text)]
        assert lines(*back) == data


@pytest.mark.parametrize(
    "output",
    [
        EXEC.format(0),
        "Exit code: 0\nWall time: 1 seconds\nOutput:\nProcess exited with code 1",
        '{"output":"Exit code: 1","metadata":{"exit_code":0}}',
        "the log says\nExit code: 1",
    ],
)
def test_a_call_whose_output_tells_of_a_failure_did_not_fail(store: Store, output: str) -> None:
    """Only the head of an output says how its command ended."""
    assert outcomes(store, put(store, codex(output), "r.jsonl")) == [ev.ToolCompleted]
