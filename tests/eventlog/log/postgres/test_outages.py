"""Calls while the server is away: how long they wait, and what they are told."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TypeVar

import pytest

import eventlog
from eventlog.errors import BusyError, RetryError
from eventlog.log.commit import Append
from eventlog.log.postgres.opening import open_log
from eventlog.store import Store
from tests.support.postgres_server import Server
from tests.support.sample_sessions import begin

T = TypeVar("T")


@pytest.fixture(scope="module")
def own() -> Iterator[Server]:
    """A server that the tests of this module may stop."""
    server = Server()
    yield server
    server.remove()


def test_calls_go_on_soon_after_the_server_is_back(own: Server) -> None:
    """Calls that waited for a server that is away for seconds go on within a moment."""
    with closing(open_log(own.new_schema(), busy_timeout=30.0)) as log:
        log.submit(Append(session="s", payload=b"p", count=1, time=1, creates_at=0)).wait()
        own.stop()
        waiting = [begin(lambda: log.head("s")) for _ in range(3)]
        time.sleep(4.0)
        own.start()
        begun = time.monotonic()
        assert all(each.result(60) is not None for each in waiting)
        assert time.monotonic() - begun < 2.5


def test_each_call_waits_for_its_own_time_while_the_server_is_away(own: Server) -> None:
    """A call is `BusyError` after its own time, also where another one gave up before it."""
    with closing(open_log(own.new_schema(), connections=1, busy_timeout=2.0)) as log:
        log.submit(Append(session="s", payload=b"p", count=1, time=1, creates_at=0)).wait()
        own.stop()

        def waited() -> float:
            begun = time.monotonic()
            with pytest.raises(BusyError):
                log.head("s")
            return time.monotonic() - begun

        try:
            waiting: list[Future[float]] = []
            for _ in range(4):
                waiting.append(begin(waited))
                time.sleep(0.5)
            took = [each.result(60) for each in waiting]
        finally:
            own.start()
        assert min(took) > 1.9
        assert max(took) < 3.5
        assert log.head("s") is not None


def test_many_idle_connections_that_died_are_replaced_at_once(own: Server) -> None:
    """After a restart a call does not wait for each idle connection that died."""
    with closing(open_log(own.new_schema(), connections=5)) as log:
        with ExitStack() as lent:
            for _ in range(5):
                lent.enter_context(log._connections.one())
        own.stop()
        own.start()
        begun = time.monotonic()
        assert log.head("s") is None
        assert time.monotonic() - begun < 2.5


@pytest.mark.promise(5)
def test_a_request_repeated_while_the_server_is_away_is_sent_again(own: Server) -> None:
    """Promise 5: repeated beside its first try, it is a `RetryError`; later it is there once."""
    with closing(open_log(own.new_schema(), busy_timeout=2.0)) as log, Store(log) as store:
        session = store.create_session(id="s")
        session.user("hi")
        own.stop()
        try:
            begun = time.monotonic()
            asking = [begin(lambda: session.user("more", request_id="r")) for _ in range(4)]
            for each in asking:
                with pytest.raises(RetryError):
                    each.result(60)
            assert time.monotonic() - begun < 3.8  # the log is not asked once more
        finally:
            own.start()
        assert {session.user("more", request_id="r") for _ in range(2)} == {session.reader.state().last_user()}
        assert session.reader.state().visible == 2


def when_back(call: Callable[[], T]) -> T:
    """Make a call again until the server answers."""
    until = time.monotonic() + 30
    while True:
        try:
            return call()
        except RetryError:
            if time.monotonic() > until:
                raise


@pytest.mark.parametrize("encrypted", [False, True])
def test_a_store_waits_as_long_as_the_program_says(own: Server, tmp_path: Path, *, encrypted: bool) -> None:
    """Lists and commands of a store, encrypted or not, give up after its `busy_timeout`."""
    keys = tmp_path / "keys" if encrypted else None
    with eventlog.open(own.new_schema(), keys=keys, busy_timeout=1.0, connections=2) as store:
        session = store.create_session(scope="h")
        calls: list[Callable[[], object]] = [
            lambda: store.newest_sessions("h"),
            lambda: store.info(session.id),
            lambda: session.user("Why two a day?", request_id="r"),
        ]
        own.stop()
        try:
            for call in calls:
                begun = time.monotonic()
                with pytest.raises(RetryError):
                    call()
                assert time.monotonic() - begun < 5
            assert not store.log.stopped
        finally:
            own.start()
        when_back(lambda: session.user("Why two a day?", request_id="r"))
        assert when_back(lambda: session.info.messages) == 1


def test_a_health_check_learns_soon_that_the_server_is_away(own: Server) -> None:
    """A check with a store of its own is told in seconds, and `failures` counts what was lost."""
    address = own.new_schema()
    with (
        eventlog.open(address, busy_timeout=5) as store,
        eventlog.open(address, busy_timeout=1, connections=1) as check,
    ):
        session = store.create_session()
        check.cursor()
        own.stop()
        try:
            begun = time.monotonic()
            with pytest.raises(BusyError):
                check.cursor()
            assert time.monotonic() - begun < 4
            with pytest.raises(RetryError):
                session.user("Why two a day?", request_id="r")
            assert store.metrics().failures == 1
            assert not store.log.stopped
        finally:
            own.start()
        assert when_back(check.cursor) == when_back(store.cursor)
