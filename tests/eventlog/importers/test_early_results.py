"""Calls and results in any order: every result in a file is shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import eventlog
from eventlog import Store
from eventlog.importers import Report, import_file
from eventlog.importers.common import conversation_parts
from eventlog.importers.common.remainder import emit
from eventlog.values import INTERRUPTED
from projections import ModelView
from projections.view.neutral import Result
from tests.support.import_counts import claude_lines, is_array, is_object, recorded
from tests.support.shared import shared_path

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "imports"
EARLY = GOLDEN / "claude-early-results.jsonl"
"""Results before their calls, late, twice, without a call; too many open calls; a branch."""
SHOWN = {
    "t1": "early and large: " + "x" * 2000,
    "t3": "ok",
    "t4": "no such file",
    **{name: f"output of {name}" for name in ("t2", "late1", "t6", *(f"k{number}" for number in range(10)))},
}


def results(store: Store, session: str) -> dict[str, str]:
    """Return the results that the model is sent, by call."""
    parts = [part for message in ModelView.of(store.session(session)).messages for part in message.parts]
    return {part.call: part.output for part in parts if isinstance(part, Result)}


def views(store: Store, report: Report) -> list[Any]:
    """Return the messages that the model is sent, for each of a file's sessions."""
    return [ModelView.of(store.session(name)).messages for name in report.sessions]


def listed(store: Store) -> list[tuple[str, int]]:
    """Return the sessions with their versions."""
    return sorted((info.id, info.version) for info in store.sessions())


def fresh(path: Path) -> list[Any]:
    """Return the views that an import into an empty store gives."""
    with eventlog.open("memory:") as alone:
        return views(alone, import_file(alone, path))


def test_results_before_their_calls_are_shown(store: Store) -> None:
    """Each call shows its result from anywhere in the file; orphan results are reported."""
    report = import_file(store, EARLY)
    assert report.sessions == ["early", "early:e1"]
    assert results(store, "early") == {**SHOWN, "never": INTERRUPTED}
    assert sorted(report.skipped) == [
        (52, "a result for a call that the file does not have"),
        (53, "a tool result for a call that is not open"),
    ]
    records = [json.loads(line) for line in EARLY.read_text().splitlines()]
    assert [source.record for source in emit([store.session("early")], store.text)] == records
    assert import_file(store, EARLY).events == 0


def test_a_file_with_early_results_may_grow_line_by_line(store: Store, tmp_path: Path) -> None:
    """Importing line by line appends each time and ends as a single import does."""
    path, added = tmp_path / "growing.jsonl", 0
    path.write_bytes(b"")
    for line in EARLY.read_bytes().splitlines(keepends=True):
        with path.open("ab") as file:
            file.write(line)
        added += import_file(store, path).events
    with eventlog.open("memory:") as alone:
        assert import_file(alone, EARLY).events == added
        assert listed(alone) == listed(store)


def test_a_file_with_early_results_branches(store: Store, tmp_path: Path) -> None:
    """A record behind any message of an imported file begins a branch at the right place."""
    last = json.loads(EARLY.read_text().splitlines()[-1])
    import_file(store, EARLY)
    path = tmp_path / "grown.jsonl"
    path.write_bytes(EARLY.read_bytes())
    for name, parent in (("u6", "u5"), ("u7", "a4"), ("u8", "f1")):
        message = {"role": "user", "content": f"From {parent} on"}
        with path.open("a") as file:
            file.write(json.dumps({**last, "uuid": name, "parentUuid": parent, "message": message}) + "\n")
        report = import_file(store, path)
        assert report.sessions[0] == "early"
        assert views(store, report) == fresh(path)
        assert import_file(store, path).events == 0


def test_a_changed_file_with_early_results_becomes_a_fork(store: Store, tmp_path: Path) -> None:
    """Where a stored session and its file differ, a fork has the file's side with all results."""
    lines = EARLY.read_text().splitlines(keepends=True)
    path = tmp_path / "changed.jsonl"
    path.write_text("".join(line.replace("Done.", "Not done.") for line in lines))
    import_file(store, EARLY)
    before = store.info("early")
    report = import_file(store, path)
    assert report.sessions[0] == "early~2"
    assert views(store, report)[0] == fresh(path)[0]
    assert import_file(store, path).events == 0
    assert store.info("early") == before


