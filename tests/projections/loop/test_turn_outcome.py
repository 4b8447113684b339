"""A turn's outcome and the loop's next step say the same of every conversation."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.errors import CallError, RefusedError
from eventlog.open_store import open_store
from eventlog.session.outcome import outcome_of, questions
from eventlog.session.session import Session
from eventlog.store import Store
from eventlog.values import Agent, File, MessageError, Model, PartKind, Text
from projections.loop import CallModel, Compact, ContextWindow, Prune, RequestCompaction, Stop, Wait, window_report
from tests.faults.tally import SLOW
from tests.support.compactions import compacted as summarised
from tests.support.engines import Engine
from tests.support.window_loop import summarized

MODEL = Model("openai", "gpt-5")


def finished(reason: str) -> Callable[[Session], None]:
    """A reply that ends with a reason."""

    def work(session: Session) -> None:
        with session.assistant(MODEL) as reply:
            reply.add_text("hello")
            reply.finish(reason)

    return work


def aborted(name: str) -> Callable[[Session], None]:
    """A reply that ends with an error."""

    def work(session: Session) -> None:
        with session.assistant(MODEL) as reply:
            reply.add_text("half")
            reply.abort(MessageError(name))

    return work


def broken(error: type[BaseException]) -> Callable[[Session], None]:
    """A reply that an exception leaves."""

    def work(session: Session) -> None:
        with suppress(error), session.assistant(MODEL) as reply:
            reply.add_text("half")
            raise error

    return work


def called(*, provider_executed: bool) -> Callable[[Session], None]:
    """A reply with a call that finishes as if it were an answer."""

    def work(session: Session) -> None:
        with session.assistant(MODEL) as reply:
            call = reply.tool("look", call_id="c", input={}, provider_executed=provider_executed)
            call.succeed("out")
            reply.finish()

    return work


def retried(session: Session) -> None:
    """A failed turn is begun again."""
    newest = next(questions(session.reader.state()), None)
    asked = asked_by_turn(session)
    if newest == asked and outcome_of(session.reader, asked).state == "failed":
        with session.turn("asked once", "r") as turn:
            turn.retry()


def asked_by_turn(session: Session) -> str:
    """Ask with a turn, and let go; the message is the same each time."""
    with session.turn("asked once", "r") as turn:
        return turn.message


def compacted(session: Session) -> None:
    """A compaction covers everything so far; none covers a question that may be answered yet."""
    newest = next(questions(session.reader.state()), None)
    if newest is None or outcome_of(session.reader, newest).state != "done":
        return
    summarised(session)


def refused(session: Session) -> None:
    """The newest question is refused for its size, and asked again behind a compaction."""
    newest = next(questions(session.reader.state()), None)
    if newest is None or outcome_of(session.reader, newest).state != "pending":
        return
    with ContextWindow(session, model=MODEL, summarizer=summarized, environment={}) as window:
        step = window.next_step()
        if not isinstance(step, CallModel):
            return
        window.begin(step)[0].abort(MessageError("overflow", "too long"))
        while isinstance(step := window.next_step(), (Prune, RequestCompaction, Compact)):
            window.perform(step)
        window.save()


def rolled_back(session: Session) -> None:
    """The newest question is withdrawn."""
    newest = next(questions(session.reader.state()), None)
    if newest is not None:
        session.rollback(before=newest)


def emptied(session: Session) -> None:
    """All parts of the newest question are removed."""
    newest = next(questions(session.reader.state()), None)
    if newest is not None:
        for part in [*session.reader.state().messages[newest].parts]:
            session.remove_part(part)


def removed(session: Session) -> None:
    """The newest question is removed."""
    newest = next(questions(session.reader.state()), None)
    if newest is not None:
        session.remove_message(newest)


def cut_to_its_beginning(session: Session) -> None:
    """The session goes back to the version between the newest question and its text."""
    newest = next(questions(session.reader.state()), None)
    if newest is not None:
        session.rollback(session.reader.state().messages[newest].added)


def redone(session: Session) -> None:
    """The newest rollback is taken back."""
    if session.reader.state().history.to_redo() is not None:
        session.redo()


def due(reply: Callable[[Session], None]) -> Callable[[Session], None]:
    """A reply, if there is something to reply to, as in a loop."""

    def work(session: Session) -> None:
        newest = next(questions(session.reader.state()), None)
        if newest is not None and outcome_of(session.reader, newest).state == "pending":
            reply(session)

    return work


REPLIES = [
    finished("stop"),
    finished("tool-calls"),
    finished("unknown"),
    aborted("aborted"),
    aborted("api"),
    broken(KeyError),
    broken(KeyboardInterrupt),
    broken(ConnectionResetError),
    called(provider_executed=False),
    called(provider_executed=True),
]
WORKS: list[Callable[[Session], object]] = [
    lambda session: session.user("hi"),
    asked_by_turn,
    *map(due, REPLIES),
    retried,
    compacted,
    refused,
    rolled_back,
    emptied,
    removed,
    cut_to_its_beginning,
    redone,
    lambda session: session.interrupt(),
]

STEPS = {
    "pending": {"a step"},
    "done": {"finished", "interrupted", "nothing-asked"},
    "failed": {"failed"},
    "stopped": {"interrupted", "aborted"},
    "withdrawn": {"nothing-asked"},
}
"""Reasons to stop, by outcome: an interrupt may come too late."""


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (None, "the answer failed;"),
        (MessageError("unknown", "KeyError"), "the answer failed (unknown): KeyError;"),
        (
            MessageError("api", "RateLimitError: slow down", '{"status":429}'),
            "the answer failed (api, status 429): RateLimitError: slow down;",
        ),
        (MessageError("auth", "no key", '"a text"'), "the answer failed (auth): no key;"),
        (MessageError("auth", "no key", "no JSON"), "the answer failed (auth): no key;"),
    ],
)
def test_a_stop_says_what_the_provider_said_and_how_to_go_on(error: MessageError | None, said: str) -> None:
    """The sentence of a stop has the provider's status and text, and the call that goes on."""
    assert Stop("failed", error).sentence == f"{said} `turn.retry()` begins it again"
    for reason in ("finished", "nothing-asked", "interrupted", "aborted"):
        stop = Stop(cast("Any", reason), None if reason != "aborted" else MessageError("aborted"))
        assert stop.sentence.endswith("; `session.turn(text, request_id)` asks the next question")
        assert "aborted)" not in stop.sentence


