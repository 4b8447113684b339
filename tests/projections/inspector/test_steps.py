"""Model calls of a session: imported ones, and those without a recorded request."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import eventlog
from eventlog.importers import import_file
from eventlog.store import Store
from eventlog.values import Tokens, Usage
from projections import ModelView
from projections.inspector import answers
from projections.inspector.room import Room


def test_a_step_took_what_the_model_took(tmp_path: Path) -> None:
    """Neither the run of a tool nor an answer that was recorded as a whole is time of a model."""
    now = [1_768_471_200_000]
    with eventlog.open(tmp_path / "store", clock=lambda: now[0]) as store:
        session = store.create_session(id="clocked")
        session.user("go")
        with session.assistant("acme/one") as reply:
            reply.step()
            now[0] += 2_000
            reply.add_text("so")
            call = reply.tool("grep", call_id="c")
            now[0] += 1_000
            call.start({})
            now[0] += 60_000
            call.succeed("found")
            reply.finish("tool-calls")
        with session.assistant("acme/one") as reply:
            reply.step()
            reply.add_text("at once")
            now[0] += 5_000
            reply.finish()
        last, first = answers.steps(Room(store, "clocked"), {})["steps"]
        assert (first["took"], first["wait"]) == (3_000, 2_000)
        assert first["tools"][0]["ended"] - first["tools"][0]["began"] == 60_000
        assert (last["took"], last["wait"]) == (None, None)


@pytest.mark.parametrize("with_view", [True, False])
def test_a_streamed_reply_took_the_time_since_it_opened(tmp_path: Path, with_view: bool) -> None:
    """A program opens the reply, calls the model, and writes what comes."""
    now = [1_768_471_200_000]
    with eventlog.open(tmp_path / "store", clock=lambda: now[0]) as store:
        session = store.create_session(id="clocked")
        for waits in (2_000, 3):
            session.user("go")
            with session.assistant("acme/one", view=ModelView.of(session) if with_view else None) as reply:
                now[0] += waits
                text = reply.stream_text()
                for word in ("one ", "two"):
                    now[0] += waits
                    text.append(word)
                reply.finish()
        whole, first = answers.steps(Room(store, "clocked"), {})["steps"]
    assert (first["took"], first["wait"]) == (6_000, 2_000)
    assert (whole["took"], whole["wait"]) == (None, None), "written at once, after it came"


def _claude_code(path: Path) -> None:
    """Write a recording whose records have the times at which they were complete."""
    usage = {"input_tokens": 10, "output_tokens": 5}
    call: dict[str, Any] = {"type": "tool_use", "id": "c", "name": "Bash", "input": {"command": "ls"}}
    result = {"type": "tool_result", "tool_use_id": "c", "content": "a.txt"}
    head: dict[str, Any] = {"id": "m", "role": "assistant", "model": "claude-sonnet-4-5", "usage": usage}
    said: list[tuple[str, dict[str, Any]]] = [
        ("user", {"role": "user", "content": "List the files"}),
        ("assistant", head | {"content": [{"type": "text", "text": "I look."}]}),
        ("assistant", head | {"content": [call]}),
        ("user", {"role": "user", "content": [result]}),
    ]
    records = [
        {"type": who, "uuid": f"u{n}", "parentUuid": f"u{n - 1}" if n else None, "sessionId": "s", "cwd": "/",
         "version": "2.0.0", "timestamp": f"2026-01-15T10:00:{10 * n:02}.000Z", "message": message}
        for n, (who, message) in enumerate(said)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")


def test_an_imported_step_has_no_time_that_was_not_recorded(tmp_path: Path) -> None:
    """When a request was sent is unknown, and what a step took; calls have their times."""
    _claude_code(tmp_path / "s.jsonl")
    with eventlog.open(tmp_path / "store") as store:
        import_file(store, tmp_path / "s.jsonl")
        room = Room(store, next(iter(store.sessions())).id)
        (step,) = answers.steps(room, {})["steps"]
        (run,) = step["tools"]
    assert (step["took"], step["wait"]) == (None, None)
    assert run["ended"] - run["began"] == 10_000


def test_a_reply_without_a_recorded_request_is_a_step(store: Store) -> None:
    """Model, tokens and cost are listed, among the steps with a request and a number."""
    session = store.create_session(id="by hand")
    session.user("go")
    with session.assistant("acme/one") as reply:
        reply.add_text("so")
        reply.finish(usage=Usage(Tokens(7, 2), Decimal("0.5")))
    with session.assistant("acme/two") as reply:
        reply.step()
        reply.add_text("and so")
        reply.finish()
    room = Room(store, "by hand")
    listed = answers.steps(room, {})
    assert (listed["all"], listed["recorded"]) == (2, 1)
    newer, older = listed["steps"]
    assert (newer["number"], older["number"]) == (1, None)
    assert (older["model"], older["reported"], older["output"], older["cost"]) == ("acme/one", 7, 2, "0.5")
    assert answers.steps(room, {"before": str(newer["version"])})["steps"] == [older]
    assert answers.request(room, {"step": "1"})["model"] == "acme/two"
