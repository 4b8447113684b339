"""Outcomes where the server, the connection or another transaction fails in the middle."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from functools import partial
from threading import Thread
from typing import Any

import psycopg
import pytest
from psycopg import RawCursor

from eventlog.errors import BusyError, ConflictError, UnknownOutcomeError
from eventlog.log.commit import Append, Committed, LeaseState
from eventlog.log.postgres.engine import PostgresLog
from eventlog.log.postgres.opening import open_log
from tests.faults.tally import SLOW, tally
from tests.support.cutting_proxy import CuttingProxy
from tests.support.postgres_server import Server, running
from tests.support.sample_sessions import begin, run_together

CLIENTS = 50
MESSAGES = 14
"""More messages than an append sends or receives, connecting included."""


@pytest.fixture(scope="module")
def own() -> Iterator[Server]:
    """A server that the tests of this module may stop."""
    server = Server()
    yield server
    server.remove()


def put(log: PostgresLog, session: str = "s", **more: Any) -> Committed:
    """Append and wait."""
    given: dict[str, Any] = {"session": session, "payload": b"p", "count": 1, "time": 1, **more}
    return log.submit(Append(**given)).wait()


def payloads(log: PostgresLog, session: str = "s") -> list[bytes]:
    """The payloads of a session."""
    return [commit.payload for commit in log.read(session)]


@pytest.mark.promise(1, 4)
@pytest.mark.parametrize("direction", ["to", "from"])
@pytest.mark.parametrize("named", [True, False])
def test_a_client_cut_off_at_each_message(place: str, direction: str, named: bool) -> None:
    """Promises 1, 4: cut at any message, an append goes in once, with or without a request id."""
    proxy = CuttingProxy(running().port)
    log = open_log(f"{place.replace(str(running().port), str(proxy.port))}&sslmode=disable&gssencmode=disable")
    put(log, creates_at=0, payload=b"first")
    expected = [b"first"]
    for after in range(MESSAGES):
        proxy.arm(direction, after)
        payload = b"%d" % after
        expected.append(payload)
        done = put(log, payload=payload, request=f"r{after}" if named else None, digest=b"d")
        assert (done.first, done.repeated) == (len(expected), False)
        if named:
            assert put(log, payload=payload, request=f"r{after}", digest=b"d").first == done.first
    assert proxy.cuts >= MESSAGES // 3
    assert payloads(log) == expected
    assert log.check() == []
    tally(f"connections cut at a message ({direction} the server)", proxy.cuts)
    log.close()
    proxy.close()


@pytest.mark.promise(4)
@pytest.mark.parametrize("direction", ["to", "from"])
def test_a_lease_is_set_once_where_the_client_is_cut_off(place: str, direction: str) -> None:
    """Promise 4: the holder of a lease hears that it is its own, also if the answer was lost."""
    proxy = CuttingProxy(running().port)
    log = open_log(f"{place.replace(str(running().port), str(proxy.port))}&sslmode=disable&gssencmode=disable")
    put(log, creates_at=0)
    held = LeaseState()
    for after in range(MESSAGES):
        proxy.arm(direction, after)
        taken = LeaseState(after + 1, b"me", 10 + after)
        assert log.set_lease("s", taken, replaces=held)
        held = taken
    head = log.head("s")
    assert head is not None
    assert head.lease == held
    log.close()
    proxy.close()


@pytest.mark.promise(1)
@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_a_server_restarted_under_many_clients(own: Server, how: str) -> None:
    """Promise 1: of 50 clients of a server that restarts each goes on, and nothing is lost."""
    address = own.new_schema()
    logs = [open_log(address, connections=2) for _ in range(CLIENTS)]
    done: list[list[int]] = [[] for _ in logs]
    until = threading.Event()

    def write(number: int) -> None:
        name = f"s{number}"
        put(logs[number], name, creates_at=0, payload=b"0")
        while not until.is_set():
            value = len(done[number]) + 1
            done[number].append(put(logs[number], name, payload=b"%d" % value).first)

    clients = [begin(partial(write, number)) for number in range(CLIENTS)]
    time.sleep(1.0)
    if how == "killed":
        own.kill()
    else:
        own.stop()
    before = sum(map(len, done))
    own.start()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not all(len(each) > 3 for each in done):
        time.sleep(0.05)
    time.sleep(0.5)
    until.set()
    for client in clients:
        client.result(60)
    assert sum(map(len, done)) > before
    for number, versions in enumerate(done):
        assert versions == list(range(2, len(versions) + 2))
        assert payloads(logs[0], f"s{number}") == [b"%d" % value for value in range(len(versions) + 1)]
    tally(f"clients of a server that was {how}", CLIENTS)
    for log in logs:
        log.close()


@pytest.mark.promise(1)
def test_a_commit_that_no_standby_has_is_of_unknown_outcome(own: Server) -> None:
    """Promise 1: a commit whose wait was cancelled is unknown, and settled by its request id."""
    log = open_log(own.new_schema(), busy_timeout=20.0)
    put(log, creates_at=0)
    own.ask("ALTER SYSTEM SET synchronous_standby_names = 'away'")
    own.ask("SELECT pg_reload_conf()")
    try:
        time.sleep(0.2)
        for cancelled in (True, False):
            ticket = log.submit(Append(session="s", payload=b"x", count=1, time=1, request="r", digest=b"d"))
            canceller = begin(lambda: _cancel_the_wait(own))
            with pytest.raises(UnknownOutcomeError):
                ticket.wait()
            canceller.result(30)
            with pytest.raises(UnknownOutcomeError):  # the second time it is found, and no standby has it yet
                ticket.wait()
            assert payloads(log) == [b"p", b"x"], cancelled
    finally:
        own.ask("ALTER SYSTEM RESET synchronous_standby_names")
        own.ask("SELECT pg_reload_conf()")
    assert put(log, payload=b"x", request="r", digest=b"d") == Committed("s", 2, 2, 2, repeated=True)
    assert payloads(log) == [b"p", b"x"]
    log.close()


@pytest.mark.promise(1, 4)
def test_a_lease_that_no_standby_has_is_of_unknown_outcome(own: Server) -> None:
    """Promises 1, 4: a lease that a lost try set is held once a standby may know of it."""
    log = open_log(own.new_schema(), busy_timeout=20.0)
    put(log, creates_at=0)
    own.ask("ALTER SYSTEM SET synchronous_standby_names = 'away'")
    own.ask("SELECT pg_reload_conf()")
    held = LeaseState(1, b"me", 10)

    def meanwhile() -> None:
        _end_the_wait(own, "pg_terminate_backend")  # it is committed, and the answer is lost
        _end_the_wait(own, "pg_cancel_backend")  # and so it is found, and confirmed no more than that

    try:
        time.sleep(0.2)
        other = begin(meanwhile)
        with pytest.raises(UnknownOutcomeError):
            log.set_lease("s", held, replaces=LeaseState())
        other.result(30)
    finally:
        own.ask("ALTER SYSTEM RESET synchronous_standby_names")
        own.ask("SELECT pg_reload_conf()")
    head = log.head("s")
    assert head is not None
    assert head.lease == held
    log.close()


def _cancel_the_wait(server: Server) -> None:
    """Cancel the statement that waits for a standby."""
    _end_the_wait(server, "pg_cancel_backend")


def _end_the_wait(server: Server, how: str) -> None:
    waiting = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
    deadline = time.monotonic() + 20
    while not (found := server.ask(waiting)):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    for (pid,) in found:
        server.ask(f"SELECT {how}({pid})")
    while how == "pg_terminate_backend" and {pid for (pid,) in found} & {pid for (pid,) in server.ask(waiting)}:
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.promise(4)
def test_a_deadlock_is_tried_again(place: str) -> None:
    """Promise 4: an append that the server gives up for another transaction goes in later."""
    log = open_log(place)
    put(log, creates_at=0)
    partition = log.partition_of("s")
    with psycopg.connect(place, autocommit=True) as other:
        other.execute("SET deadlock_timeout = '20s'")
        with other.transaction():
            other.execute("SELECT 1 FROM eventlog_heads WHERE session = %s FOR UPDATE", (b"s",))
            ticket = log.submit(Append(session="s", payload=b"q", count=1, time=1, expected=1))
            waiter = Thread(target=ticket.wait)
            waiter.start()
            while not running().ask("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"):
                time.sleep(0.01)
            other.execute("SELECT 1 FROM eventlog_counters WHERE partition = %s FOR UPDATE", (partition,))
    waiter.join(30)
    assert ticket.wait(1) == Committed("s", 2, 2, 2)
    log.close()


def test_idle_connections_that_died_are_replaced(place: str) -> None:
    """A connection that the server ended while it was idle is replaced without an error."""
    log = open_log(place)
    put(log, creates_at=0)
    for number in range(3):
        end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'everdelta'"
        assert running().ask(end)
        time.sleep(0.05)
        assert log.head("s") is not None
        running().ask(end)
        assert put(log).first == number + 2
    log.close()


def test_a_pool_that_ran_dry_waits_bounded(place: str) -> None:
    """A read that gets no connection in time is `BusyError`, and the next one goes on."""
    log = open_log(place, connections=1, busy_timeout=0.3)
    put(log, creates_at=0)
    with log._connections.one():
        begun = time.monotonic()
        with pytest.raises(BusyError, match="all 1 are in use"):
            log.head("s")
        assert 0.2 < time.monotonic() - begun < 5
        with pytest.raises(BusyError):
            put(log)
    assert put(log).first == 2
    log.close()


def test_a_lock_is_waited_for_only_so_long(place: str) -> None:
    """An append that another transaction keeps out is `BusyError`, and nothing was written."""
    log = open_log(place, busy_timeout=0.3)
    put(log, creates_at=0)
    with psycopg.connect(place) as other:
        other.execute("SELECT 1 FROM eventlog_counters FOR UPDATE")
        with pytest.raises(BusyError, match="took too long"):
            put(log)
    assert put(log).first == 2
    log.close()


@pytest.mark.promise(4)
def test_of_two_handles_one_wins_each_version(place: str) -> None:
    """Promise 4: of two handles that append at one expected version exactly one goes in."""
    logs = [open_log(place) for _ in range(2)]
    put(logs[0], creates_at=0)
    count = 500 if SLOW else 60
    together = threading.Barrier(2)
    won: list[list[bool]] = [[], []]

    def race(number: int) -> None:
        for expected in range(1, count + 1):
            together.wait(30)
            try:
                put(logs[number], expected=expected)
                won[number].append(True)
            except ConflictError:
                won[number].append(False)

    run_together(2, race)
    assert [sum(pair) for pair in zip(*won, strict=True)] == [1] * count
    assert logs[0].check() == []
    tally("versions that two handles on a server wanted at once", count)
    for log in logs:
        log.close()


@pytest.mark.promise(4)
@pytest.mark.parametrize("committed", [True, False])
def test_an_internal_error_of_a_commit_is_looked_into(
    place: str, committed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise 4: after an internal error (XX000) an append is in once, whether or not it was."""
    log = open_log(place)
    put(log, creates_at=0, payload=b"first")
    execute = RawCursor.execute
    failures = [psycopg.errors.InternalError_("broken")]

    def failing(cursor: RawCursor[Any], *given: Any, **options: Any) -> Any:
        done = execute(cursor, *given, **options) if committed or not failures else None
        if failures:
            raise failures.pop()
        return done

    with monkeypatch.context() as patch:
        patch.setattr(RawCursor, "execute", failing)
        done = put(log, payload=b"second")
    assert (done.first, payloads(log)) == (2, [b"first", b"second"])
    assert log.check() == []
    log.close()
