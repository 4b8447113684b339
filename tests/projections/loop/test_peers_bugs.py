"""Public bugs of other engines, each as a test of the default preset."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import eventlog
from eventlog import events as ev
from eventlog.errors import DamagedError
from eventlog.session.session import Session
from eventlog.values import MessageError
from projections import ModelView
from projections.loop import ContextWindow, Stop
from projections.view.part_rendering import QUESTION
from projections.window import SummaryRequest
from tests.support.engines import Engine
from tests.support.window_loop import (
    LIMITS,
    MODEL,
    SMALL,
    Loop,
    Reply,
    asked,
    calls,
    results,
    sections,
    summarized,
    talk,
    texts,
    told,
)

ROOT = Path(__file__).resolve().parents[3]
JOURNAL = "1/journal/0000000001.log"


def window(session: Session, summarizer: Callable[[SummaryRequest], Any] = summarized, **options: Any) -> ContextWindow:
    """The window of a session with a small tail."""
    return ContextWindow(session, SMALL, model=MODEL, limits=LIMITS, summarizer=summarizer, environment={}, **options)


def test_codex_32851_rolling_back_a_turn_that_compacted(session: Session) -> None:
    """Codex #32851: a rolled-back turn with a compaction in it leaves nothing in requests."""
    talk(session, 14)
    before, version = ModelView.of(session).digest, session.version
    session.user("the discarded turn")
    loop = Loop(session, lambda _request: Reply("a discarded answer"), {}, SMALL, LIMITS, {"summarizer": summarized})
    assert loop.run() == Stop("finished")
    assert QUESTION in texts(ModelView.of(session).messages)
    after = ModelView.of(session).digest
    session.rollback(version)
    assert ModelView.of(session).digest == before
    session.redo()
    assert ModelView.of(session).digest == after
    session.rollback(version)
    session.user("another turn")
    assert loop.run() == Stop("finished")
    said = told(loop.requests[-1].messages)
    assert "discarded" not in said
    assert said.count(QUESTION) == 1


def test_adk_go_1316_a_clock_that_stands_still_or_goes_back() -> None:
    """adk-go #1316: covering goes by versions, so no clock leaves a message out or in twice."""
    clock = random.Random(7)
    with eventlog.open("memory:", clock=lambda: clock.randrange(1_000, 1_010)) as store:
        session = store.create_session()
        talk(session, 20, words=100)
        heads: list[SummaryRequest] = []

        def summarizer(request: SummaryRequest) -> str:
            heads.append(request)
            return sections()

        assert window(session, summarizer).compact().completed
        shown = [text for text in texts(ModelView.of(session).messages) if text.startswith(("question", "answer"))]
        covered = [text for head in heads for text in texts(head.messages)]
        assert covered + shown == [
            text for number in range(20) for text in (f"question {number}", f"answer {number} " + "word " * 100)
        ]


def test_primer_148_what_happens_during_a_compaction_is_kept(session: Session) -> None:
    """Primer #148: what arrives while the summary is written is there after it."""
    talk(session, 8)
    session.user("look")
    reply = session.assistant(MODEL)
    session.executor.acquire()
    reply.begin()
    call = reply.tool("look", call_id="c", input="{}")

    def summarizer(request: SummaryRequest) -> Iterator[str]:
        session.user("said meanwhile")
        call.succeed("late result")
        session.rename("named meanwhile")
        session.set_todos([eventlog.Todo("noted meanwhile")])
        yield summarized(request)

    assert window(session, summarizer).compact().completed
    reply.finish("tool-calls")
    session.executor.release()
    said = told(ModelView.of(session).messages)
    assert "said meanwhile" in said
    assert "late result" in said
    assert "noted meanwhile" in said
    assert session.info.title == "named meanwhile"
    assert texts(ModelView.of(session).messages)[-1] == "said meanwhile"


def abandoned(path: Path) -> None:
    """A store of two sessions whose process ended without closing it."""
    script = f"""
import os, eventlog
store = eventlog.open({str(path)!r})
for name in ("s", "other"):
    session = store.create_session(id=name)
    for number in range(3):
        session.user(f"question {{number}}")
os._exit(0)
"""
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True)


@pytest.mark.parametrize("marked", [True, False])
def test_claude_code_53821_and_50347_a_torn_end_does_not_open_a_blank_session(tmp_path: Path, *, marked: bool) -> None:
    """claude-code #53821, #50347: a torn append is left out, or named as damage."""
    path = tmp_path / "store"
    abandoned(path)
    data = (path / JOURNAL).read_bytes()
    end = len(data.rstrip(b"\0"))
    (path / JOURNAL).write_bytes(data[: end - 5] + bytes(len(data) - end + 5))
    if not marked:
        (path / "mark").write_bytes(b"")
    if marked:
        with pytest.raises(DamagedError), eventlog.open(path) as store:
            ModelView.of(store.session("other"))
        return
    with eventlog.open(path) as store:
        assert texts(ModelView.of(store.session("s")).messages) == [f"question {number}" for number in range(3)]
        assert texts(ModelView.of(store.session("other")).messages) == ["question 0", "question 1"]


def test_github_app_2309_a_read_error_is_not_an_empty_session(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """github/app #2309: an I/O error while reading is raised."""
    store = engine.open()
    session = store.create_session(id="s")
    talk(session, 2)

    def broken(*given: object, **more: object) -> object:
        raise OSError(5, "Input/output error", given, more)

    with monkeypatch.context() as patched:
        patched.setattr(store.log, "read", broken)
        with pytest.raises(OSError, match="Input/output error"):
            ModelView.of(session)
        with pytest.raises(OSError, match="Input/output error"):
            ContextWindow(session, environment={})
        assert store.create_session().id != "s"
    assert len(ModelView.of(session).messages) == 4


def test_orphan_calls_do_not_wedge_a_session(session: Session) -> None:
    """pydantic-ai #4728 and others: calls without an answer have a result, and work goes on."""
    session.user("look")
    with session.assistant(MODEL) as reply:
        reply.tool("look", call_id="ran", input="{}")
        reply.tool("look", call_id="begun").stream_input('{"pa')
        reply.abort(MessageError("aborted"))
    session.user("go on")
    loop = Loop(session, lambda _request: Reply("fine"))
    assert loop.run() == Stop("finished")
    view = loop.requests[0].messages
    assert [found.call for found in results(view)] == [found.call for found in calls(view)] == ["ran", "begun"]
    assert [found.input for found in calls(view)] == ["{}", "{}"]


def test_openhands_3926_more_than_a_hundred_thousand_events(tmp_path: Path) -> None:
    """OpenHands #3926: the hundred-thousandth event is one like any other."""
    with eventlog.open(tmp_path / "store") as store:
        session = store.create_session(id="s")
        session.user("before")
        batch: list[tuple[int, ev.Event]] = [(1_000, ev.Custom("n", "{}"))] * 20_000
        for _ in range(5):
            session.append(batch)
        window(session).save()
        session.user("after")
        assert session.version > 100_001
    with eventlog.open(tmp_path / "store") as store:
        session = store.session("s")
        assert texts(ModelView.of(session).messages) == ["before", "after"]
        assert Loop(session, lambda request: Reply(f"to {asked(request)}")).run() == Stop("finished")
