"""Model calls of a session: imported ones, and those without a recorded request."""

from __future__ import annotations

import json
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import eventlog
from eventlog import Allow, Deny
from eventlog.errors import CallError
from eventlog.importers import import_file
from eventlog.store import Store
from eventlog.values import Tokens, Usage
from projections import ModelView, Transcript
from projections.inspector import answers
from projections.inspector.room import Room
from projections.loop import ContextWindow
from projections.reports.stats import session_stats
from projections.reports.timeline import timeline


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


def test_what_is_summed_stands_in_a_row(store: Store) -> None:
    """Failed calls, titles and corrections outside of replies are rows; the head is their sum."""
    session = store.create_session(id="s")
    session.user("go")
    with session.assistant("acme/one", id="a") as reply:
        reply.step()
        reply.add_text("so")
        reply.finish(usage=Usage(Tokens(7, 2), Decimal("0.5")))
    session.record_usage(Usage(Tokens(2000)), model="acme/unknown", failed=True)
    session.record_usage(Usage(Tokens(40, 3), Decimal("0.1")), model="acme/small", purpose="title")
    session.record_usage(Usage(Tokens(1), Decimal("0.2")), purpose="correction")
    session.record_usage(Usage(Tokens(5)), message="a", model="acme/one", failed=True)
    head = answers.steps(Room(store, "s"), {})
    correction, title, failed, turn = head["steps"]
    assert (head["all"], head["recorded"]) == (4, 1)
    assert [row["purpose"] for row in head["steps"]] == ["correction", "title", "turn", "turn"]
    assert (failed["model"], failed["failed"], failed["reported"], failed["cost"]) == ("acme/unknown", True, 2000, None)
    assert (title["reported"], title["hidden"], correction["cost"]) == (40, False, "0.2")
    for name in ("reported", "input", "output", "calls", "unknown"):
        assert head[name] == sum(row[name] for row in head["steps"]), name
    assert Decimal(head["cost"]) == sum(Decimal(row["cost"]) for row in (correction, title, turn))
    (spent,) = answers.spent(Room(store, "s"), {})["messages"]["a"]
    assert (spent["reported"], spent["hidden"]) == (12, False)
    session.rollback(before=Transcript(session).oldest_first()[0].id)
    assert [row["hidden"] for row in answers.steps(Room(store, "s"), {})["steps"]] == [False, False, False, True]


def test_a_call_that_failed_says_so(store: Store) -> None:
    """A reply that broke off has the error's name and text, also if it had written nothing."""
    session = store.create_session(id="s")
    session.user("go")
    for error, words in ((ValueError("at once"), ""), (KeyboardInterrupt(), "The answer")):
        with suppress(type(error)), session.assistant("acme/one", view=ModelView.of(session)) as reply:
            if words:
                reply.add_text(words)
            raise error
    with session.assistant("acme/one") as reply:
        reply.step()
        reply.abort(eventlog.MessageError("overloaded", "HTTP 529: again in 20 s\x07"))
    room = Room(store, "s")
    refused, stopped, at_once = answers.steps(room, {})["steps"]
    assert (at_once["error"], at_once["number"]) == ("unknown: ValueError", None)
    assert stopped["error"].startswith("aborted")
    assert refused["error"] == "overloaded: HTTP 529: again in 20 s␇"
    assert answers.request(room, {"step": "2"})["error"] == refused["error"]
    assert [entry.kind for entry in timeline(session).entries].count("broke-off") == 3


STATES = {
    "allowed": "allowed",
    "asked": "asked",
    "completed": "completed",
    "denied": "failed",
    "failed": "failed",
    "interrupted": "interrupted",
    "pending": "pending",
    "running": "running",
}
"""By call the word for it while a task runs the session."""


