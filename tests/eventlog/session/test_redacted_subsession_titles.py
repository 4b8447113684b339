"""A title of a sub-session or fork that quotes a redacted part goes with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import eventlog
from eventlog import events as ev
from eventlog.importers import import_file
from eventlog.testing.file_search import files_with
from projections.loop.task_calls import TaskRequest, open_task
from projections.verify.verify import verify
from tests.support.encrypted_store import opened_by_the_keys

SECRET = "hunter2 of the vault"
WORK = TaskRequest("Look into it.", f"Check {SECRET}", "explore")
UNRECORDED = "the append lost its content, and no redaction says so"
"""The fault of an earlier state: a restore has no keys to record the later redaction."""
TIME = {"timestamp": "2026-05-01T10:00:00.000Z", "sessionId": "aaaaaaaa-0000-4000-8000-000000000003"}


def parts_with(session: eventlog.Session, kind: type) -> list[str]:
    """The ids of the session's parts of a kind."""
    found = (recorded.event for recorded in session.events())
    return [event.part for event in found if isinstance(event, ev.PartStarted) and isinstance(event.kind, kind)]


def looped(store: eventlog.Store, _path: Path) -> tuple[str, str]:
    """A call of the tool `task`, as a loop runs it."""
    session = store.create_session(title="Mine")
    session.user("Do it")
    with session.assistant(model="acme/one") as reply:
        call = reply.tool("task", call_id="c1")
        call.start(WORK.arguments)
        child = open_task(session, call.id, WORK)
        call.succeed("done")
        reply.finish("tool-calls")
    return session.id, child.id


def by_hand(store: eventlog.Store, path: Path) -> tuple[str, str]:
    """A sub-session that a program named, and renamed since."""
    session, child = looped(store, path)
    store.session(child).rename("Another title")
    return session, child


def claude_code(store: eventlog.Store, path: Path) -> tuple[str, str]:
    """A sidechain of Claude Code."""
    given = {"description": WORK.description, "prompt": WORK.prompt, "subagent_type": "explore"}
    use = {"type": "tool_use", "id": "t1", "name": "Task", "input": given}
    lines: list[dict[str, Any]] = [
        {"type": "user", "uuid": "u1", "parentUuid": None, "message": {"role": "user", "content": "Do it"}},
        {"type": "assistant", "uuid": "u2", "parentUuid": "u1",
         "message": {"id": "m1", "role": "assistant", "model": "claude", "content": [use]}},
        {"type": "user", "uuid": "u3", "parentUuid": None, "isSidechain": True,
         "message": {"role": "user", "content": WORK.prompt}},
    ]  # fmt: skip
    (path / "one.jsonl").write_text("".join(json.dumps(TIME | line) + "\n" for line in lines))
    import_file(store, path / "one.jsonl")
    (child,) = (info for info in store.sessions() if info.parent)
    assert child.parent
    return child.parent, child.id


def opencode(store: eventlog.Store, path: Path) -> tuple[str, str]:
    """A session and its child as OpenCode exports them."""
    time = {"created": 1_750_000_000_000, "updated": 1_750_000_009_000, "completed": 1_750_000_008_000}
    given = {"description": WORK.description, "prompt": WORK.prompt, "subagent_type": "explore"}
    state = {"status": "completed", "input": given, "output": "done", "title": "", "metadata": {"sessionId": "ses_2"},
             "time": {"start": time["created"], "end": time["completed"]}}  # fmt: skip
    call = {"id": "prt_1", "messageID": "msg_1", "sessionID": "ses_1", "type": "tool", "callID": "c1", "tool": "task",
            "state": state}  # fmt: skip
    reply = {"id": "msg_1", "sessionID": "ses_1", "role": "assistant", "time": time, "modelID": "m", "providerID": "p"}
    files: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
        "ses_1": ({"title": "Do it"}, [{"info": reply, "parts": [call]}]),
        "ses_2": ({"title": f"{WORK.description} (@explore subagent)", "parentID": "ses_1"}, []),
    }
    for id, (said, messages) in files.items():
        document = {
            "info": {"id": id, "directory": "/w", "version": "1.0.0", "time": time, **said},
            "messages": messages,
        }
        (path / f"{id}.json").write_text(json.dumps(document))
        import_file(store, path / f"{id}.json")
    return "ses_1", "ses_2"


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("make", [looped, by_hand, claude_code, opencode], ids=lambda one: one.__name__)
def test_the_title_of_a_subsession_goes_with_the_call(tmp_path: Path, make: Any, *, keyed: bool) -> None:
    """Redaction empties it, a scrub its events; verification passes."""
    path, keys = tmp_path / "store", True if keyed else None
    with eventlog.open(path, keys=keys) as store:
        name, child = make(store, tmp_path)
        head, at = store.head(), store.cursor()
        kept = "Another title" if make is by_hand else ""
        assert store.info(child).title == (kept or store.info(child).title)
        (call,) = parts_with(store.session(name), eventlog.Tool)
        store.session(name).redact(call)
        assert store.info(child).title == kept
        assert store.info(name).title in {"Mine", "Do it"}
        store.scrub()
        for file in (*tmp_path.glob("*.jsonl"), *sorted(tmp_path.glob("*.json"))):
            file.touch()
            import_file(store, file)
        assert len(list(store.sessions())) == 2
        assert SECRET not in str([recorded.event for one in (name, child) for recorded in store.session(one).events()])
        store.session(child).rename("Later")
        store.scrub()
        assert store.info(child).title == "Later"
        report = verify(store, deep=True, against=head)
        assert report.sound, report
        assert SECRET.encode() not in opened_by_the_keys(store)
    assert not files_with(path, SECRET)
    eventlog.restore(path, tmp_path / "restored", cursor=at)
    assert not files_with(tmp_path / "restored", SECRET)
    with eventlog.open(tmp_path / "restored", keys=tmp_path / "store.keys" if keyed else None) as store:
        assert store.info(child).title == ""
        assert SECRET.encode() not in opened_by_the_keys(store)
        faults = {problem.problem for one in verify(store, deep=True).sessions for problem in one.problems}
        assert faults == ({UNRECORDED} if keyed else set())


def test_a_fork_loses_the_title_that_it_took_along(tmp_path: Path) -> None:
    """The title of a fork that quotes the prompt goes with that of its parent, by scrub, too."""
    with eventlog.open(tmp_path / "store") as store:
        session = store.create_session(title=f"Check {SECRET}")
        session.user(f"Check {SECRET}, please")
        forks = [session.fork(), session.fork(title="Its own")]
        (part,) = parts_with(session, eventlog.Text)
        session.redact(part)
        assert [one.info.title for one in (session, *forks)] == ["", "", "Its own"]
        store.scrub()
        assert verify(store, deep=True).sound
    assert not files_with(tmp_path / "store", SECRET)
