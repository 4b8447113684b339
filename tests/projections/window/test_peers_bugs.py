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
from eventlog.codec.batch import encode
from eventlog.errors import DamagedError
from eventlog.session.owner import LIVE
from eventlog.session.session import Session
from eventlog.values import INTERRUPTED, MessageError
from projections import ModelView
from projections.loop import ContextWindow, ModelRequest, Stop
from projections.view.part_rendering import CLEARED, QUESTION
from projections.window import CompactionPolicy, ContextPolicy, SummaryRequest
from projections.window.compaction.continuation import CONTINUE
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
JOURNAL = "journal/0000000001.log"


@pytest.fixture
def session() -> Iterator[Session]:
    """A session in memory."""
    with eventlog.open("memory:") as store:
        yield store.create_session(title="t")


def window(session: Session, summarizer: Callable[[SummaryRequest], Any] = summarized, **options: Any) -> ContextWindow:
    """The window of a session with a small tail."""
    return ContextWindow(session, SMALL, model=MODEL, limits=LIMITS, summarizer=summarizer, environment={}, **options)


# -- of other engines ------------------------------------------------------------------------------


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


def test_adk_python_4740_a_pending_call_is_not_compacted_away(session: Session) -> None:
    """adk-python #4740: a call that waits stays in the view, and so does its later result."""
    talk(session, 8)
    session.user("look")
    with session.assistant(MODEL) as reply:
        reply.add_text("I will")
        call = reply.tool("look", call_id="slow", input={"path": "a"})
        assert window(session).compact().completed
        view = ModelView.of(session).messages
        assert [found.call for found in calls(view)] == ["slow"]
        assert [found.output for found in results(view)] == [INTERRUPTED]
        call.succeed("here it is")
        reply.finish("tool-calls")
    assert [found.output for found in results(ModelView.of(session).messages)] == ["here it is"]


def test_langgraph_8443_and_8551_a_fork_does_not_replay_abandoned_branches(session: Session) -> None:
    """Langgraph #8443, #8551: a fork after a rollback has what was in force."""
    talk(session, 4)
    version = session.version
    session.user("abandoned")
    window(session).compact()
    session.rollback(version)
    session.user("kept")
    fork = session.fork()
    assert "abandoned" not in told(ModelView.of(fork).messages)
    assert "kept" in told(ModelView.of(fork).messages)
    before = ModelView.of(session).digest
    assert window(fork).compact().completed
    fork.user("only here")
    assert ModelView.of(session).digest == before
    assert "abandoned" not in told(ModelView.of(fork).messages)


def test_langgraph_8384_clearing_checkpoints_severs_nothing(engine: Engine) -> None:
    """Langgraph #8384: with any checkpoints gone every past view is what it was."""
    with engine.open() as store:
        session = store.create_session(id="s")
        views: dict[int, bytes] = {}
        for _ in range(3):
            talk(session, 3)
            with session.assistant(MODEL) as reply:
                call = reply.tool("look", call_id="c", input="{}")
                call.succeed("word " * 50)
                reply.finish("tool-calls")
            session.context.prune([call.id])
            window(session).compact()
            views[session.version] = ModelView.of(session).digest
        keys = [key for key, _ in store.log.scan_derived(b"checkpoint")]
        assert len(keys) > 3
        for index in range(len(keys)):
            store.log.put_derived([(keys[index], None)])
            assert {version: ModelView.of(session, version).digest for version in views} == views


def test_codex_31198_and_29531_compactions_store_no_history_again(session: Session) -> None:
    """Codex #31198, #29531: the events of a compaction name what it covers.

    Their bytes do not grow with it.
    """
    talk(session, 3, words=20)
    sizes: list[int] = []
    for turns in (1, 100):
        talk(session, turns, words=20)
        version = session.version
        found = ContextWindow(session, SMALL, summarizer=lambda _: sections(), environment={})
        assert found.compact().requests == 1
        sizes.append(sum(len(encode([(0, recorded.event)], 0)) for recorded in session.events(version)))
    assert max(sizes) < 2_000
    assert abs(sizes[1] - sizes[0]) < 100


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


def test_hermes_104099_a_crash_in_mid_compaction_is_a_failure(engine: Engine) -> None:
    """Hermes #104099: half a summary is no summary: the view before the crash stays."""
    session = engine.open().create_session(id="s")
    talk(session, 8)
    before = ModelView.of(session).digest
    session.executor.acquire()
    part = session.context.request_compaction(auto=True)
    session.context.start_compaction(part)
    half = session.assistant(MODEL, reply_to=session.reader.state().last_user(), summary=True)
    half.begin()
    half.stream_text().append("## Goal")
    session.flush()
    LIVE.discard(session.store.host.owner.store)
    taken = engine.open().session("s")
    assert ModelView.of(taken).digest == before
    with taken.lease():
        pass
    assert ModelView.of(taken).digest == before
    failed = [recorded.event for recorded in taken.events() if isinstance(recorded.event, ev.CompactionFailed)]
    assert [(event.part, event.reason) for event in failed] == [(part, "interrupted")]


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
    """github/app #2309: an I/O error while reading is raised.

    It neither looks like nothing nor begins anything.
    """
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


