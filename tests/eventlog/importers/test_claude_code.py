"""Claude Code sessions: each record imported once, with its time, and exported again."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import eventlog
from eventlog import Session, Store
from eventlog import events as ev
from eventlog.importers import FORMATS, Report, detect, import_file
from eventlog.importers.common.remainder import emit
from eventlog.values import File, Reasoning, Text, Tool
from tests.support.import_counts import claude_counts, claude_lines, recorded, stored_counts
from tests.support.shared import shared_path

DATA = shared_path("data")
SESSIONS = recorded(DATA, "claude_code_jsonl", "claude_web_json")
GROWTH = sorted((DATA / "entireio_growth_series").glob("*/*.jsonl"))


def own(store: Store, report: Report) -> list[Session]:
    """Return the sessions that hold the file's records; forks only keep abandoned branches."""
    return [store.session(name) for name in report.sessions if store.info(name).fork_of is None]


def messages_begun(session: Session) -> int:
    """Return how many messages a session began itself, also those that a rollback hides."""
    own = session.events(session.info.version - session.info.events)
    return sum(isinstance(found.event, (ev.UserMessageAdded, ev.AssistantMessageStarted)) for found in own)


def happened(session: Session) -> list[ev.Event]:
    """Return all events of a session."""
    return [found.event for found in session.events()]


def effective(session: Session) -> list[ev.Event]:
    """Return the events of a session's effective history."""
    return [found.event for span in session.history() for found in span.events()]


def write(path: Path, records: list[Any]) -> Path:
    """Write a file of records, one a line."""
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def record(kind: str, uuid: str, parent: str | None, content: Any, **more: Any) -> dict[str, Any]:
    """Make a record of a conversation."""
    message = {"role": kind, "content": content}
    if kind == "assistant":
        message |= {"id": f"msg_{uuid}", "model": "claude-x", "stop_reason": None}
    message |= more.pop("message", {})
    number = sum(map(ord, uuid)) % 60
    stamp = f"2026-01-01T00:00:{number:02d}.500Z"
    base = {
        "type": kind,
        "uuid": uuid,
        "parentUuid": parent,
        "sessionId": "s",
        "timestamp": stamp,
        "isSidechain": False,
    }
    return {**base, "message": message, **more}


def call(name: str, tool: str = "Bash", **given: Any) -> dict[str, Any]:
    """Make a tool call's block."""
    return {"type": "tool_use", "id": name, "name": tool, "input": given}


def result(name: str, content: Any = "done", **more: Any) -> dict[str, Any]:
    """Make a tool result's block."""
    return {"type": "tool_result", "tool_use_id": name, "content": content, **more}


def test_counts_agree_and_a_second_import_adds_nothing(store: Store) -> None:
    """Counts of messages, calls and tokens agree with each file; a second import adds nothing."""
    assert len(SESSIONS) >= 29
    for path in SESSIONS:
        with eventlog.open("memory:") as alone:
            report = import_file(alone, path)
            assert report.format == "claude_code"
            counted = stored_counts(own(alone, report))
            assert counted == claude_counts(path), path.name
            begun = sum(messages_begun(alone.session(name)) for name in report.sessions)
            assert (report.messages, report.parts) == (begun, counted[1])
            assert report.events == sum(alone.info(name).events for name in report.sessions)
            again = import_file(alone, path)
            assert (again.events, again.sessions, again.messages) == (0, report.sessions, report.messages)
        import_file(store, path)
    position = store.log.last_positions()
    for path in SESSIONS:
        assert import_file(store, path).events == 0, path.name
    assert store.log.last_positions() == position


def test_each_call_has_at_most_one_result(store: Store) -> None:
    """A call ends once, except after an interruption; finished messages have no open call."""
    for path in SESSIONS:
        for session in own(store, import_file(store, path)):
            results: Counter[str] = Counter()
            calls: dict[str, list[str]] = {}
            interrupted: set[str] = set()
            for event in happened(session):
                if isinstance(event, ev.PartStarted) and isinstance(event.kind, Tool):
                    calls.setdefault(event.message, []).append(event.part)
                elif isinstance(event, ev.ToolFailed) and event.interrupted:
                    interrupted.add(event.part)
                elif isinstance(event, (ev.ToolCompleted, ev.ToolFailed)):
                    results[event.part] += 1
                elif isinstance(event, ev.MessageFinished):
                    assert all(results[part] or part in interrupted for part in calls.get(event.message, []))
            assert set(results.values()) <= {1}


