"""Commands that another's lease forbids wait for it, if they are told how long."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context
from inspect import signature
from threading import Event, Timer

import pytest

from eventlog import events as ev
from eventlog.aio import AsyncSession
from eventlog.errors import CallError, LeaseHeldError
from eventlog.session.context import ContextCommands
from eventlog.session.session import Session
from eventlog.store import Store
from eventlog.values import Media
from tests.support.engines import Engine
from tests.support.sample_sessions import begin

TODOS = [(1, ev.TodosSet(()))]

Command = Callable[[Store, Session, float], object]


def in_a_task(_store: Store, session: Session, wait: float) -> object:
    """Roll back in a task, by `AsyncSession.do`."""
    return asyncio.run(AsyncSession(session).do(session.rollback, 1, wait=wait))


COMMANDS: dict[str, Command] = {
    "append": lambda _store, session, wait: session.append(TODOS, wait=wait),
    "append in a task": lambda _store, session, wait: asyncio.run(AsyncSession(session).append(TODOS, wait=wait)),
    "rollback": lambda _store, session, wait: session.rollback(1, wait=wait),
    "rollback in a task": in_a_task,
    "redo": lambda _store, session, wait: session.redo(wait=wait),
    "erase": lambda store, session, wait: store.erase(session.id, wait=wait),
    "erase in a task": lambda store, session, wait: asyncio.run(
        AsyncSession(session).do(store.erase, session.id, wait=wait)
    ),
    "remove_message": lambda _store, session, wait: session.remove_message("reply", wait=wait),
    "edit_part": lambda _store, session, wait: session.edit_part("text", "bye", wait=wait),
    "remove_part": lambda _store, session, wait: session.remove_part("text", wait=wait),
    "set_settings": lambda _store, session, wait: session.set_settings(model="p/m", wait=wait),
    "set_system_prompt": lambda _store, session, wait: session.set_system_prompt("be kind", wait=wait),
    "set_tools": lambda _store, session, wait: session.set_tools("[]", wait=wait),
    "set_todos": lambda _store, session, wait: session.set_todos([], wait=wait),
    "assistant": lambda _store, session, wait: answered(session, wait),
    "promote": lambda _store, session, wait: session.context.promote("queued", wait=wait),
    "prune": lambda _store, session, wait: session.context.prune(["call"], wait=wait),
    "unprune": lambda _store, session, wait: session.context.unprune(["pruned"], wait=wait),
    "replace_media": lambda _store, session, wait: session.context.replace_media(
        [Media("call", "image/png", "a.png")], wait=wait
    ),
    "restore_media": lambda _store, session, wait: session.context.restore_media(["pruned"], wait=wait),
    "request_compaction": lambda _store, session, wait: session.context.request_compaction(wait=wait),
    "fail_compaction": lambda _store, session, wait: session.context.fail_compaction(asked(session), "no", wait=wait),
    "undo_compaction": lambda _store, session, wait: session.context.undo_compaction(wait=wait),
}
HOLDERS = {"lease", "turn"}
"""Blocks that hold the lease; `test_turn.py` and `test_task_lease.py` have their waits."""


def answered(session: Session, wait: float) -> None:
    """Add a whole reply."""
    with session.assistant(wait=wait) as reply:
        reply.finish()


def asked(session: Session) -> str:
    """The compaction that was asked for last."""
    found = [recorded.event for recorded in session.events() if isinstance(recorded.event, ev.CompactionRequested)]
    return found[-1].part


def talked(store: Store) -> Session:
    """A session in which each of the commands has something to do."""
    session = store.create_session(id="s")
    session.user("hi")
    with session.assistant(id="reply") as reply:
        text = reply.stream_text(id="text")
        text.append("hello")
        text.end()
        for call in ("call", "pruned"):
            reply.tool("bash", call_id=call, id=call, input={}).succeed("out")
        reply.finish()
    session.context.prune(["pruned"])
    session.context.replace_media([Media("pruned", "image/png")])
    with session.lease():
        part = session.context.request_compaction()
        session.context.start_compaction(part)
        with session.assistant(summary=True) as summary:
            summary.add_text("they talked")
            summary.finish()
        session.context.complete_compaction(part, summary.id)
    session.user("later", id="queued", delivery="queue")
    session.rollback(session.version)
    session.context.request_compaction()
    return session


@pytest.fixture(params=COMMANDS)
def command(request: pytest.FixtureRequest) -> Command:
    """Each command that waits."""
    return COMMANDS[str(request.param)]


@pytest.mark.parametrize("engine", ["memory"], indirect=True)  # a lease is the same in every engine
@pytest.mark.parametrize("handles", [1, 2])
def test_a_command_waits_for_the_lease_of_another(engine: Engine, command: Command, handles: int) -> None:
    """A command is refused at once without a wait, and goes through when the holder lets go."""
    store = engine.open()
    session = talked(store)
    holder = (store if handles == 1 else engine.open()).session("s")
    held, let_go = Event(), Event()

    def hold() -> None:
        with holder.lease():
            held.set()
            let_go.wait(60.0)

    holding = begin(hold)
    assert held.wait(60.0)
    version = session.version
    for wait in (0.0, 0.05):
        begun = time.monotonic()
        with pytest.raises(LeaseHeldError):
            command(store, session, wait)
        assert wait <= time.monotonic() - begun < 30.0
    assert session.version == version
    releasing = Timer(0.02, let_go.set)
    releasing.start()
    command(store, session, 60.0)
    holding.result(60.0)
    releasing.join()
    assert let_go.is_set()
    head = store.log.head("s")
    assert head is not None
    assert head.version > version


def test_a_wait_is_a_number(store: Store, command: Command) -> None:
    """A wait that is no number is refused before anything is written."""
    session = talked(store)
    version = session.version
    with pytest.raises(CallError):
        command(store, session, float("nan"))
    assert session.version == version


def test_every_command_that_takes_the_lease_waits() -> None:
    """Every method of a session with a `wait` is among the commands here, or holds the lease."""
    methods = {name: getattr(kind, name) for kind in (Session, ContextCommands) for name in dir(kind) if name[0] != "_"}
    waiting = {name for name, method in methods.items() if callable(method) and "wait" in signature(method).parameters}
    assert waiting - HOLDERS == {name for name in COMMANDS if " " not in name} - {"erase"}


def test_a_task_that_waits_needs_no_thread(store: Store) -> None:
    """While tasks wait for a lease, the threads of their event loop are free for its holder."""
    session = talked(store)
    chat = AsyncSession(session)

    async def wait() -> None:
        await chat.do(session.set_todos, [], wait=60.0)

    async def run() -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        async with chat.lease():
            waiting = [asyncio.create_task(wait(), context=Context()) for _ in range(4)]
            await asyncio.sleep(0.1)
            await chat.do(session.set_todos, [])
        await asyncio.gather(*waiting)

    asyncio.run(run())
    assert sum(isinstance(recorded.event, ev.TodosSet) for recorded in session.events()) == 5
