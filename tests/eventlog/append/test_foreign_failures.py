"""Failures of a command are told to its owner only, not to other callers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from time import monotonic
from typing import Any

import pytest

from eventlog import ConflictError, Session, Store
from projections import ModelView
from tests.support.engines import ENCRYPTED, ENGINES, Engine, places

SECONDS = 1.5
REQUESTS = 40


place = places(*ENGINES, ENCRYPTED)


class Crowd:
    """Threads whose compare-and-set commands fail all the time, beside others that must not."""

    def __init__(self) -> None:
        self.failures: list[BaseException] = []
        self.lost = 0
        """Compare-and-set commands that lost."""
        self.over = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, work: Callable[..., Any], *given: Any) -> None:
        """Run a work in a thread; an error of it is a failure."""

        def guarded() -> None:
            try:
                work(*given)
            except BaseException as error:  # noqa: BLE001 - every one is a fault
                self.failures.append(error)

        self._threads.append(threading.Thread(target=guarded))
        self._threads[-1].start()

    def count(self, session: Session) -> None:
        """Count a value up, again and again, and lose against others."""
        while not self.over.is_set():
            value = session.values.get("n")
            now, revision = (0, 0) if value is None else (int(str(value.value)), value.revision)
            try:
                session.values.put("n", str(now + 1), expected=revision)
            except ConflictError:
                self.lost += 1

    def end(self) -> None:
        """Let the counting end, and wait for all threads."""
        self.over.set()
        for thread in self._threads:
            thread.join()


@pytest.fixture
def crowd() -> Iterator[Crowd]:
    """Threads that are over after the test."""
    threads = Crowd()
    yield threads
    threads.end()


def handles(place: Engine) -> tuple[Store, Session, Session]:
    """One session in two stores, as of two programs."""
    store, other = place.open(), place.open()
    session = store.create_session(id="s")
    session.user("hello")
    return store, session, other.session("s")


def test_readers_hear_nothing_of_commands_that_lose(place: Engine, crowd: Crowd) -> None:
    """Reads and flushes beside lost compare-and-set commands raise nothing."""
    store, session, other = handles(place)
    end = monotonic() + SECONDS
    reads: list[Callable[[], object]] = [
        lambda: ModelView.of(session),
        store.newest_sessions,
        lambda: session.values.get("n"),
        lambda: session.version,
        lambda: session.info,
        session.flush,
        store.flush,
    ]

    def read(one: Callable[[], object]) -> None:
        while monotonic() < end:
            one()

    for writer in (session, session, other):
        crowd.start(crowd.count, writer)
    for one in reads:
        crowd.start(read, one)
    while monotonic() < end:
        crowd.over.wait(0.05)
    crowd.end()
    assert crowd.failures == []
    assert crowd.lost > 0


@pytest.mark.parametrize("named", [True, False])
def test_a_request_made_by_many_threads_is_done_once_for_all(place: Engine, crowd: Crowd, *, named: bool) -> None:
    """Each caller of one request id gets the first result, beside failing commands."""
    store, session, other = handles(place)
    for writer in (session, other):
        crowd.start(crowd.count, writer)
    barrier = threading.Barrier(5)
    ids: dict[int, set[str]] = {number: set() for number in range(REQUESTS)}

    def ask(handle: Session) -> None:
        for number in range(REQUESTS):
            barrier.wait(30)
            given: dict[str, Any] = {"id": f"m{number}"} if named else {}
            ids[number].add(handle.user(f"question {number}", request_id=f"r{number}", **given))

    callers = Crowd()
    for handle in (session, session, session, other, other):
        callers.start(ask, handle)
    callers.end()
    crowd.end()
    assert [*callers.failures, *crowd.failures] == []
    assert [len(found) for found in ids.values()] == [1] * REQUESTS
    assert session.info.messages == REQUESTS + 1
    store.close()


def test_a_pipeline_that_fails_is_told_to_its_thread_only(place: Engine, crowd: Crowd) -> None:
    """A reader beside pipelines that are refused raises nothing."""
    _, session, other = handles(place)
    end = monotonic() + SECONDS
    refused: list[ConflictError] = []

    def together(handle: Session) -> None:
        while monotonic() < end:
            value = handle.values.get("n")
            try:
                handle.values.put("n", "x", expected=0 if value is None else value.revision)
                with handle.pipeline():
                    handle.user("one")
                    handle.rename("two")
            except ConflictError as error:
                refused.append(error)

    def read() -> None:
        while monotonic() < end:
            ModelView.of(session)
            assert session.version > 0
            session.flush()

    for handle in (session, session, other):
        crowd.start(together, handle)
    for _ in range(2):
        crowd.start(read)
    crowd.end()
    assert crowd.failures == []
