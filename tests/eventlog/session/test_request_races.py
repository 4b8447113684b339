"""Promise 5 under contention: one request id over several handles has one result."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from threading import Barrier

import pytest

import eventlog
from eventlog import events as ev
from eventlog.aio import AsyncSession
from eventlog.errors import FencedError, RequestReusedError
from eventlog.log.commit import Append, LeaseState, Ticket
from eventlog.session.session import Session
from tests.faults.tally import SLOW, tally
from tests.support.engines import Engine
from tests.support.sample_sessions import run_together

RACES = 5_000 if SLOW else 150
"""Request ids that two handles send at once."""
PATIENCE = 60.0

Ask = Callable[[Session, str], object]


def by_user(session: Session, request: str) -> object:
    """Add a user message whose ids derive from the request's."""
    return session.user("hi", request_id=request)


def by_append(session: Session, request: str) -> object:
    """Append an event as it is; return its position."""
    event = ev.UserMessageAdded(f"message {request}")
    committed = session.append([(0, event)], request_id=request)
    return committed.first, committed.last, committed.position


def by_task(session: Session, request: str) -> object:
    """Add a user message from an event loop."""
    return asyncio.run(AsyncSession(session).user("hi", request_id=request))


ASKS: list[Ask] = [by_user, by_append, by_task]


def before_the_first_append(store: eventlog.Store, patch: pytest.MonkeyPatch, work: Callable[[], object]) -> None:
    """Do some work right before the store hands its next append to the log."""
    submit = store.log.submit
    begun = False

    def late(append: Append) -> Ticket:
        nonlocal begun
        if not begun:
            begun = True
            work()
        return submit(append)

    patch.setattr(store.log, "submit", late)


@pytest.mark.promise(5)
@pytest.mark.parametrize("ask", ASKS)
def test_a_request_that_another_handle_commits_meanwhile_has_its_result(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, ask: Ask
) -> None:
    """Promise 5: a commit between the request's decision and its append gives the result."""
    store, other = engine.open(), engine.open()
    session = store.create_session(id="s")
    first: list[object] = []
    before_the_first_append(store, monkeypatch, lambda: first.append(ask(other.session("s"), "r")))
    assert ask(session, "r") == first[0]
    assert len(messages(session)) == 1


@pytest.mark.promise(5)
def test_other_content_that_another_handle_commits_meanwhile_is_told(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise 5: the slower of two different requests with one id is refused for its content."""
    store, other = engine.open(), engine.open()
    session = store.create_session(id="s")
    before_the_first_append(store, monkeypatch, lambda: other.session("s").user("one", request_id="r"))
    with pytest.raises(RequestReusedError):
        session.user("another", request_id="r")
    assert len(messages(session)) == 1


@pytest.mark.promise(5)
def test_a_lost_lease_does_not_hide_the_result_of_a_request(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise 5: a handle that lost its lease still returns the request's committed result."""
    store, other = engine.open(), engine.open()
    session = store.create_session(id="s")
    session.executor.acquire()
    first: list[str] = []

    def come_first() -> None:
        lose_lease(session)
        first.append(other.session("s").user("hi", request_id="r"))

    before_the_first_append(store, monkeypatch, come_first)
    assert session.user("hi", request_id="r") == first[0]
    with pytest.raises(FencedError):
        session.user("another")


@pytest.mark.promise(5)
@pytest.mark.parametrize("leased", [False, True], ids=["without a lease", "one holds the lease"])
@pytest.mark.usefixtures("impatient")
def test_two_handles_that_race_with_one_request_id_have_one_result(engine: Engine, *, leased: bool) -> None:
    """Promise 5: two handles in two threads with one request id get the first result."""
    stores = engine.open(), engine.open()
    stores[0].create_session(id="s")
    sessions = [store.session("s") for store in stores]
    asks = [by_user] if leased else ASKS[:2]
    together = Barrier(2)
    found: list[list[object]] = [[], []]

    def send(worker: int) -> None:
        for number in range(RACES):
            together.wait(PATIENCE)
            try:
                found[worker].append(asks[number % len(asks)](sessions[worker], f"r{number}"))
            except Exception as error:  # noqa: BLE001 - compared below
                found[worker].append(error)

    if leased:
        sessions[0].executor.acquire()
    run_together(2, send)
    assert found[0] == found[1]
    assert len(found[0]) == len(messages(sessions[1])) == RACES
    tally(f"request ids sent by two handles at once ({engine.name})", RACES)


def lose_lease(session: Session) -> None:
    """Let another owner take the session's lease and release it."""
    log = session.store.log
    head = log.head(session.id)
    assert head is not None
    assert log.set_lease(session.id, LeaseState(head.lease.epoch + 1), replaces=head.lease)


def messages(session: Session) -> Counter[str]:
    """The added user messages, each once."""
    found = Counter(
        recorded.event.message for recorded in session.events() if isinstance(recorded.event, ev.UserMessageAdded)
    )
    assert set(found.values()) <= {1}
    return found