def test_the_call_that_a_stop_names_goes_on(store: Store) -> None:
    """After a failure of the provider its text is in the stop, and `turn.retry()` goes on."""

    class RefusedByProviderError(Exception):
        status_code = 401

    session = store.create_session()
    with suppress(RefusedByProviderError), session.turn("hi", "r"), session.assistant(MODEL):
        raise RefusedByProviderError("wrong key")
    step = ContextWindow(session, environment={}).next_step()
    assert isinstance(step, Stop)
    assert step.error == MessageError("auth", "RefusedByProviderError: wrong key", '{"status":401}')
    assert "status 401" in step.sentence
    assert window_report(ContextWindow(session, environment={})).next_step.reason == step.sentence
    with session.turn("hi", "r") as turn:
        assert (turn.state, turn.error) == ("failed", step.error)
        turn.retry()
        assert isinstance(ContextWindow(session, environment={}).next_step(), CallModel)


def test_a_wait_says_who_is_at_work(store: Store) -> None:
    """A loop that waits says whose reply is open."""
    session = store.create_session()
    session.user("hi")
    with session.assistant(MODEL) as reply:
        step = ContextWindow(session, environment={}).next_step()
        assert isinstance(step, Wait)
        assert step.sentence.endswith(f"is open: {reply.id}")


@pytest.mark.timeout(900)
@settings(max_examples=3_000 if SLOW else 150)
@given(works=st.lists(st.integers(0, len(WORKS) - 1), min_size=1, max_size=12))
def test_the_loop_stops_where_a_turn_is_over(works: list[int]) -> None:
    """The loop goes on with the newest question exactly while its turn waits for an answer."""
    with open_store("memory:") as store:
        session = store.create_session()
        for number in works:
            WORKS[number](session)
            newest = next(questions(session.reader.state()), None)
            step = ContextWindow(session, environment={}).next_step()
            found = step.reason if isinstance(step, Stop) else "a step"
            if newest is None:
                assert found in {"nothing-asked", "finished", "interrupted"}
            else:
                assert found in STEPS[outcome_of(session.reader, newest).state]
        assert_listed(store, session)


