"""Results that come after their calls were settled as interrupted."""

from __future__ import annotations

import pytest

from eventlog import CallError, FencedError, NotFoundError, RefusedError, Session, Truncation
from eventlog import events as ev
from eventlog.session import turn as turn_module
from eventlog.session.outcome import Outcome, outcome_of
from eventlog.session.reader import SessionReader
from projections import ModelView
from projections.requests.openai import chat_messages
from tests.support.engines import ENCRYPTED, ENGINES, Engine, places

engine = places(*ENGINES, ENCRYPTED)


def asked(engine: Engine) -> tuple[Session, str]:
    """A session with a call that was settled, and the message of the call."""
    session = engine.open().create_session()
    session.user("What is the time?")
    with pytest.raises(KeyboardInterrupt), session.assistant(model="m") as reply:  # noqa: PT012
        reply.add_text("I ask the clock.")
        reply.tool("clock", call_id="c1", input={"zone": "UTC"})
        raise KeyboardInterrupt
    with session.lease():
        pass
    return session, reply.id


def view_of(session: Session) -> list[object]:
    """Messages that a model would be sent."""
    view = ModelView.of(session)
    return list(chat_messages(view.messages, view.system))


@pytest.mark.promise(4)
def test_a_late_result_gives_the_view_of_a_punctual_one(engine: Engine) -> None:
    """The view is that of a result in time, brought from any store and without a lease."""
    session, message = asked(engine)
    punctual = engine.open().create_session()
    punctual.user("What is the time?")
    with punctual.assistant(model="m") as reply:
        reply.add_text("I ask the clock.")
        reply.tool("clock", call_id="c1", input={"zone": "UTC"}).succeed("noon")
        reply.finish("tool-calls")
    other = engine.open().session(session.id)
    with session.lease():
        version = other.late_result(message, "c1", "noon")
    assert view_of(session) == view_of(punctual)
    assert other.late_result(message, "c1", "noon") == version == session.version
    for wrong in ("midnight", "noon "):
        with pytest.raises(RefusedError, match="another result"):
            other.late_result(message, "c1", wrong)
    with pytest.raises(RefusedError):
        other.late_result(message, "c1", "noon", failed=True)
    assert session.version == version


def test_calls_that_go_on_are_refused(engine: Engine) -> None:
    """Only a settled call takes a late result, and only one that is there."""
    session = engine.open().create_session()
    session.user("What is the time?")
    with session.assistant() as reply:
        call = reply.tool("clock", call_id="c1", input={})
        other = engine.open().session(session.id)
        for handle in (session, other):
            with pytest.raises(RefusedError, match="running"):
                handle.late_result(reply.id, "c1", "noon")
        call.succeed("noon")
        reply.finish()
    for message, name in ((reply.id, "c2"), ("none", "c1")):
        with pytest.raises(NotFoundError):
            session.late_result(message, name, "noon")
    with pytest.raises(CallError):
        session.late_result(reply.id, "c1", 12)  # type: ignore[arg-type]


def test_prune_and_compaction_stay(engine: Engine) -> None:
    """A pruned call stays cleared, and what a summary covers stays covered; both are recorded."""
    session, message = asked(engine)
    part = next(found.event.part for found in session.events() if isinstance(found.event, ev.ToolRunning))
    session.context.prune([part])
    session.late_result(message, "c1", "noon " * 400, truncation=Truncation("noon …", 1, 2000, "head"))
    assert "cleared" in str(view_of(session)[-1])
    session.context.unprune([part])
    assert "noon …" in str(view_of(session)[-1])
    covered, asked_in = asked(engine)
    with covered.lease():
        compaction = covered.context.request_compaction()
        covered.context.start_compaction(compaction)
        with covered.assistant(summary=True) as reply:
            reply.add_text("The time was asked for.")
            reply.finish()
        covered.context.complete_compaction(compaction, reply.id)
    before = view_of(covered)
    covered.late_result(asked_in, "c1", "noon")
    assert view_of(covered) == before
    covered.context.undo_compaction()
    assert "noon" in str(view_of(covered)[-1])


def test_a_fenced_owner_is_told_of_it(engine: Engine) -> None:
    """A fenced owner is refused, by an error that names the command for late results."""
    session = engine.open().create_session()
    session.user("What is the time?")
    with pytest.raises(FencedError, match="late_result"), session.assistant() as reply:  # noqa: PT012
        call = reply.tool("clock", call_id="c1", input={})
        log = session.store.log
        head = log.head(session.id)
        assert head is not None
        assert log.set_lease(session.id, type(head.lease)(head.lease.epoch + 1, b"x", 0), replaces=head.lease)
        other = engine.open().session(session.id)
        with other.lease():
            pass
        try:
            call.succeed("noon")
        except FencedError:
            other.late_result(reply.id, "c1", "noon")
            raise
    assert "noon" in str(view_of(session)[-1])


@pytest.mark.parametrize("failed", [False, True], ids=["result", "failure"])
@pytest.mark.parametrize("given", [None, {"zone": "UTC"}], ids=["pending", "running"])
def test_a_late_result_stays_in_the_view_when_its_turn_is_resumed(
    engine: Engine, given: dict[str, object] | None, *, failed: bool
) -> None:
    """A reply that broke off stays with the result of its call, begun or not."""
    session = engine.open().create_session(id="s")
    with pytest.raises(ConnectionError), session.turn("What is the time?", "r1"), session.assistant() as reply:  # noqa: PT012
        call = reply.tool("clock", call_id="c1", input=given)
        if given is None:
            call.stream_input('{"zone": ')
        raise ConnectionError
    engine.open().session("s").late_result(reply.id, "c1", "noon", failed=failed)
    before = view_of(session)
    assert "noon" in str(before[-1])
    with session.turn("What is the time?", "r1") as turn:
        assert (turn.state, turn.answer) == ("resumed", (reply.id,))
        assert view_of(session) == before


def test_a_result_that_comes_while_its_turn_is_resumed_is_not_lost(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A result between the look at a broken reply and its removal: the reply stays."""
    session = engine.open().create_session(id="s")
    with pytest.raises(ConnectionError), session.turn("What is the time?", "r1"), session.assistant() as reply:  # noqa: PT012
        reply.tool("clock", call_id="c1")
        raise ConnectionError
    worker = engine.open().session("s")
    looked = outcome_of
    looks: list[object] = []

    def looks_and_waits(reader: SessionReader, message: str) -> Outcome:
        found = looked(reader, message)
        looks.append(found)
        if len(looks) == 2:  # the look that the removal is decided on
            worker.late_result(reply.id, "c1", "noon")
        return found

    monkeypatch.setattr(turn_module, "outcome_of", looks_and_waits)
    with session.turn("What is the time?", "r1") as turn:
        assert (turn.state, turn.answer) == ("resumed", (reply.id,))
        assert "noon" in str(view_of(session)[-1])
