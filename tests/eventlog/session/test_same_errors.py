"""Errors of a situation do not depend on where the other caller is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import pytest

import eventlog
from eventlog import events as ev
from eventlog.errors import (
    AlreadyExistsError,
    ConflictError,
    ErasedError,
    EventlogError,
    LeaseHeldError,
    NotFoundError,
    RefusedError,
    RequestReusedError,
)
from tests.support.python_process import Program

CHILD = """
import sys, eventlog
with eventlog.open(sys.argv[1]) as store:
    session = store.session("s")
    print("ready", flush=True)
    for line in sys.stdin:
        exec(line)
        print("done", flush=True)
"""


class Other(Protocol):
    """Another caller of the same session."""

    def run(self, code: str) -> None:
        """Run a line of code with its `store` and `session`; everything is committed then."""
        ...


class Task:
    """Another thread of this process, with this store or one of its own."""

    def __init__(self, store: eventlog.Store) -> None:
        self._thread = ThreadPoolExecutor(1)
        self._names = {"store": store, "session": store.session("s")}

    def run(self, code: str) -> None:
        """See `Other`."""
        self._thread.submit(exec, code, self._names).result()

    def end(self) -> None:
        """End the thread."""
        self._thread.shutdown()


class Process:
    """Another process."""

    def __init__(self, path: Path) -> None:
        self._child = Program("-c", CHILD, path)
        assert self._child.hear() == "ready"

    def run(self, code: str) -> None:
        """See `Other`."""
        self._child.tell(code)
        assert self._child.hear() == "done"

    def end(self) -> None:
        """Let the process close its store and exit."""
        self._child.end()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[eventlog.Store]:
    """A store with the session `s`, which has the message `m`."""
    with eventlog.open(tmp_path / "store") as store:
        session = store.create_session(id="s")
        session.user("hi", id="m")
        session.append([(1, ev.Pinned("p", "a fact"))])
        yield store


@pytest.fixture(params=["task", "store", "process"])
def other(request: pytest.FixtureRequest, store: eventlog.Store, tmp_path: Path) -> Iterator[Other]:
    """The other caller."""
    if request.param == "process":
        process = Process(tmp_path / "store")
        yield process
        process.end()
        return
    with eventlog.open(tmp_path / "store") as second:
        task = Task(store if request.param == "task" else second)
        yield task
        task.end()


RENAMED = (1, ev.SessionRenamed("t"))
LEASED: dict[str, Callable[[eventlog.Store, eventlog.Session], Any]] = {
    "a command": lambda _, session: session.set_todos([]),
    "a lease": lambda _, session: session.lease().__enter__(),
    "a reply": lambda _, session: session.assistant("a/b").__enter__(),
    "a rollback": lambda _, session: session.rollback(1),
    "events": lambda _, session: session.append([RENAMED]),
    "an erasure": lambda store, _: store.erase("s"),
}
"""Calls that another holder of the lease refuses."""
ERASED: dict[str, Callable[[eventlog.Store, eventlog.Session], Any]] = {
    "a message": lambda _, session: session.user("x"),
    "a command": lambda _, session: session.set_todos([]),
    "a lease": lambda _, session: session.lease().__enter__(),
    "a reply": lambda _, session: session.assistant("a/b").__enter__(),
    "a rollback": lambda _, session: session.rollback(1),
    "events": lambda _, session: session.append([RENAMED]),
    "a fork": lambda _, session: session.fork(),
    "a fork at a version": lambda _, session: session.fork(1),
    "a look": lambda _, session: session.version,
    "its events": lambda _, session: [*session.events()],
    "its history": lambda _, session: [*session.history()],
    "its info": lambda _, session: session.info,
    "its head": lambda _, session: session.head(),
    "its state": lambda _, session: session.reader.state(),
    "a value put": lambda _, session: session.values.put("key", "x"),
    "a value": lambda _, session: session.values.get("key"),
    "its values": lambda _, session: session.values.items(),
    "a search": lambda store, _: store.search("hi", session="s"),
    "its handle": lambda store, _: store.session("s"),
    "an erasure": lambda store, _: store.erase("s"),
    "the id again": lambda store, _: store.create_session(id="s"),
}
"""Calls that an erased session refuses."""
BEHIND: dict[str, tuple[str, Callable[[eventlog.Store, eventlog.Session], Any], type[EventlogError]]] = {
    "a session created twice": (
        "store.create_session(id='n')",
        lambda store, _: store.create_session(id="n"),
        AlreadyExistsError,
    ),
    "a message added twice": (
        "session.user('x', id='n')",
        lambda _, session: session.user("y", id="n"),
        AlreadyExistsError,
    ),
    "a message removed twice": (
        "session.remove_message('m')",
        lambda _, session: session.remove_message("m"),
        NotFoundError,
    ),
    "a request id with other content": (
        "session.user('x', request_id='r')",
        lambda _, session: session.user("y", request_id="r"),
        RequestReusedError,
    ),
    "a version that has passed": (
        "session.user('x')",
        lambda _, session: session.append([RENAMED], expected_version=4),
        ConflictError,
    ),
    "a rollback redone twice": (
        "session.rollback(1) and session.redo()",
        lambda _, session: session.redo(),
        RefusedError,
    ),
    "a message promoted twice": (
        "session.user('x', id='q', delivery='queue'); session.context.promote('q')",
        lambda _, session: session.context.promote("q"),
        RefusedError,
    ),
    "a pin removed twice": ("session.unpin('p')", lambda _, session: session.unpin("p"), NotFoundError),
}
"""A line of the other caller, a command after it, and the command's error."""


@pytest.mark.parametrize("name", LEASED)
def test_a_lease_held_elsewhere_refuses_alike(store: eventlog.Store, other: Other, name: str) -> None:
    """A command that needs a held lease raises `LeaseHeldError`; a message needs none."""
    session = store.session("s")
    other.run("lease = session.executor.acquire()")
    with pytest.raises(LeaseHeldError) as raised:
        LEASED[name](store, session)
    assert raised.value.session == "s"
    assert raised.value.until
    assert "process" in raised.value.owner
    session.user("this needs no lease")
    other.run("session.executor.release(lease)")
    LEASED["a command"](store, session)


@pytest.mark.parametrize("name", ERASED)
def test_an_erased_session_refuses_alike(store: eventlog.Store, other: Other, name: str) -> None:
    """A handle of an erased session raises `ErasedError` for every command and look."""
    session = store.session("s")
    assert session.version
    other.run("store.erase('s')")
    with pytest.raises(ErasedError):
        ERASED[name](store, session)


@pytest.mark.parametrize("name", BEHIND)
def test_a_command_that_another_has_overtaken_is_refused_alike(store: eventlog.Store, other: Other, name: str) -> None:
    """A command that another caller was quicker with raises the same error."""
    line, command, error = BEHIND[name]
    session = store.session("s")
    assert session.version
    other.run(line)
    with pytest.raises(EventlogError) as raised:
        command(store, session)
    assert type(raised.value) is error
