"""Fork while another thread is at work, and check that the child does not hang.

Usage: `python -m tests.support.os_forker CASE DIRECTORY`.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from threading import Event, Thread, Timer
from typing import Any

from eventlog import events as ev
from eventlog.encryption import key_file
from eventlog.encryption.key_file import KeyFile
from eventlog.errors import ForkedProcessError
from eventlog.log.embedded.engine import EmbeddedLog
from eventlog.log.embedded.segments.environment import Environment
from eventlog.log.memory import MemoryLog
from eventlog.open_store import open_store
from projections.tokens import encodings
from projections.tokens.counter import CharsCounter
from projections.view.kept_view import KeptView
from projections.view.model_view import ModelView
from projections.view.neutral import NeutralMessage, Text
from projections.view.token_count import ViewCounter

PARENT = os.getpid()
MOMENT = 0.3
SECONDS = 20
"""Seconds after which a hanging child is killed."""
forked = Event()
os.register_at_fork(after_in_parent=forked.set)


@contextmanager
def meanwhile(work: Callable[[], object], standing: Event) -> Generator[None]:
    """Run something in another thread while this one stands at its place."""
    thread = Thread(target=work)
    thread.start()
    assert standing.wait(SECONDS)
    try:
        yield
    finally:
        thread.join(SECONDS)


def stand(standing: Event) -> None:
    """In the parent, wait here until the fork has happened."""
    standing.set()
    if os.getpid() == PARENT:
        assert forked.wait(SECONDS)


def child(work: Callable[[], object]) -> None:
    """Run something in a child, which has to end normally."""
    number = os.fork()
    if number == 0:
        try:
            work()
        except BaseException:  # noqa: BLE001 - told by the status
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    status = ended(number)
    assert status == 0, status


def ended(number: int) -> int:
    """Exit status of a child; one that hangs is killed, at any line."""
    killer = Timer(SECONDS, os.kill, (number, signal.SIGKILL))
    killer.start()
    try:
        return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])
    finally:
        killer.cancel()


def loading(_: Path) -> None:
    """Fork while a vocabulary is loaded."""
    import_module("tiktoken")  # imports modules that register fork handlers, which must not happen during a fork

    standing = Event()
    build = encodings._build

    def slow(name: str) -> Any:
        standing.set()
        forked.wait(MOMENT)
        return build(name)

    encodings._build = slow
    with meanwhile(lambda: encodings.encoder("o200k_base"), standing):
        child(lambda: encodings.encoder("o200k_base").encode("hello"))


def keyed(place: Path) -> None:
    """Fork while a key is made: the child locks the key file at once and blocks no other."""
    path = place.with_name("keys")
    keys = KeyFile(path)
    keys.make("0" * 32)
    standing = Event()
    write = key_file._write

    def slow(path: Path, fd: int, data: bytes) -> None:
        stand(standing)
        write(path, fd, data)

    key_file._write = slow
    with beside_a_child(lambda: keys.make("1" * 32), standing):
        keys.make("2" * 32)
    child(lambda: keys.make("3" * 32))
    assert all(keys.find(name * 32) for name in "0123")


@contextmanager
def beside_a_child(work: Callable[[], object], standing: Event) -> Generator[None]:
    """Fork inside some work; the child lives until the block ends, or for `SECONDS`."""
    told, tell = os.pipe()
    with meanwhile(work, standing):
        number = os.fork()
        if number == 0:
            os.close(tell)
            signal.alarm(SECONDS)
            os.read(told, 1)
            os._exit(0)
    os.close(told)
    try:
        yield
    finally:
        os.close(tell)
        status = ended(number)
    assert status == 0, "it was waited for until the child had gone"


def counting(_: Path) -> None:
    """Fork while a view is counted: a child counts with the same counter."""
    standing = Event()
    counter = ViewCounter(Slowly(standing))
    messages = [NeutralMessage("user", (Text("a"),))]
    with meanwhile(lambda: counter.count(messages), standing):
        child(lambda: counter.count(messages))
    assert counter.count(messages) == ViewCounter(CharsCounter()).count(messages)


def remembering(_: Path) -> None:
    """Fork while a store in memory is read: a child reads its own copy."""
    store = open_store("memory:")
    session = store.create_session(id="s")
    log = store.log.engine
    assert isinstance(log, MemoryLog)
    standing = Event()

    def hold() -> None:
        with log._changed:
            stand(standing)

    version = session.version
    with meanwhile(hold, standing):
        child(lambda: log.head("s"))
    assert session.version == version
    store.close()


def viewing(place: Path) -> None:
    """Fork while another thread reads a view: a child is told that the store is its parent's."""
    store = open_store(place)
    session = store.create_session(id="s")
    session.user("a question")
    standing = Event()
    ModelView.of(session)
    kept = store.host.kept.find("s")
    assert isinstance(kept, KeptView)

    def hold() -> None:
        with kept._lock:
            stand(standing)

    def in_the_child() -> None:
        try:
            ModelView.of(session)
        except ForkedProcessError:
            return
        raise AssertionError("the store belongs to the parent")

    with meanwhile(hold, standing):
        child(in_the_child)
    assert len(ModelView.of(session)) == 1
    store.close()