def test_states_of_calls_are_those_of_the_statistics(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every state has one word; a call without an end is unfinished once no task runs it."""
    session = store.create_session(id="s")
    session.user("go")
    with session.assistant("acme/one", id="a") as reply:
        calls = {name: reply.tool(name, call_id=name, id=name) for name in STATES}
        for name in ("allowed", "asked", "denied"):
            calls[name].ask("no undo", input={})
        for name in ("completed", "failed", "interrupted", "running"):
            calls[name].start({})
        calls["completed"].succeed("yes")
        calls["failed"].fail("no")
        calls["interrupted"].fail(interrupted=True)
        session.answer_call("a", "allowed", Allow(), by="ann")
        session.answer_call("a", "denied", Deny("no"), by="ann")
        assert _states(store) == STATES
        monkeypatch.setattr("projections.inspector.room.state_of", _unfinished)
        found = _states(store)
        assert found == STATES | {"pending": "unfinished", "running": "unfinished"}
        for tool in session_stats(session).tools:
            assert getattr(tool, found[tool.tool], 1) == 1


def _unfinished(*_: object) -> str:
    return "unfinished"


def _states(store: Store) -> dict[str, str]:
    (row,) = answers.steps(Room(store, "s"), {})["steps"]
    return {run["tool"]: run["state"] for run in row["tools"]}


def test_a_sum_says_how_many_calls_are_missing_in_it(store: Store) -> None:
    """Calls that reported nothing are counted, and a sum of none is no zero."""
    session = store.create_session(id="s")
    for number in range(3):
        session.user(f"question {number}")
        with session.assistant("acme/one") as reply:
            reply.step()
            reply.add_text("so")
            reply.finish()
    head = answers.steps(Room(store, "s"), {})
    assert (head["untold"], head["reported"], head["cost"]) == (3, None, None)
    with session.assistant("acme/one") as reply:
        reply.add_text("so")
        reply.finish(usage=Usage(Tokens(7, 2)))
    head = answers.steps(Room(store, "s"), {})
    assert (head["all"], head["untold"], head["reported"]) == (4, 3, 7)


def test_steps_are_found_by_what_they_took(tmp_path: Path) -> None:
    """By cost, tokens and time, tools included, the largest come first, each step on one page."""
    now = [1_768_471_200_000]
    amounts = [(number * 37) % 101 for number in range(90)]
    with eventlog.open(tmp_path / "store", clock=lambda: now[0]) as store:
        session = store.create_session(id="s")
        for amount in amounts:
            with session.assistant("acme/one") as reply:
                reply.step()
                now[0] += 20
                reply.add_text("so")
                now[0] += 200 - amount
                call = reply.tool("grep", call_id="c", input={})
                now[0] += amount * 3
                call.succeed("found")
                reply.finish(usage=Usage(Tokens(amount), Decimal(amount)))
        room = Room(store, "s")
        for sort, name in (("cost", "cost"), ("tokens", "input"), ("time", "input")):
            rows: list[dict[str, Any]] = []
            for more in (True, True, False):
                page = answers.steps(room, {"sort": sort, "skip": str(len(rows))})
                rows += page["steps"]
                assert page["more"] == more
            found = [int(row[name]) for row in rows]
            assert found == sorted(found, reverse=True), sort
            assert {row["number"] for row in rows} == set(range(1, 91)), sort
        with pytest.raises(CallError, match="sort is one of cost, tokens, time"):
            answers.steps(room, {"sort": "colour"})


def test_a_summary_that_called_no_model_names_none(store: Store) -> None:
    """The step of an offline summary has no model and no unknown cost; its request matches."""
    session = store.create_session(id="s")
    for number in range(6):
        session.user(f"question {number} " + "about a long matter " * 200)
        with session.assistant("openai/gpt-5") as reply:
            reply.add_text(f"answer {number}")
            reply.finish(usage=Usage(Tokens(7, 2)))
    with ContextWindow(session, model="openai/gpt-5", limits=eventlog.Limits(context=40_000, output=4_000)) as window:
        assert window.compact().completed
    room = Room(store, "s")
    summary = answers.steps(room, {})["steps"][0]
    assert (summary["purpose"], summary["model"], summary["reported"]) == ("summary", "", None)
    assert answers.steps(room, {})["untold"] == 0
    assert answers.audited(room, {})["verdicts"] == {"match": 1}
    assert ModelView.of(session).target == "openai/gpt-5"
