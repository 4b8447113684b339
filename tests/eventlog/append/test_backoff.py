"""Appends of one session that other writers' appends come before, time and again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from eventlog import AsyncSession
from eventlog import events as ev
from eventlog.append.backoff import EAGER
from eventlog.session.session import Session
from eventlog.store import Store
from eventlog.values import Text
from tests.support.faulty_log import FaultyLog

TIMES = EAGER + 5


def intruder(log: FaultyLog, session: Session, times: int) -> Callable[[], None]:
    """Another writer, which comes before each of the next appends."""
    left = [times]

    def intrude() -> None:
        if left[0]:
            left[0] -= 1
            number = left[0]
            session.user(f"between {number}")
            log.meanwhile.append(intrude)

    return intrude


def added(session: Session) -> list[object]:
    """The texts of all text parts, in order."""
    events = [recorded.event for recorded in session.events()]
    return [event.kind.text for event in events if isinstance(event, ev.PartStarted) and isinstance(event.kind, Text)]


@pytest.fixture
def others(log: FaultyLog) -> Session:
    """The session in the hands of another writer."""
    return Store(log, flush_interval=1000.0).session("s")


@pytest.mark.promise(4)
def test_an_append_that_is_too_late_many_times_goes_in(log: FaultyLog, session: Session, others: Session) -> None:
    """Promise 4: a message that others' messages come before is decided anew until it is in."""
    log.meanwhile.append(intruder(log, others, TIMES))
    session.user("mine")
    assert added(session)[-1] == "mine"
    assert len(added(session)) == TIMES + 1
    assert session.executor.writer.queue.backoff.conflicts == 0


@pytest.mark.promise(4)
def test_deltas_that_are_too_late_go_in(log: FaultyLog, session: Session, others: Session) -> None:
    """Promise 4: what a reply streams goes in behind the messages that others add meanwhile."""
    with session.assistant() as reply:
        stream = reply.stream_text()
        for character in "abc":
            log.meanwhile.append(intruder(log, others, TIMES))
            stream.append(character)
            session.store.flush()
        stream.end()
        reply.finish()
    deltas = [recorded.event.text for recorded in session.events() if isinstance(recorded.event, ev.PartDelta)]
    assert "".join(deltas) == "abc"
    assert len(added(session)) == 3 * TIMES + 1


def test_a_pause_does_not_block_the_event_loop(
    log: FaultyLog, session: Session, others: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While an asyncio caller pauses between two tries, other tasks of its loop go on."""
    without_sleep = SimpleNamespace(monotonic=time.monotonic)
    monkeypatch.setattr("eventlog.append.backoff.time", without_sleep)
    log.meanwhile.append(intruder(log, others, TIMES))
    asyncio.run(add(AsyncSession(session)))
    assert added(session)[-1] == "mine"


async def add(session: AsyncSession) -> None:
    """Add a message."""
    await session.user("mine")
