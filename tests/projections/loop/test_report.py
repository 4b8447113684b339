"""The report on a window: its counts add up, its previews come true, it holds no content."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import eventlog
from eventlog import Store
from eventlog.events import CompactionStarted
from eventlog.importers import import_file
from eventlog.values import Attachment, Limits
from projections.loop import ContextWindow
from projections.loop.context.report import WindowReport, preview_compaction, preview_prune, window_report
from projections.loop.decision.steps import CallModel, Stop
from projections.tokens.counter import frame_tokens
from projections.view.neutral import Text
from projections.view.part_rendering import MEDIA_HEADING
from projections.window import CompactionPolicy, ContextPolicy, OverflowPolicy, policy_named
from projections.window.prune.case import CLEARED_TOKENS
from tests.eventlog.importers.test_claude_code import call, record, write
from tests.support.cli_sessions import LIMITS, RECORDED, SECRET, recorded, talk

IMAGE = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
ALL = 1_000_000


def opened(store: eventlog.Store, name: str = "talk", policy: ContextPolicy | str | None = None) -> ContextWindow:
    """Return a session's window, without this machine's switches."""
    return ContextWindow(store.session(name), policy, environment={})


def check_sums(window: ContextWindow, report: WindowReport) -> None:
    """Check that all sums of the report agree."""
    view = window.view()
    others = len(view.system) + bool(view.tools)
    assert (
        report.kinds.total == report.counted == window.state.new_counter().count(view.messages, view.system, view.tools)
    )
    assert report.tokens == window.tokens == window.state.calibrated(report.counted)
    whole = report.kinds.system + report.kinds.tools + frame_tokens(others)
    assert sum(message.tokens for message in report.largest_messages) == report.counted - whole
    assert sum(tool.input for tool in report.tools) == report.kinds.calls
    assert sum(tool.results for tool in report.tools) == report.kinds.results
    sizes = [part.tokens for part in report.largest_parts]
    assert sizes == sorted(sizes, reverse=True)
    kinds = report.kinds
    headings = sum(part == Text(MEDIA_HEADING) for message in view.messages for part in message.parts)
    heading = window.state.counter.count(MEDIA_HEADING)
    beside = kinds.system + kinds.tools + kinds.frames + kinds.carried + headings * heading
    assert sum(sizes) == report.counted - beside


@pytest.fixture
def full(tmp_path: Path) -> eventlog.Store:
    """A session with everything: pruned, compacted, with files, pictures, todos carried over."""
    talk(tmp_path / "store")
    store = eventlog.open(tmp_path / "store")
    session = store.session("talk")
    session.pin(f"a fact {SECRET}")
    window = opened(store)
    assert window.prune() is not None
    assert window.compact().completed
    session.user("Look", id="u9", files=[eventlog.File("image/png", IMAGE, "shot.png")])
    with session.assistant(model="acme/one", id="a9") as reply:
        reply.stream_reasoning().append("I wonder")
        call = reply.tool("shoot", call_id="c9", input={"path": "/9"}, id="p9")
        call.succeed("taken", attachments=[Attachment("image/png", IMAGE, "taken.png")])
        reply.tool("shoot", call_id="c10", input={"path": "/10"}).fail("no film")
        reply.add_text("Here")
        reply.finish("stop")
    return store


@pytest.mark.parametrize("policy", ["default", "opencode-1.18"])
def test_kinds_sum_to_the_count(full: eventlog.Store, policy: str) -> None:
    """The kinds sum to the count of the whole request, by either preset's counter."""
    with full:
        window = opened(full, policy=policy_named(policy))
        report = window_report(window, largest=ALL)
        check_sums(window, report)
    empty = {name for name in report.kinds.__struct_fields__ if getattr(report.kinds, name) == 0}
    assert empty == (set() if policy == "default" else {"carried"})
    assert report.counter == ("o200k_base" if policy == "default" else "chars/4")


