"""Promise 5: of all that ask with one request id at once, exactly one answers."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Barrier

import pytest

import eventlog
from eventlog import events as ev
from eventlog.aio import AsyncSession
from eventlog.session.session import Session
from tests.faults.tally import SLOW, tally
from tests.support.engines import Engine
from tests.support.python_process import Program
from tests.support.sample_sessions import run_together

RACES = {
    "memory": 10_000 if SLOW else 2_000,
    "partitioned": 1_000,
    "embedded": 10_000 if SLOW else 500,
    "postgres": 5_000 if SLOW else 40,
}
"""Request ids that two threads send at once, on each engine, on one handle and on two."""
TASKS = 5_000 if SLOW else 40
"""Request ids that tasks send at once; as many again under one lease."""
PROCESSES = 10_000 if SLOW else 300
"""Request ids that two processes send at once."""
PATIENCE = 60.0

pytestmark = pytest.mark.promise(5)

PROGRAM = """
import sys
import eventlog

with eventlog.open(sys.argv[1], lease_ttl=600_000) as store:
    session = store.session("s")
    print("ready", flush=True)
    for line in sys.stdin:
        with session.turn("hi", line.strip()) as turn:
            if turn.mine:
                with session.assistant() as reply:
                    reply.add_text(sys.argv[2])
                    reply.finish()
        print(turn.state, flush=True)
"""


def answer(session: Session, request: str) -> bool:
    """Answer the request if it is to be answered; return whether it was."""
    with session.turn("hi", request) as turn:
        mine = turn.mine
        assert mine == (turn.state in {"new", "resumed"})
        if mine:
            with session.assistant() as reply:
                reply.add_text("hello")
                reply.finish()
    return mine


def answers(session: Session) -> Counter[str | None]:
    """How many replies each user message has."""
    found = [recorded.event for recorded in session.events()]
    asked = {event.message for event in found if isinstance(event, ev.UserMessageAdded)}
    replied = Counter(event.reply_to for event in found if isinstance(event, ev.AssistantMessageStarted))
    assert set(replied) <= asked
    assert not any(isinstance(event, ev.MessageRemoved) for event in found)
    return Counter({message: replied[message] for message in asked})


def race(works: list[Callable[[str], bool]], count: int) -> list[int]:
    """Send `count` request ids by all workers at once; return how many of them answered each."""
    together = Barrier(len(works))
    mine: list[list[bool]] = [[] for _ in works]

    def send(worker: int) -> None:
        try:
            for number in range(count):
                together.wait(PATIENCE)
                mine[worker].append(works[worker](f"r{number}"))
        except BaseException:
            together.abort()
            raise

    run_together(len(works), send)
    return [sum(found) for found in zip(*mine, strict=True)]


@pytest.mark.parametrize("handles", [1, 2])
@pytest.mark.usefixtures("impatient")
def test_of_two_threads_that_ask_at_once_one_answers(engine: Engine, handles: int) -> None:
    """Promise 5: two threads with one request id give one answer, on one handle and on two."""
    stores = [engine.open() for _ in range(handles)]
    stores[0].create_session(id="s")
    sessions = [stores[number % handles].session("s") for number in range(2)]
    count = RACES[engine.name]
    assert race([partial(answer, session) for session in sessions], count) == [1] * count
    assert list(answers(sessions[0]).values()) == [1] * count
    tally(f"turns that two threads ask for at once ({engine.name}, {handles} handles)", count)


def test_of_tasks_that_ask_at_once_one_answers(engine: Engine) -> None:
    """Promise 5: of the tasks of an event loop one answers, also if they share a lease."""
    session = AsyncSession(engine.open().create_session())

    async def ask(request: str) -> bool:
        async with session.turn("hi", request) as turn:
            if turn.mine:
                async with session.assistant() as reply:
                    await asyncio.sleep(0.001)
                    await reply.finish()
                    return True
        return False

    async def together() -> None:
        for number in range(TASKS):
            found = await asyncio.gather(*(ask(f"r{number}") for _ in range(4)))
            assert sum(found) == 1
        async with session.lease():
            for number in range(TASKS, 2 * TASKS):
                found = await asyncio.gather(*(ask(f"r{number}") for _ in range(4)))
                assert sum(found) == 1

    asyncio.run(together())
    assert list(answers(session.sync).values()) == [1] * TASKS * 2
    assert not session.sync.executor.holds_lease
    tally(f"turns that four tasks ask for at once ({engine.name})", TASKS * 2)


def test_of_two_processes_that_ask_at_once_one_answers(tmp_path: Path) -> None:
    """Promise 5: two processes with one request id leave one answer in the log."""
    with eventlog.open(tmp_path / "store") as store:
        store.create_session(id="s")
    programs = [Program("-c", PROGRAM, tmp_path / "store", name) for name in "ab"]
    assert [program.hear() for program in programs] == ["ready"] * 2
    for number in range(PROCESSES):
        for program in programs:
            program.tell(f"r{number}")
        assert "done" in {program.hear() for program in programs}
    for program in programs:
        program.end()
    with eventlog.open(tmp_path / "store") as store:
        assert list(answers(store.session("s")).values()) == [1] * PROCESSES
    tally("turns that two processes ask for at once", PROCESSES)