def test_growth_appends_only_what_is_new(store: Store) -> None:
    """Each file of a growth series appends to one session and ends as a single import does."""
    assert len(GROWTH) == 5
    before: list[ev.Event] = []
    for path in GROWTH:
        report = import_file(store, path)
        (session,) = own(store, report)
        now = happened(session)
        assert now[: len(before)] == before
        assert report.events == len(now) - len(before) > 0
        before = now
    assert [info.id for info in store.sessions()] == ["cc432c40-914a-4c1a-a972-0103199a736a"]
    with eventlog.open("memory:") as alone:
        import_file(alone, GROWTH[-1])
        (session,) = own(alone, import_file(alone, GROWTH[-1]))
        assert happened(session)[1:] == before[1:]
    for path in GROWTH:
        assert import_file(store, path).events == 0


def test_growth_line_by_line(store: Store, tmp_path: Path) -> None:
    """A file that grows line by line never forks and ends as if imported at once."""
    lines = GROWTH[0].read_bytes().splitlines(keepends=True)
    path = tmp_path / "growing.jsonl"
    path.write_bytes(b"")
    added = 0
    for number, line in enumerate(lines):
        with path.open("ab") as file:
            file.write(line[: len(line) // 2])
        if b'"message"' in b"".join(lines[:number]):  # before that the file is refused: it has no conversation
            report = import_file(store, path)
            added += report.events
            assert [found.line for found in report.skipped if "incomplete" in found.reason] == [number + 1]
        with path.open("ab") as file:
            file.write(line[len(line) // 2 :])
    added += import_file(store, path).events
    assert added == sum(info.events for info in store.sessions())
    with eventlog.open("memory:") as alone:
        assert import_file(alone, GROWTH[0]).events == added


def test_records_are_given_back() -> None:
    """Every JSON record comes back equal, whole files of them, from the events alone."""
    for path in SESSIONS:
        with eventlog.open("memory:") as alone:
            sessions = own(alone, import_file(alone, path))
            back = [(source.line, source.record) for source in emit(sessions, alone.text)]
        assert back == claude_lines(path), path.name


def test_nothing_large_is_stored_twice(store: Store) -> None:
    """The remainder of a record holds no text that an event holds: it is small."""
    for session in own(store, import_file(store, GROWTH[-1])):
        texts: set[str] = set()
        for event in happened(session):
            if isinstance(event, ev.PartStarted) and isinstance(event.kind, (Text, Reasoning)):
                texts.add(store.text(event.kind.text))
            elif isinstance(event, ev.ToolCompleted):
                texts.add(store.text(event.output))
        for event in happened(session):
            if isinstance(event, ev.ForeignKept) and event.of.count(":") == 1:
                rest = store.text(event.data)
                assert len(rest) < 64_000
                assert not any(len(text) > 200 and json.dumps(text, ensure_ascii=False)[1:-1] in rest for text in texts)


def test_original_times_are_kept(store: Store) -> None:
    """Events have the UTC milliseconds of the record they come from."""
    (session,) = own(store, import_file(store, GROWTH[0]))
    stamps = {found["uuid"]: found["timestamp"] for _, found in claude_lines(GROWTH[0]) if "uuid" in found}
    users = [found for found in session.events() if isinstance(found.event, ev.UserMessageAdded)]
    assert users
    for found in users:
        assert isinstance(found.event, ev.UserMessageAdded)
        stamp = stamps[found.event.message]
        assert f"{found.time % 60_000 / 1000:06.3f}Z" == stamp[-7:]
    assert store.info(session.id).created == next(iter(session.events())).time


def test_damaged_and_strange_lines_are_listed(store: Store) -> None:
    """Unsound or unexpected lines are reported with line number and reason."""
    by_name = {path.name: path for path in SESSIONS}
    report = import_file(store, by_name["test__test_data__edge_cases.jsonl"])
    reasons = {found.line: found.reason for found in report.skipped}
    assert {
        10: "its message has no content",
        11: "its message is not an object",
        13: "not an object",
    }.items() <= reasons.items()
    two_on_a_line = by_name["cli__37_995ebed6e4_2_full.jsonl"]
    assert [found.line for found in import_file(store, two_on_a_line).skipped] == [131]  # its uuid came before
    assert [line for line, _ in claude_lines(two_on_a_line)].count(128) == 2


def test_sidechains_are_sub_sessions(store: Store) -> None:
    """Sub-agents' records become sub-sessions of the main one, named by their call."""
    path = next(path for path in SESSIONS if "5c0375b4" in path.name)
    report = import_file(store, path)
    main, *subs = [store.info(name) for name in report.sessions]
    assert (main.parent, len(subs)) == (None, 2)
    assert {sub.parent for sub in subs} == {main.id}
    assert all(sub.agent == "general-purpose" and sub.title for sub in subs)
    roots = [found["uuid"] for _, found in claude_lines(path) if found["isSidechain"] and not found["parentUuid"]]
    assert [sub.id for sub in subs] == [f"{main.id}:{root}" for root in roots]


def test_agent_files_are_sub_sessions_alone(store: Store) -> None:
    """A file of sub-agent records alone gives that sub-session and no empty main one."""
    path = next(path for path in SESSIONS if "agent-test-hash-123" in path.name)
    (info,) = [store.info(name) for name in import_file(store, path).sessions]
    assert info.parent == "5c0375b4-57a5-4f26-b12d-d022ee4e51b7"


def branched() -> list[dict[str, Any]]:
    """Make a session whose second prompt was edited: branch `u2` was left for `u3`."""
    return [
        record("user", "u1", None, "first prompt"),
        record("assistant", "a1", "u1", [{"type": "text", "text": "first answer"}]),
        record("user", "u2", "a1", "second prompt"),
        record("assistant", "a2", "u2", [{"type": "text", "text": "second answer"}]),
        record("user", "u3", "a1", "second prompt, edited"),
        record("assistant", "a3", "u3", [{"type": "text", "text": "third answer"}]),
    ]


def said(session: Session, store: Store) -> list[str]:
    """Return the texts of a session's effective history."""
    kinds = [event.kind for event in effective(session) if isinstance(event, ev.PartStarted)]
    return [store.text(kind.text) for kind in kinds if isinstance(kind, Text)]


def test_branches_become_forks(store: Store, tmp_path: Path) -> None:
    """The session follows the newest branch; a fork keeps the old one, also after growth."""
    path = write(tmp_path / "s.jsonl", branched()[:4])
    before = import_file(store, path)
    write(path, branched())
    report = import_file(store, path)
    assert report.sessions == ["s", "s:a2"]
    main, fork = (store.session(name) for name in report.sessions)
    assert said(main, store) == ["first prompt", "first answer", "second prompt, edited", "third answer"]
    assert said(fork, store) == ["first prompt", "first answer", "second prompt", "second answer"]
    assert fork.info.fork_of == "s"
    assert before.events + report.events == main.info.events + fork.info.events
    assert import_file(store, path).events == 0
    back = {source.line: source.record for source in emit([main], store.text)}
    assert list(back.values()) == branched()


def test_an_answer_ends_with_its_text(store: Store, tmp_path: Path) -> None:
    """Thoughts and text of one answer are records that both name its end: the text is last."""
    ends, same = {"id": "msg_a", "stop_reason": "end_turn"}, [record("user", "u1", None, "go")]
    for uuid, parent, block in (
        ("a1", "u1", {"type": "thinking", "thinking": "hm", "signature": "s"}),
        ("a2", "a1", {"type": "text", "text": "done"}),
    ):
        path = write(tmp_path / "s.jsonl", same := [*same, record("assistant", uuid, parent, [block], message=ends)])
        report = import_file(store, path)
        finished = [event for event in effective(store.session("s")) if isinstance(event, ev.MessageFinished)]
        assert [event.reason for event in finished] == ["stop"] * (uuid == "a2")
    assert (report.sessions, report.messages) == (["s"], 2)


def test_parallel_results_are_no_branches(store: Store, tmp_path: Path) -> None:
    """Parallel results, and answers after any of them, continue one conversation."""
    same = {"id": "msg_a"}
    path = write(
        tmp_path / "s.jsonl",
        [
            record("user", "u1", None, "go"),
            record("assistant", "a1", "u1", [call("c1")], message=same),
            record("assistant", "a2", "a1", [call("c2")], message=same),
            record("user", "r1", "a1", [result("c1")]),
            record("assistant", "a3", "r1", [call("c3")], message=same),
            record("user", "r2", "a2", [result("c2", is_error=True)]),
            record("user", "r3", "a3", [result("c3")]),
            record("assistant", "b1", "r1", [{"type": "text", "text": "done"}]),
        ],
    )
    report = import_file(store, path)
    assert (report.sessions, report.messages, report.skipped) == (["s"], 3, [])
    kinds = Counter(type(event) for event in effective(store.session("s")))
    assert (kinds[ev.ToolCompleted], kinds[ev.ToolFailed], kinds[ev.MessageFinished], kinds[ev.RolledBack]) == (
        2,
        1,
        1,
        0,
    )


def test_compaction_hides_what_came_before(store: Store) -> None:
    """A compact boundary with its summary is a completed compaction of all before it."""
    path = next(path for path in SESSIONS if "cli__d0" in path.name)
    main = own(store, import_file(store, path))[0]
    compaction = [event for event in effective(main) if type(event).__name__.startswith("Compaction")]
    assert [type(event) for event in compaction] == [
        ev.CompactionRequested,
        ev.CompactionStarted,
        ev.CompactionCompleted,
    ]
    requested, started, completed = compaction
    assert isinstance(requested, ev.CompactionRequested)
    assert isinstance(started, ev.CompactionStarted)
    assert isinstance(completed, ev.CompactionCompleted)
    assert (requested.auto, started.tokens_before, started.through) == (True, 168_483, None)
    texts = [
        event for event in effective(main) if isinstance(event, ev.PartStarted) and event.message == completed.summary
    ]
    assert isinstance(texts[0].kind, Text)
    assert store.text(texts[0].kind.text).startswith("This session is being continued")


def test_what_a_record_says_is_represented(store: Store, tmp_path: Path) -> None:
    """Thinking, images, synthetic prompts, todos, titles, interrupts and errors become events."""
    todos = [{"content": "write", "status": "in_progress", "activeForm": "Writing"}]
    image = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "aGVsbG8gd29ybGQgaGVsbG8="},
    }
    thinking = {"type": "thinking", "thinking": "let me think about it", "signature": "sig" * 10}
    path = write(
        tmp_path / "s.jsonl",
        [
            record("user", "m1", None, "caveat", isMeta=True, gitBranch="main", cwd="/home/x"),
            record("user", "u1", "m1", [{"type": "text", "text": "look"}, image]),
            record("assistant", "a1", "u1", [thinking, {"type": "redacted_thinking", "data": "opaque"}]),
            record(
                "assistant", "a2", "a1", [call("c1", "TodoWrite", todos=todos)], message={"stop_reason": "tool_use"}
            ),
            record(
                "user",
                "r1",
                "a2",
                [result("c1", [{"type": "text", "text": "ok"}, image])],
                toolUseResult={"newTodos": todos},
            ),
            record("assistant", "a3", "r1", [call("c2", command="sleep")]),
            record("user", "i1", "a3", [{"type": "text", "text": "[Request interrupted by user for tool use]"}]),
            record("assistant", "e1", "i1", [{"type": "text", "text": "API Error"}], isApiErrorMessage=True),
            {"type": "summary", "summary": "A fine title", "leafUuid": "e1"},
        ],
    )
    report = import_file(store, path)
    found = happened(store.session("s"))
    assert report.skipped == []
    assert [event.synthetic for event in found if isinstance(event, ev.UserMessageAdded)] == [True, False, False]
    files = [event.kind for event in found if isinstance(event, ev.PartStarted) and isinstance(event.kind, File)]
    assert [(file.mime, store.text(file.url)) for file in files] == [
        ("image/png", "data:image/png;base64,aGVsbG8gd29ybGQgaGVsbG8=")
    ]
    signed = [json.loads(event.metadata) for event in found if isinstance(event, ev.PartEnded) and event.metadata]
    assert signed == [{"anthropic": {"signature": "sig" * 10}}, {"anthropic": {"redactedData": "opaque"}}]
    assert [event.todos[0].text for event in found if isinstance(event, ev.TodosSet)] == ["write"]
    completed = [event for event in found if isinstance(event, ev.ToolCompleted)]
    assert [(event.output, len(event.attachments)) for event in completed] == [("ok", 1)]
    assert [event.interrupted for event in found if isinstance(event, ev.ToolFailed)] == [True]
    ends = [
        (event.reason, event.error and event.error.name) for event in found if isinstance(event, ev.MessageFinished)
    ]
    assert ends == [(None, None), ("tool-calls", None), (None, "aborted"), (None, "api")]
    info = store.info("s")
    assert (info.title, info.directory, info.origin and info.origin.foreign_id) == ("A fine title", "/home/x", "s")
    assert next(event.title for event in found if isinstance(event, ev.SessionRenamed)) == "look"
    assert ev.MetadataSet("git_branch", '"main"') in found


def test_a_file_is_known_by_its_records() -> None:
    """The format is detected from the records; other agents' session files do not match."""
    for path in SESSIONS:
        assert detect(path.read_bytes()[:65536], str(path)) == "claude_code"
    others = recorded(DATA, "codex_rollout", "pi_session", "openai_messages", "sharegpt", "swe_agent", "gemini_cli")
    assert others
    for path in others:
        assert not FORMATS["claude_code"].detect(path.read_bytes()[:65536], str(path)), path.name