def test_the_report_tells_what_was(full: eventlog.Store) -> None:
    """Prunes, compactions and failures are listed with numbers and reasons, tools with calls."""
    with full:
        session = full.session("talk")
        failed = session.context.request_compaction()
        session.context.fail_compaction(failed, "empty")
        report = window_report(opened(full))
        pruned = next(event.event for event in session.events() if isinstance(event.event, eventlog.events.Pruned))
    prune, compaction = report.changes
    assert (prune.kind, prune.parts, prune.policy, prune.freed) == ("prune", pruned.parts, "recency", pruned.freed)
    assert compaction.kind == "compaction"
    assert compaction.tokens_after is not None
    assert [failure.reason for failure in report.failures] == ["empty"]
    shoot = next(tool for tool in report.tools if tool.tool == "shoot")
    assert (shoot.calls, shoot.pruned, shoot.attachments > 0) == (2, 0, True)
    roles = {message.id: message.role for message in report.largest_messages}
    assert (roles["u9"], roles["a9"]) == ("user", "assistant")
    assert "summary" in roles.values()


def test_the_report_holds_nothing_that_was_said(full: eventlog.Store) -> None:
    """A report holds no text of conversation, system prompt, todos or summary."""
    with full:
        report = json.dumps(window_report(opened(full), largest=ALL).as_json())
    assert SECRET not in report
    assert "a title" in report or "read" in report


def test_what_is_foretold_comes_true(tmp_path: Path) -> None:
    """A previewed prune is what a prune clears, a previewed compaction what one covers."""
    talk(tmp_path / "store")
    with eventlog.open(tmp_path / "store") as store:
        window = opened(store)
        plan = preview_prune(window)
        done = window.prune()
        assert done is not None
        assert (tuple(part.id for part in plan.parts), plan.freed) == (done.plan.parts, done.plan.freed)
        assert sum(part.tokens - CLEARED_TOKENS for part in plan.parts) == plan.freed
        assert not preview_prune(window).parts
        assert all(
            part.pruned for part in window_report(window, largest=ALL).largest_parts if part.id in done.plan.parts
        )
        found = preview_compaction(window)
        assert found is not None
        before = set(store.session("talk").reader.state().messages)
        result = window.compact()
        assert result.covered == found.messages
        left = {message.source for message in window.view().messages}
        assert found.tail in left
        assert set(found.kept) <= left
        assert len(before - left) == found.messages
        assert window_report(window).compaction != found


def test_switches_and_planners(tmp_path: Path) -> None:
    """A report says what is switched off, and takes another planner and `inside`."""
    talk(tmp_path / "store")
    with eventlog.open(tmp_path / "store") as store:
        session = store.session("talk")
        off = window_report(ContextWindow(session, environment={"EVENTLOG_PRUNE": "0", "EVENTLOG_AUTO_COMPACT": "0"}))
        assert (off.auto, off.prune.enabled, off.prune.parts) == (False, False, ())
        on = window_report(opened(store))
        assert on.auto
        other = window_report(opened(store), policy="superseded")
        assert (on.prune.policy, other.prune.policy) == ("recency", "superseded")
        inside = window_report(opened(store), inside=True)
        assert inside.prune.inside
        assert set(on.prune.parts) == set(inside.prune.parts), "here every turn is one step"
        with pytest.raises(eventlog.errors.NotFoundError, match="planner"):
            window_report(opened(store), policy="nonsense")


def test_a_pending_compaction_is_named(tmp_path: Path) -> None:
    """A requested compaction is the next step, and its preview leaves later messages alone."""
    talk(tmp_path / "store")
    with eventlog.open(tmp_path / "store") as store:
        session = store.session("talk")
        part = session.context.request_compaction(auto=True)
        session.user("later", id="later")
        report = window_report(opened(store))
    assert report.next_step.step == "compact"
    assert report.compaction is not None
    assert report.compaction.pending == part
    assert "later" not in report.compaction.kept


