"""A reply that broke off leaves its turn to go on, and leaves the view once that does."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Literal

import pytest

from eventlog import events as ev
from eventlog.session.reply import Reply
from eventlog.session.session import Session
from eventlog.store import Store
from eventlog.values import MessageError, Retry
from tests.support.engines import Engine


def answer(session: Session) -> str:
    """Add a whole reply; return its id."""
    with session.assistant() as reply:
        reply.add_text("whole")
        reply.finish()
    return reply.id


def removed(session: Session) -> list[str]:
    """The messages that left the view, in order."""
    return [event.message for event in events(session) if isinstance(event, ev.MessageRemoved)]


def events(session: Session) -> list[ev.Base]:
    """The effective history."""
    return [recorded.event for span in session.history() for recorded in span.events()]


def test_a_rollback_into_a_reply_leaves_its_turn_to_go_on(store: Store) -> None:
    """To each version inside a reply: pending, listed, and the half leaves the view."""
    ends: list[Callable[[Reply], None]] = [Reply.finish, Reply.abort, lambda reply: reply.close(KeyError())]
    for end in ends:
        session = store.create_session()
        with session.turn("hi", "r"), session.assistant() as reply:
            began = session.version
            text = reply.stream_text()
            text.append("half of ")
            session.user("later", request_id="later")  # by another task, while the reply streams
            text.append("the answer")
            text.end()
            inside = session.version
            end(reply)
        for version in range(began, inside + 1):
            session.rollback(version)
            assert [info.id for info in store.unfinished()] == [session.id]
            with session.turn("hi", "r") as turn:
                assert (turn.state, turn.answer) == ("resumed", ())
                said = answer(session)
            assert (turn.state, turn.answer, removed(session)) == ("done", (said,), [reply.id])
            assert store.unfinished() == []


def test_a_rollback_into_a_reply_keeps_the_results_of_its_tools(store: Store) -> None:
    """The model goes on from a tool that ran before the version."""
    session = store.create_session()
    with session.turn("hi", "r"), session.assistant() as reply:
        reply.tool("bash", call_id="c", input={}).succeed("out")
        inside = session.version
        reply.finish()
    session.rollback(inside)
    with session.turn("hi", "r") as turn:
        assert (turn.state, turn.answer) == ("resumed", (reply.id,))
        said = answer(session)
    assert (turn.state, turn.answer, removed(session)) == ("done", (reply.id, said), [])


def test_a_rollback_behind_a_users_stop_keeps_it(store: Store) -> None:
    """Only a version inside the reply lets the turn go on: behind an abort it is stopped."""
    session = store.create_session()
    with session.turn("hi", "r"), session.assistant() as reply:
        reply.add_text("half")
        reply.abort()
    session.rollback(before=session.user("later"))
    with session.turn("hi", "r") as turn:
        assert (turn.state, turn.mine) == ("stopped", False)


def half_answered(session: Session, request: str = "r") -> str:
    """Begin the answer of a question, and break off; return the reply."""
    replies: list[str] = []
    with suppress(KeyboardInterrupt), session.turn(request, request), session.assistant() as reply:
        replies.append(reply.id)
        reply.add_text("half")
        raise KeyboardInterrupt
    return replies[0]


@pytest.mark.parametrize("delivery", ["queue", "steer"])
def test_what_broke_off_of_an_earlier_question_leaves_the_view(
    engine: Engine, delivery: Literal["queue", "steer"]
) -> None:
    """Whichever question a loop is begun for, nothing that broke off is sent to the model."""
    session = engine.open().create_session(id="s")
    half = half_answered(session)
    with session.turn("later", "later", delivery=delivery) as turn:
        assert (turn.state, turn.answer, turn.error) == ("new", (), None)
        assert removed(session) == [half]
        with session.assistant() as reply:
            reply.finish()
    parts = [event.kind for event in events(session) if isinstance(event, ev.PartStarted)]
    assert [kind for kind in parts if isinstance(kind, Retry)] == [Retry(1, MessageError("aborted", "interrupted"))]
    with session.turn("r", "r") as first:
        assert (first.state, first.answer) == ("done", (reply.id,))


def test_what_an_earlier_question_keeps_stays_in_the_view(store: Store) -> None:
    """Results of tools, a user's stop, a failure and an answer stay where they are."""
    for keeps in ("tool", "abort", "fail", "finish"):
        session = store.create_session()
        with suppress(KeyboardInterrupt), session.turn("hi", "r"), session.assistant() as reply:
            reply.add_text("half")
            if keeps == "tool":
                reply.tool("bash", call_id="c", input={}).succeed("out")
                raise KeyboardInterrupt
            if keeps == "fail":
                reply.abort(MessageError("api"))
            elif keeps == "abort":
                reply.abort()
            else:
                reply.finish()
        with session.turn("later", "later", delivery="queue"):
            assert removed(session) == []