def test_what_follows_an_early_result_follows_its_call(store: Store, tmp_path: Path) -> None:
    """A record below a result that stands before its call starts no branch."""
    told = [json.loads(line) for line in EARLY.read_text().splitlines()[:6]]
    told[1], told[2] = told[2], told[3]  # the result, then a message that consists of its call
    told[2] = {**told[2], "parentUuid": "u1"}
    told[3:] = [{**told[5], "uuid": "z", "parentUuid": "r1", "message": {"role": "user", "content": "Next"}}]
    path = tmp_path / "result-first.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in told))
    report = import_file(store, path)
    assert report.sessions == ["early"]
    assert results(store, "early") == {"t1": SHOWN["t1"]}


def test_every_recorded_result_is_shown() -> None:
    """Each call with a result anywhere in a recorded file shows it in the view."""
    data, shown = shared_path("data"), 0
    for path in recorded(data, "claude_code_jsonl", "claude_web_json"):
        blocks = [
            block
            for _, record in claude_lines(path)
            if is_object(record) and is_object(record.get("message")) and is_array(record["message"].get("content"))
            for block in record["message"]["content"]
            if is_object(block)
        ]
        said = {block["tool_use_id"] for block in blocks if block.get("type") == "tool_result"}
        with eventlog.open("memory:") as alone:
            told: dict[str, str] = {}
            for name in import_file(alone, path).sessions:
                told |= results(alone, name)
        for call, output in told.items():
            assert (output == INTERRUPTED) is (call not in said), (path.name, call)
            shown += call in said
    assert shown >= 500


def test_results_that_wait_for_a_call_are_bounded(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of results without calls only the newest stay in memory, and every one is reported."""
    monkeypatch.setattr(conversation_parts, "MOST", 3)
    told = json.loads(EARLY.read_text().splitlines()[51])
    lines = [EARLY.read_text().splitlines()[0]]
    for number in range(10):
        block = {"type": "tool_result", "tool_use_id": f"x{number}", "content": "output"}
        message = {"role": "user", "content": [block]}
        lines.append(json.dumps({**told, "uuid": f"x{number}", "message": message}))
    calls: list[Any] = [{"type": "tool_use", "id": name, "name": "Bash", "input": {}} for name in ("x0", "x9")]
    message = {"role": "assistant", "id": "late", "content": calls}
    lines.append(json.dumps({**told, "type": "assistant", "uuid": "late", "message": message}))
    path = tmp_path / "orphans.jsonl"
    path.write_text("\n".join(lines) + "\n")
    report = import_file(store, path)
    assert [found.line for found in report.skipped] == list(range(2, 11))
    assert results(store, report.sessions[0]) == {"x0": INTERRUPTED, "x9": "output"}


CODEX: list[Any] = [
    {"type": "session_meta", "payload": {"id": "codex-early", "cwd": "/project"}},
    {"type": "response_item", "payload": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Go"}]}},
    {"type": "response_item", "payload": {"type": "function_call_output", "call_id": "c1", "output": "early output"}},
    {"type": "response_item", "payload": {"type": "function_call", "call_id": "c1", "name": "shell", "arguments": "{}"}},
    {"type": "response_item", "payload": {"type": "function_call", "call_id": "c2", "name": "shell", "arguments": "{}"}},
    {"type": "event_msg", "payload": {"type": "turn_aborted", "reason": "interrupted"}},
    {"type": "response_item", "payload": {"type": "function_call_output", "call_id": "c2", "output": "late output"}},
    {"type": "response_item", "payload": {"type": "function_call_output", "call_id": "c2", "output": "a second one"}},
]  # fmt: skip
ANTHROPIC: list[Any] = [
    {"role": "user", "content": "Go"},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "early output"}]},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "shell", "input": {}}]},
]
OPENAI: list[Any] = [
    {"role": "user", "content": "Go"},
    {"role": "tool", "tool_call_id": "c1", "content": "early output"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "shell", "arguments": "{}"}}],
    },
]


@pytest.mark.parametrize(
    ("form", "records", "expected"),
    [
        ("codex", CODEX, {"c1": "early output", "c2": "late output"}),
        ("anthropic_messages", ANTHROPIC, {"c1": "early output"}),
        ("openai_messages", OPENAI, {"c1": "early output"}),
    ],
)
def test_other_formats(store: Store, tmp_path: Path, form: str, records: list[Any], expected: dict[str, str]) -> None:
    """Early results, and late ones after an interruption, are shown in every line format."""
    path = tmp_path / "early.jsonl"
    stamped = [{"timestamp": f"2026-01-01T00:00:{number:02d}Z", **record} for number, record in enumerate(records)]
    path.write_text("".join(json.dumps(record) + "\n" for record in stamped))
    report = import_file(store, path)
    assert report.format == form
    assert results(store, report.sessions[0]) == expected
    assert [source.record for source in emit([store.session(report.sessions[0])], store.text)] == stamped
    assert import_file(store, path).events == 0
