"""A loop answers the questions that its requests had, and goes on with the others."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread

import pytest

from eventlog import events as ev
from eventlog.session.outcome import outcome_of
from eventlog.session.session import Session
from eventlog.store import Store
from eventlog.values import Limits, Subtask
from projections import ModelView, Transcript, answer_text
from projections.loop import Blocked, CallModel, ContextWindow, RunSubtask, RunTools, Stop, task_tool
from projections.view.neutral import Result, Text
from projections.window.policy.policy import CompactionPolicy, ContextPolicy
from tests.support.compactions import compacted
from tests.support.window_loop import sections

SMALL = ContextPolicy(compaction=CompactionPolicy(preserve_recent_tokens=40, tail_turns=1))
MODEL = "a/b"
TEXTS = ["old", "first", "second", "third"]


def by_another(work: Callable[[], object]) -> None:
    """Do something as another task."""
    thread = Thread(target=work)
    thread.start()
    thread.join()


def window_of(session: Session, limits: Limits | None = None, **options: object) -> ContextWindow:
    """A window that summarises without a model."""
    return ContextWindow(
        session,
        SMALL,
        model=MODEL,
        limits=limits or Limits(100_000, 2_000),
        summarizer=lambda _: sections(),
        environment={},
        **options,  # type: ignore[arg-type]
    )


def asked_in(view: ModelView) -> list[str]:
    """Texts of users in a view."""
    return [
        part.text
        for message in view.messages
        for part in message.parts
        if message.role == "user" and isinstance(part, Text)
    ]


def answer(session: Session, text: str = "an answer " * 30, reason: str = "stop") -> str:
    """Add a whole reply; return its id."""
    with session.assistant(MODEL) as reply:
        reply.add_text(text)
        reply.finish(reason)
    return reply.id


@pytest.mark.parametrize("when", ["before the request", "before the reply", "in the reply"])
def test_the_loop_goes_on_until_no_question_is_left(store: Store, when: str) -> None:
    """A question that comes meanwhile is queued, then done by the same loop."""
    session = store.create_session(id="s")
    requests: list[list[str]] = []
    states: list[str] = []

    def ask() -> None:
        with session.turn("second", "r2") as turn:
            states.append(turn.state)

    with session.turn("first", "r1") as turn, window_of(session) as window:
        while step := window.next_step():
            assert isinstance(step, CallModel)
            if not requests and when == "before the request":
                by_another(ask)
            reply, request = window.begin(step)
            requests.append(asked_in(ModelView.of(session, at=request.version)))
            if len(requests) == 1 and when == "before the reply":
                by_another(ask)
            text = reply.stream_text()
            text.append(f"answer {len(requests)}")
            if len(requests) == 1 and when == "in the reply":
                by_another(ask)
            reply.finish()
        assert step == Stop("finished")
    assert requests == [["first"], ["first", "second"]]
    assert states == ["queued"]
    with session.turn("second", "r2") as second:
        assert (second.state, second.mine) == ("done", False)
    assert [answer_text(session, each.answer) for each in (turn, second)] == ["answer 1", "answer 2"]
    assert store.unfinished() == []


def test_every_reply_of_a_window_says_what_it_has_seen(store: Store) -> None:
    """Replies, summaries and replies of subtasks have a version in their first event."""
    session = store.create_session(id="s")
    for number in range(4):
        session.user(f"question {number}")
        answer(session)
    session.user([Subtask("look", description="Look", agent="reader")])
    late: list[str] = []
    with window_of(session) as window:
        assert window.compact().completed
        step = window.next_step()
        assert isinstance(step, RunSubtask)
        by_another(lambda: late.append(session.user("meanwhile")))
        window.run_subtask(step, lambda _child: "looked")
        assert outcome_of(session.reader, late[0]).replies == ()
    started = [found for found in session.events() if isinstance(found.event, ev.AssistantMessageStarted)]
    assert all(
        isinstance(found.event, ev.AssistantMessageStarted)
        and found.event.seen is not None
        and found.event.seen < found.version
        for found in started
    )


def some_turns(session: Session) -> None:
    """Some turns that a compaction may cover."""
    for number in range(4):
        session.user(f"question {number}")
        answer(session)


def test_what_the_view_shows_behind_the_covered_range_is_kept(store: Store) -> None:
    """A question that is older than the last covered reply, and stands behind it, stays there."""
    session = store.create_session(id="s")
    some_turns(session)
    session.user("first")
    with session.lease():
        view = ModelView.of(session)
        late = session.user("late")
        with session.assistant(MODEL, view=view) as reply:
            reply.add_text("word " * 200)
            reply.finish()
    with window_of(session) as window:
        assert window.compact().completed
        assert asked_in(window.view())[-1] == "late"
        assert isinstance(window.next_step(), CallModel)
    (started,) = [found.event for found in session.events() if isinstance(found.event, ev.CompactionStarted)]
    assert isinstance(started, ev.CompactionStarted)
    assert (started.through, late in started.kept) == (reply.id, True)
    covered = {message.id for message in Transcript(session).oldest_first() if message.covered is not None}
    assert reply.id in covered
    assert late not in covered
    view_ids = {message.source for message in ModelView.of(session).messages}
    assert view_ids.isdisjoint(covered)


@pytest.mark.parametrize("bound", [False, True])
@pytest.mark.parametrize("broken", [False, True])
def test_a_compaction_keeps_the_questions_that_wait(store: Store, *, bound: bool, broken: bool) -> None:
    """A program that names nothing to keep covers what is answered; the loop answers the rest."""
    session = store.create_session(id="s")
    session.user(TEXTS[0])
    answer(session)
    waiting = [session.user(text) for text in TEXTS[1:3]]
    if broken:  # a call that has its result: the model is to be asked again
        with session.assistant(MODEL) as reply:
            reply.tool("look", call_id="c", input={}).succeed("out")
            reply.finish("tool-calls")
    waiting.append(session.user(TEXTS[3]))
    compacted(session, through=waiting[-1] if bound else None)
    (started,) = [found.event for found in session.events() if isinstance(found.event, ev.CompactionStarted)]
    assert started.kept == tuple(waiting)
    assert [text for text in asked_in(ModelView.of(session)) if text in TEXTS] == TEXTS[1:]
    step = window_of(session).next_step()
    assert isinstance(step, CallModel)
    assert step.reply_to == waiting[-1]
    answer(session)
    assert [outcome_of(session.reader, name).state for name in waiting] == ["done"] * 3


def test_a_compaction_keeps_no_question_behind_its_bound(store: Store) -> None:
    """Only what would be covered is named; an answered session keeps none."""
    session = store.create_session(id="s")
    session.user("old")
    answered = answer(session)
    session.user("new")
    compacted(session, through=answered)
    (started,) = [found.event for found in session.events() if isinstance(found.event, ev.CompactionStarted)]
    assert started.kept == ()


def test_a_covered_question_is_not_withdrawn(store: Store) -> None:
    """A program covers all, a question that waits too; the answer has seen both."""
    session = store.create_session(id="s")
    covered = session.user("first")
    compacted(session, "", kept=())
    assert outcome_of(session.reader, covered).state == "pending"
    assert [info.id for info in store.unfinished()] == ["s"]
    step = window_of(session).next_step()
    assert isinstance(step, Blocked)
    assert step.reason == "question-covered"
    again = session.user("first, again")
    answer(session)
    assert [outcome_of(session.reader, name).state for name in (covered, again)] == ["done", "done"]
    assert window_of(session).next_step() == Stop("finished")
    assert store.unfinished() == []


def test_a_task_whose_work_returns_nothing_has_the_answer_of_its_turn(store: Store) -> None:
    """The result of the call is what its own question was answered, not what was said last."""
    session = store.create_session(id="s")
    session.user("go")

    def work(child: Session) -> None:
        with window_of(child) as inner:
            calls = 0
            while step := inner.next_step():
                assert isinstance(step, CallModel)
                calls += 1
                reply, _ = inner.begin(step)
                if calls == 1:
                    by_another(lambda: child.user("and what else?"))
                reply.add_text(f"answer {calls}")
                reply.finish()

    with window_of(session, tools=[task_tool()]) as window:
        step = window.next_step()
        assert isinstance(step, CallModel)
        reply, _ = window.begin(step)
        arguments = '{"description": "Read", "prompt": "What does it say?", "subagent_type": "reader"}'
        reply.tool("task", call_id="c1").stream_input(arguments)
        reply.end_step("tool-calls")
        step = window.next_step()
        assert isinstance(step, RunTools)
        window.run_task(step.calls[0], work)
        window.finish()
    parts = [part for message in ModelView.of(session).messages for part in message.parts]
    (result,) = [part.output for part in parts if isinstance(part, Result)]
    assert "answer 1" in result