class Slowly(CharsCounter):
    """A counter that waits for the fork."""

    def __init__(self, standing: Event) -> None:
        self._standing = standing

    def count(self, text: str) -> int:
        """Count after the fork."""
        stand(self._standing)
        return super().count(text)


def folding(place: Path) -> None:
    """Fork while LMDB is written: the child must not inherit half a transaction."""
    standing, within = Event(), [False]
    writing = Environment.writing

    def slow(self: Environment, job: Callable[[Any], Any]) -> Any:
        def standing_in_it(txn: Any) -> Any:
            within[0] = True
            standing.set()
            forked.wait(MOMENT)
            result = job(txn)
            within[0] = False
            return result

        return writing(self, standing_in_it)

    store = open_store(place)
    session = store.create_session(id="s")
    session.user("parent")
    engine = store.log.engine
    assert isinstance(engine, EmbeddedLog)

    def in_the_child() -> None:
        assert not within[0]
        try:
            session.user("child")
        except ForkedProcessError:
            pass
        else:
            raise AssertionError("a child may not write through its parent's handle")
        store.close()
        with open_store(place) as own:
            own.session("s").user("child")

    Environment.writing = slow  # type: ignore[method-assign]
    with meanwhile(engine._partition.fold, standing):
        child(in_the_child)
    Environment.writing = writing  # type: ignore[method-assign]
    session.user("parent")
    assert sum(isinstance(recorded.event, ev.UserMessageAdded) for recorded in session.events()) == 3
    assert store.log.check() == []
    store.close()


def leaving(place: Path) -> None:
    """Fork while every lock is held: the child leaves its blocks and ends normally."""
    store = open_store(place)
    session = store.create_session(id="s")
    standing = Event()
    flusher, buffer = store.host.flusher, session.executor.writer.buffer

    held: list[Any] = [
        store.host.closing,
        store.registry.lock,
        flusher._lock,
        session.executor.leases.lock,
        session.executor.writer.lock,
        buffer._guard,
    ]

    def hold() -> None:
        with ExitStack() as stack:
            for lock in held:
                stack.enter_context(lock)
            standing.set()
            assert forked.wait(SECONDS)

    def leave() -> None:
        raise ForkedProcessError

    number = 0
    try:
        with session.assistant() as reply:
            reply.stream_text().append("a")
            store.flush()
            with meanwhile(hold, standing):
                number = os.fork()
                if number == 0:
                    leave()
                status = ended(number)
            reply.finish()
    except ForkedProcessError:
        store.close()
        del store, flusher, session, held
        sys.exit(7)
    assert status == 7, status
    store.close()


if __name__ == "__main__":
    CASES: dict[str, Callable[[Path], None]] = {
        "loading": loading,
        "keyed": keyed,
        "counting": counting,
        "remembering": remembering,
        "folding": folding,
        "leaving": leaving,
        "viewing": viewing,
    }
    CASES[sys.argv[1]](Path(sys.argv[2]))
