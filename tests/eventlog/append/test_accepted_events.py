"""Accepted, uncommitted commands: atomic, under their own lease, failures to their caller."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from eventlog import events as ev
from eventlog.aio import AsyncSession
from eventlog.codec.decoded import Recorded
from eventlog.errors import AlreadyExistsError, CallError, EventlogError
from eventlog.history import checkpoint_store
from eventlog.session.session import Session
from eventlog.session.text_stream import LONG_DELTA
from eventlog.state.loader import STATE
from eventlog.store import Store
from eventlog.values import Text
from tests.support.engines import Engine

SLOW = 3600.0
"""A flush interval no test waits for: accepted events stay accepted until a test flushes."""


def events(session: Session) -> list[ev.Event]:
    """Return all events of a session."""
    return [recorded.event for recorded in session.events()]


def texts(found: list[Recorded]) -> list[str]:
    """Return the streamed texts among some events."""
    return [recorded.event.text for recorded in found if isinstance(recorded.event, ev.PartDelta)]


@pytest.fixture
def first(engine: Engine) -> Store:
    """Give a store that flushes only when told to."""
    return engine.open(flush_interval=SLOW)


@pytest.fixture
def second(engine: Engine) -> Store:
    """Give another store on the same log, as another program would have it."""
    return engine.open(flush_interval=SLOW)


@pytest.mark.promise(4)
def test_what_was_accepted_under_a_lease_is_not_written_without_it(first: Store, second: Store) -> None:
    """Promise 4: events accepted under a lost lease never commit behind the next owner."""
    session = first.create_session()
    session.executor.acquire()
    reply = session.assistant()
    reply.begin()
    text = reply.stream_text()
    text.append("kept")
    session.flush()
    text.append("late")
    session.executor.leases.abandon()
    other = second.session(session.id)
    with other.lease():
        settled = other.version
    with pytest.raises(EventlogError):
        session.rename("heard of it")
    session.rename("title")
    session.flush()
    late = [event for event in events(other)[settled:] if not isinstance(event, ev.SessionRenamed)]
    assert late == []
    assert texts(list(other.events())) == ["kept"]


@pytest.mark.promise(3)
def test_a_command_goes_in_whole_or_not_at_all(first: Store, second: Store) -> None:
    """Promise 3: a command whose message id another program took writes no part of itself."""
    session = first.create_session()
    other = second.session(session.id)

    def collide() -> None:
        with session.pipeline():
            session.user("mine", id="m1")
            other.user("theirs", id="m1")

    with pytest.raises(AlreadyExistsError):
        collide()
    session.user("next")
    parts = [event.kind for event in events(session) if isinstance(event, ev.PartStarted) and event.message == "m1"]
    assert parts == [Text("theirs")]


@pytest.mark.promise(4)
def test_only_the_caller_whose_command_failed_hears_of_it(first: Store, second: Store) -> None:
    """Promise 4: of three concurrent tasks only the one with a taken id fails."""
    session = first.create_session()
    chat = AsyncSession(session)

    async def say(text: str, name: str) -> str:
        return await chat.do(session.user, text, id=name)

    async def three() -> list[Any]:
        with session.lease():
            second.session(session.id).user("theirs", id="m2")
            return await asyncio.gather(*(say("mine", f"m{number}") for number in (1, 2, 3)), return_exceptions=True)

    outcomes = asyncio.run(three())
    assert outcomes[0] == "m1"
    assert isinstance(outcomes[1], AlreadyExistsError)
    assert outcomes[2] == "m3"
    added = [event.message for event in events(session) if isinstance(event, ev.UserMessageAdded)]
    assert sorted(added) == ["m1", "m2", "m3"]


@pytest.mark.promise(1)
def test_the_buffer_is_bounded_in_characters_too(first: Store) -> None:
    """Promise 1: long deltas are committed by their characters, before they are many."""
    session = first.create_session()
    with session.assistant() as reply:
        text = reply.stream_text()
        piece = "x" * (2 << 20)
        assert len(piece) > LONG_DELTA
        most = 0
        for _ in range(20):
            text.append(piece)
            most = max(most, len(session.executor.writer.buffer) // 3)
        assert most * len(piece) <= 20 << 20
        reply.finish()


def test_many_programs_rename_at_once(engine: Engine) -> None:
    """Commands that need no lease succeed under contention from five other programs."""
    stores = [engine.open(flush_interval=SLOW) for _ in range(6)]
    name = stores[0].create_session().id

    async def everyone() -> None:
        async def rename(store: Store) -> None:
            for number in range(5):
                await asyncio.to_thread(store.session(name).rename, f"{number}")

        await asyncio.gather(*map(rename, stores))

    asyncio.run(everyone())
    renamed = [event for event in events(stores[0].session(name)) if isinstance(event, ev.SessionRenamed)]
    assert len(renamed) == 30


@pytest.mark.parametrize("option", ["flush_interval", "lease_ttl", "checkpoint_events"])
def test_options_are_looked_at_when_a_store_is_opened(engine: Engine, option: str) -> None:
    """An impossible flush interval is refused at opening, not by a thread that dies later."""
    with pytest.raises(CallError):
        engine.open(**{option: -1})


@pytest.mark.promise(8)
def test_a_long_run_keeps_checkpoints_of_its_state(engine: Engine) -> None:
    """Promise 8: a long session whose writer was killed opens from a checkpoint."""
    store = engine.open(flush_interval=SLOW, checkpoint_events=50)
    session = store.create_session()
    with session.lease():
        for number in range(200):
            session.user(f"{number}")
        kept = checkpoint_store.versions(store.log, STATE, session.id)
        assert kept
        assert session.version - kept[-1] <= max(50, kept[-1] // 4) + 2
    opened = engine.open(flush_interval=SLOW).session(session.id)
    assert opened.reader.state().messages.keys() == session.reader.state().messages.keys()