def test_limits_and_calibration(tmp_path: Path) -> None:
    """An unknown window has no usable tokens."""
    with eventlog.open(tmp_path / "store") as store:
        session = store.create_session(id="s")
        session.user("hello " * 200)
        unknown = window_report(opened(store, "s"))
        assert (unknown.limits, unknown.usable, unknown.calibration) == (None, None, ())
        window = ContextWindow(session, model=eventlog.Model("acme", "one"), limits=LIMITS, environment={})
        counted = window_report(window).counted
        with session.assistant(model="acme/one") as reply:
            reply.step(counted=counted)
            reply.finish("stop", usage=eventlog.Usage(eventlog.Tokens(counted + 500, 20)))
        session.user("more " * 100)
        report = window_report(window)
    (known,) = report.calibration
    assert (known.model, known.counted, known.reported) == ("one", counted, counted + 500)
    assert report.tokens == window.state.calibrated(report.counted) > report.counted
    assert report.used == counted + 520
    assert report.as_json()["limits"] == {"context": 20_000, "output": 4_000, "input": None}
    assert Limits(**report.as_json()["limits"]) == LIMITS


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_sessions_add_up(tmp_path: Path, name: str) -> None:
    """For recorded sessions, too, kinds, tools, messages and parts sum to the count."""
    session = recorded(tmp_path / "store", name)
    with eventlog.open(tmp_path / "store", read_only=True) as store:
        window = opened(store, session)
        report = window_report(window, largest=ALL)
        check_sums(window, report)
    assert report.counted > 1_000
    assert report.tools


def test_a_limit_of_messages_is_foretold_as_well(store: eventlog.Store) -> None:
    """The messages that a preview keeps are kept, also where the view may have only a few."""
    policy = ContextPolicy(
        overflow=OverflowPolicy(max_messages=4), compaction=CompactionPolicy(preserve_recent_tokens=100_000)
    )
    session = store.create_session()
    for number in range(6):
        session.user(f"question {number}")
        with session.assistant("test/m") as reply:
            reply.add_text(f"answer {number}")
            reply.finish()
    window = ContextWindow(session, policy, limits=Limits(100_000, 10_000))
    foretold = preview_compaction(window)
    assert foretold is not None
    assert foretold.tail_messages == 2
    assert window.compact().completed
    (started,) = [span.item for span in session.reader.spans() if isinstance(span.item, CompactionStarted)]
    assert (started.through, started.tail, started.kept) == (foretold.through, foretold.tail, foretold.kept)


SAID = {"type": "text", "text": "It is done."}
THOUGHT = {"type": "thinking", "thinking": "It may be done.", "signature": "s"}
LEFT = {
    "an answer that ended": [record("assistant", "a1", "u1", [SAID], message={"stop_reason": "end_turn"})],
    "an answer whose end is not told": [record("assistant", "a1", "u1", [SAID])],
    "a call without a result": [record("assistant", "a1", "u1", [call("c")], message={"stop_reason": "tool_use"})],
    "thoughts, and nothing behind them": [
        record("assistant", "a1", "u1", [THOUGHT], message={"stop_reason": "end_turn"})
    ],
}


@pytest.mark.parametrize("case", LEFT)
def test_an_import_looks_like_no_loop_at_work(store: Store, tmp_path: Path, case: str) -> None:
    """An imported session shows the step that the next loop does, however the file ends."""
    path = write(tmp_path / "s.jsonl", [record("user", "u1", None, "go"), *LEFT[case]])
    session = store.session(import_file(store, path).sessions[0])
    shown = window_report(ContextWindow(session, environment={})).next_step
    with ContextWindow(session, environment={}) as window:
        step = window.next_step()
    assert type(step) is (Stop if case == "an answer that ended" else CallModel)
    assert shown.step == ("stop" if isinstance(step, Stop) else "call-model")


def test_an_answer_that_another_loop_fills_is_waited_for(store: Store) -> None:
    """The report of another handle shows an open answer as at work while its owner lives."""
    session = store.create_session(id="s")
    session.user("go")
    with session.assistant("acme/one") as reply:
        reply.stream_text().append("so")
        session.flush()
        shown = window_report(ContextWindow(store.session("s"), environment={})).next_step
        assert (shown.step, shown.reason) == ("wait", "another-loop")
