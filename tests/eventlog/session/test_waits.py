"""Commands that another's lease forbids wait for it, if they are told how long."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from threading import Event, Thread, Timer

import pytest

from eventlog import events as ev
from eventlog.aio import AsyncSession
from eventlog.errors import CallError, LeaseHeldError
from eventlog.session.session import Session
from eventlog.store import Store
from tests.support.engines import Engine

TODOS = [(1, ev.TodosSet(()))]

Command = Callable[[Store, Session, float], object]
COMMANDS: dict[str, Command] = {
    "append": lambda _store, session, wait: session.append(TODOS, wait=wait),
    "append in a task": lambda _store, session, wait: asyncio.run(AsyncSession(session).append(TODOS, wait=wait)),
    "rollback": lambda _store, session, wait: session.rollback(1, wait=wait),
    "redo": lambda _store, session, wait: session.redo(wait=wait),
    "erase": lambda store, session, wait: store.erase(session.id, wait=wait),
}


@pytest.fixture(params=COMMANDS)
def command(request: pytest.FixtureRequest) -> Command:
    """Each command that waits."""
    return COMMANDS[str(request.param)]


@pytest.mark.parametrize("handles", [1, 2])
def test_a_command_waits_for_the_lease_of_another(engine: Engine, command: Command, handles: int) -> None:
    """A command is refused at once without a wait, and goes through when the holder lets go."""
    store = engine.open()
    session = store.create_session(id="s")
    session.user("hi")
    session.rollback(1)
    holder = (store if handles == 1 else engine.open()).session("s")
    held, let_go = Event(), Event()

    def hold() -> None:
        with holder.lease():
            held.set()
            let_go.wait(60.0)

    thread = Thread(target=hold)
    thread.start()
    assert held.wait(60.0)
    version = session.version
    for wait in (0.0, 0.05):
        begun = time.monotonic()
        with pytest.raises(LeaseHeldError):
            command(store, session, wait)
        assert wait <= time.monotonic() - begun < 30.0
    assert session.version == version
    releasing = Timer(0.1, let_go.set)
    releasing.start()
    command(store, session, 60.0)
    thread.join()
    releasing.join()
    assert let_go.is_set()
    head = store.log.head("s")
    assert head is not None
    assert head.version > version


def test_a_wait_is_a_number(store: Store, command: Command) -> None:
    """A wait that is no number is refused before anything is written."""
    session = store.create_session()
    session.user("hi")
    session.rollback(1)
    version = session.version
    with pytest.raises(CallError):
        command(store, session, float("nan"))
    assert session.version == version