UNSEEN = (Text("a note to people", ignored=True), Agent("reviewer"))
"""Parts of a user that show a model nothing."""


@pytest.mark.parametrize("answered", [False, True], ids=["the first question", "behind an answer"])
@pytest.mark.parametrize("way", ["removed", "rolled back", "forked", "only a note", "queued and removed"])
def test_a_question_with_nothing_to_see_is_no_question(engine: Engine, way: str, *, answered: bool) -> None:
    """Turn, lists and loop agree: nothing is asked, whichever way the question lost its text."""
    with engine.open() as store:
        session = store.create_session(id="s")
        if answered:
            session.user("Why?")
            finished("stop")(session)
        before = session.version
        if way == "only a note":
            session.user([*UNSEEN], id="q")
        else:
            session.user("two", id="q", delivery="queue" if way.startswith("queued") else "steer")
        (*_, part) = session.reader.state().messages["q"].parts
        if way.endswith("removed"):
            session.remove_part(part)
        elif way == "rolled back":
            session.rollback(before + 1)
        elif way == "forked":
            session.remove_part(part)
            session = session.fork(before + 1)
        assert outcome_of(session.reader, "q").state == "withdrawn"
        assert_listed(store, session)
        assert store.unfinished() == []
        assert {info.state for info in store.newest_sessions().sessions} == {"waiting"}
        step = ContextWindow(session, environment={}).next_step()
        assert isinstance(step, Stop)
        assert step.reason == ("finished" if answered else "nothing-asked")
        if answered:
            with session.turn() as turn:
                assert turn.state == "done"
        else:
            with pytest.raises(RefusedError, match="nothing was asked"), session.turn():
                pass
        session.user([File("image/png", "data:image/png;base64,aGVsbG8=")])
        assert isinstance(ContextWindow(session, environment={}).next_step(), CallModel)
        assert store.unfinished()


def test_an_interrupt_stays_behind_a_question_that_lost_its_text(store: Store) -> None:
    """The turn that the user stopped does not go on because a later question came and went."""
    session = store.create_session()
    asked = session.user("Why?")
    session.interrupt()
    emptied_one = session.user("And how?")
    session.remove_part(*session.reader.state().messages[emptied_one].parts)
    assert outcome_of(session.reader, asked).state == "stopped"
    assert_listed(store, session)


@pytest.mark.parametrize("gone", [emptied, removed])
@pytest.mark.parametrize("begun", [None, finished("tool-calls"), aborted("api"), broken(KeyboardInterrupt)])
def test_the_loop_ends_behind_a_question_that_is_gone(
    store: Store, gone: Callable[[Session], None], begun: Callable[[Session], None] | None
) -> None:
    """However far its answer was, and also once a compaction covers it."""
    session = store.create_session()
    session.user("Why?")
    finished("stop")(session)
    session.user("And how?")
    if begun is not None:
        begun(session)
    gone(session)
    assert ContextWindow(session, environment={}).next_step() == Stop("finished")
    summarised(session)
    assert ContextWindow(session, environment={}).next_step() == Stop("nothing-asked")
    assert_listed(store, session)


@pytest.mark.parametrize("said", ["", " \n", [], [Text(""), Text("\t")]])
def test_a_user_says_something(session: Session, said: str | list[PartKind]) -> None:
    """A text without words is refused, beside a file it is not, and no edit makes one."""
    for ask in (lambda: session.user(said), lambda: session.turn(said, "r").__enter__()):
        with pytest.raises(CallError, match="a text that is not blank, a File or a Subtask"):
            ask()
    assert session.info.messages == 0
    message = session.user("", files=[File("image/png", "https://example.org/a.png")])
    assert outcome_of(session.reader, message).state == "pending"
    asked = session.user("Why?")
    (part,) = session.reader.state().messages[asked].parts
    with pytest.raises(CallError, match="remove_part"):
        session.edit_part(part, " ")
    with session.assistant(MODEL) as reply:
        reply.add_text("Because.")
        reply.finish()
    (step, *_) = session.reader.state().messages[reply.id].parts
    session.edit_part(step, "")


def assert_listed(store: Store, session: Session) -> None:
    """The session is among the unfinished ones exactly while the loop has something to do."""
    step = ContextWindow(session, environment={}).next_step()
    assert [info.id for info in store.unfinished()] == ([] if isinstance(step, Stop) else [session.id])