def test_parallel_results_are_in_the_order_of_their_calls(session: Session) -> None:
    """Results in any order of arrival stand in the order of the calls, behind their message."""
    session.user("look at all")
    with session.assistant(MODEL) as reply:
        reply.add_text("looking")
        running = [reply.tool("look", call_id=f"c{number}", input=f'{{"n":{number}}}') for number in range(5)]
        for number in (3, 0, 4, 2, 1):
            running[number].succeed(f"result {number}")
        session.user("meanwhile")
        reply.finish("tool-calls")
    view = ModelView.of(session).messages
    assert [message.role for message in view] == ["user", "assistant", "tool", "user"]
    assert [found.output for found in results(view)] == [f"result {number}" for number in range(5)]


def test_orphan_calls_do_not_wedge_a_session(session: Session) -> None:
    """pydantic-ai #4728 and others: calls without an answer have a result, and work goes on.

    The others: open-swe #1604, letta #3250, strands #2025.
    """
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


# -- of OpenCode 1.18 ------------------------------------------------------------------------------


def test_opencode_a_failed_summary_does_not_lose_the_head(session: Session) -> None:
    """OpenCode: after a failed summary everything is visible, and a later one covers it all."""
    talk(session, 14)
    before = ModelView.of(session).messages
    assert not window(session, lambda _: "").compact().completed
    assert ModelView.of(session).messages == before
    heads: list[SummaryRequest] = []

    def summarizer(request: SummaryRequest) -> str:
        heads.append(request)
        return sections()

    assert window(session, summarizer).compact().completed
    assert texts(heads[0].messages)[0] == "question 0"


def test_opencode_a_prompt_after_a_failed_summary_is_answered(session: Session) -> None:
    """OpenCode: the prompt after a failed summary is answered, with or without a compaction."""
    talk(session, 14)
    assert not window(session, lambda _: "").compact().completed
    session.user("what now")
    loop = Loop(session, lambda _request: Reply("this now"), {}, SMALL, LIMITS, {"summarizer": summarized})
    assert loop.run() == Stop("finished")
    assert "what now" in texts(loop.requests[-1].messages, "user")
    assert texts(ModelView.of(session).messages)[-1] == "this now"


def test_opencode_a_conversation_that_fits_the_tail_keeps_one(session: Session) -> None:
    """OpenCode: where everything fits the tail's budget the newest turn is kept verbatim."""
    talk(session, 3, words=10)
    session.user("the running request")
    with session.assistant(MODEL) as reply:
        reply.tool("look", call_id="c", input="{}").succeed("its result")
        reply.finish("tool-calls")
    roomy = ContextPolicy(compaction=CompactionPolicy(preserve_recent_tokens=8_000))
    found = ContextWindow(session, roomy, limits=LIMITS, summarizer=summarized, environment={})
    assert found.compact().completed
    view = ModelView.of(session).messages
    assert "the running request" in texts(view)
    assert [result.output for result in results(view)] == ["its result"]
    assert not any(text.startswith("answer 0") for text in texts(view))


def test_opencode_a_replay_keeps_the_steps_that_were_done(session: Session) -> None:
    """OpenCode: what the refused turn had done is visible beside the repeated message."""
    talk(session, 2, words=20)
    session.user("do it")

    def model(request: ModelRequest) -> Reply:
        if QUESTION in texts(request.messages):
            return Reply("done")
        return Reply(refused=True) if results(request.messages) else Reply(calls=[("work", '{"n":1}')])

    loop = Loop(session, model, {"work": lambda _given: "the work is done"}, SMALL, LIMITS, {"summarizer": summarized})
    assert loop.run() == Stop("finished")
    assert "the work is done" in told(loop.requests[-1].messages)
    assert texts(loop.requests[-1].messages, "user").count("do it") == 1


def test_opencode_older_pairs_never_come_back(session: Session) -> None:
    """OpenCode: a tail over an older compaction does not show its question or summary again."""
    roomy = ContextPolicy(compaction=CompactionPolicy(preserve_recent_tokens=3_000, tail_turns=None))
    for number in range(3):
        talk(session, 2, words=40)
        summary = sections(f"summary {number}")

        def summarizer(_request: SummaryRequest, said: str = summary) -> str:
            return said

        found = ContextWindow(session, roomy, limits=LIMITS, summarizer=summarizer, environment={})
        assert found.compact().completed
        said = told(ModelView.of(session).messages)
        assert said.count(QUESTION) == 1
        assert [f"summary {other}" in said for other in range(3)] == [other == number for other in range(3)]
    assert CONTINUE not in told(ModelView.of(session).messages)


def test_pruned_results_are_cleared_and_not_gone(session: Session) -> None:
    """OpenCode #22407: a cleared result comes back by undo, and from the log at any time."""
    session.user("look")
    with session.assistant(MODEL) as reply:
        call = reply.tool("look", call_id="c", input="{}")
        call.succeed("precious")
        reply.finish()
    version = session.version
    session.context.prune([call.id])
    assert [found.output for found in results(ModelView.of(session).messages)] == [CLEARED]
    assert [found.output for found in results(ModelView.of(session, version).messages)] == ["precious"]
    session.context.unprune([call.id])
    assert [found.output for found in results(ModelView.of(session).messages)] == ["precious"]
