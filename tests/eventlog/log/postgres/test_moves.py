"""Partitions that move between the clusters of a log while it is in use."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from functools import cache
from itertools import cycle
from threading import Event, Thread
from typing import Any

import psycopg
import pytest
from psycopg import sql

from eventlog.errors import (
    AlreadyExistsError,
    BusyError,
    CallError,
    DamagedError,
    EventlogError,
    RetryError,
    StorageError,
    UnknownOutcomeError,
)
from eventlog.log.contract import Append, Committed, LeaseState, partition_of
from eventlog.log.postgres import joining, move
from eventlog.log.postgres.attempt import Attempt, KnownHeads
from eventlog.log.postgres.cluster_state import State, hold, read_state
from eventlog.log.postgres.clustered import ClusteredLog, open_clusters
from eventlog.log.postgres.connections import connect
from eventlog.log.postgres.engine import create, open_log
from eventlog.log.postgres.guard import MapChangedError
from eventlog.log.postgres.joining import create_clusters, join
from eventlog.log.postgres.move import abandon_move, move_partition
from eventlog.log.rules import LeaseChange, was_committed
from eventlog.log.ticket import QueuedTicket
from tests.faults.tally import SLOW
from tests.support.postgres_server import Server, running, second

PARTITIONS = 4


@pytest.fixture
def pair() -> Iterator[tuple[str, str]]:
    """Addresses of the two clusters of an empty log, on two servers."""
    made = running().new_schema(), second().new_schema()
    create_clusters(made, partitions=PARTITIONS)
    yield made
    for server, address in zip((running(), second()), made, strict=True):
        drop(server, address)


def drop(server: Server, address: str) -> None:
    """Remove a schema."""
    server.ask(f"DROP SCHEMA {address.rpartition('%3D')[2]} CASCADE")


def state(address: str) -> State:
    """Return the state of a cluster."""
    with psycopg.connect(address, autocommit=True) as connection:
        found = read_state(connection)
    assert found is not None
    return found


def rows(address: str, table: str, partition: int) -> int:
    """Rows of a partition in a table."""
    with psycopg.connect(address) as connection:
        statement = sql.SQL("SELECT count(*) FROM {} WHERE partition = %s").format(sql.Identifier(f"eventlog_{table}"))
        ((count,),) = connection.execute(statement, (partition,)).fetchall()
    return int(count)


def head_row(address: str, session: str) -> tuple[Any, ...]:
    """Return the row of a session's head in a cluster."""
    with psycopg.connect(address) as connection:
        (row,) = connection.execute("SELECT * FROM eventlog_heads WHERE session = %s", (session.encode(),)).fetchall()
    return row


def put(log: ClusteredLog, session: str, number: int, **more: object) -> Committed:
    """Append the event of a number to a session, begun with the first one."""
    append = Append(
        session=session,
        payload=b"%d" % number,
        count=1,
        time=1000 + number,
        creates_at=None if number else 0,
        request=f"r{number}",
        digest=b"d",
        entry=b"e",
        **more,  # type: ignore[arg-type]
    )
    return log.submit(append).wait()


@cache
def name_in(partition: int, number: int = 0) -> str:
    """Return an id of a session in a partition."""
    names = (f"s{n}" for n in range(200))
    return [name for name in names if partition_of(name, PARTITIONS) == partition][number]


def payloads(log: ClusteredLog, session: str) -> list[int]:
    """Numbers of a session's events in their order."""
    return [int(commit.payload) for commit in log.read(session)]


def in_one(entry: bytes) -> list[bytes]:
    """Return the one list that a session is in: its entry."""
    return [entry]


@pytest.mark.promise(5)
def test_all_of_a_partition_moves(pair: tuple[str, str]) -> None:
    """Commits, heads, leases, request ids and bodies of a partition are at its new cluster."""
    with_log = open_clusters(pair, lists_of=in_one)
    session, other, large = name_in(0), name_in(3), os.urandom(3 << 20)
    body, small = bytes(range(32)), bytes(range(1, 33))
    put(with_log, other, 0)
    with_log.submit(
        Append(
            session=session,
            payload=b"\xc4\x20" + body + b"\xc4\x20" + small,
            count=2,
            time=5,
            creates_at=0,
            bodies=[(body, b"\x00" + large), (small, b"\x00small")],
            request="first",
            digest=b"d",
            entry=b"e",
        )
    ).wait()
    for number in range(1, 2500):
        with_log.submit(Append(session=session, payload=b"%d" % number, count=1, time=number, request=f"r{number}"))
    with_log.sync()
    lease = LeaseState(1, b"me", 10**15)
    assert with_log.set_lease(session, lease, replaces=LeaseState())
    stored = with_log.body(body)
    head, commits = with_log.head(session), list(with_log.read(session))
    positions, identity, newest = with_log.last_positions(), with_log.identity, with_log.newest([b"e"], limit=9)

    seen: list[tuple[int, int]] = []
    result = move_partition(0, *pair, on_progress=lambda done, last: seen.append((done, last)))
    assert (result.partition, result.commits, result.sessions) == (0, 2500, 1)
    assert seen[-1] == (2501, 2501)
    assert sorted(map(sorted, (state(address).serves for address in pair))) == [[0, 2, 3], [1]]
    assert [rows(pair[0], table, 0) for table in ("commits", "heads", "lists")] == [0, 0, 0]
    assert (rows(pair[1], "commits", 0), rows(pair[1], "heads", 0)) == (2500, 1)
    fresh = open_clusters(pair, lists_of=in_one)
    for log in (with_log, fresh):  # one that has the map of before, and one that reads it now
        assert log.head(session) == head
        assert list(log.read(session)) == commits
        assert (log.last_positions(), log.identity) == (positions, identity)
        assert log.newest([b"e"], limit=9) == newest
        assert [found.session for found in log.heads()] == sorted([session, other])
        assert log.body(body) == stored
        again = log.submit(
            Append(session=session, payload=b"", count=2, time=5, creates_at=0, request="first", digest=b"d")
        )
        assert again.wait().repeated
        assert log.check() == []
        assert sorted(log.bodies()) == [body, small]
    assert with_log.set_lease(session, LeaseState(2, b"", 0), replaces=lease)
    assert fresh.head(session) != head
    assert move_partition(0, *pair) == move.MoveResult(0)  # it is there already
    fresh.close()
    with_log.close()


@pytest.mark.promise(2)
@pytest.mark.promise(3)
def test_a_partition_moves_under_load(pair: tuple[str, str]) -> None:
    """No event is lost, doubled or out of order while partitions go to and fro under writers."""
    seconds = 40.0 if SLOW else 4.0
    over, faults = Event(), list[str]()
    acknowledged: dict[str, list[int]] = {}
    logs = [open_clusters(pair, busy_timeout=20.0, lanes=lanes) for lanes in (1, 1, 2)]

    def write(log: ClusteredLog, session: str) -> None:
        versions = acknowledged[session] = []
        while not over.is_set():
            try:
                done = put(log, session, len(versions))
            except RetryError:
                continue
            except EventlogError as error:
                faults.append(f"{session}: {error!r}")
                return
            versions.append(done.last)

    def look(log: ClusteredLog) -> None:
        at = [0] * PARTITIONS
        newest = dict[str, int]()
        while not over.is_set():
            log.wait_after(at, 0.2)
            for partition in range(PARTITIONS):
                for commit in log.commits_after(at[partition], 50, partition=partition):
                    if commit.first != newest.get(commit.session, 0) + 1:
                        faults.append(f"followed {commit.session}: {commit.first}")
                    newest[commit.session] = commit.last
                    at[partition] = commit.last_position
            for session in list(newest)[:3]:
                head = log.head(session)
                if head is None or head.version < newest[session] or len(payloads(log, session)) < newest[session]:
                    faults.append(f"{session} went back: {head}")
            if len({head.session for head in log.heads()}) < len(newest):
                faults.append("a session is missing in the list of all")

    def checked(target: object, *arguments: object) -> None:
        try:
            target(*arguments)  # type: ignore[operator]
        except BaseException as error:  # noqa: BLE001 - a thread that fails, fails the test
            faults.append(repr(error))

    threads = [
        Thread(target=checked, args=(write, log, name_in(number % PARTITIONS, number)))
        for number, log in zip(range(9), cycle(logs), strict=False)
    ]
    logs.append(open_clusters(pair))
    threads.append(Thread(target=checked, args=(look, logs[-1])))
    for thread in threads:
        thread.start()
    moves = 0
    until = time.monotonic() + seconds
    try:
        while time.monotonic() < until and not faults:
            for partition in range(PARTITIONS):
                source, to = pair if partition in state(pair[0]).serves else pair[::-1]
                move_partition(partition, source, to)
                moves += 1
    finally:
        over.set()
        for thread in threads:
            thread.join()
    for log in logs:
        log.close()
    assert not faults, faults[:5]
    assert moves >= PARTITIONS
    with_log = open_clusters(pair)
    assert with_log.check() == []
    for session, versions in acknowledged.items():
        assert versions == list(range(1, len(versions) + 1))
        stored = payloads(with_log, session)
        assert stored[: len(versions)] == list(range(len(versions)))
        assert len(stored) - len(versions) in {0, 1}, session  # the last try may have had no answer
    assert min(map(len, acknowledged.values())) > moves // PARTITIONS
    with_log.close()


KILLED = (("_put", "after"), ("_hand_over", "after"), ("activate", "before"))
"""Steps at which the process of the mover is killed each time."""
STEPS = ("_begin", "_put", "heads", "_freeze", "require_equal", "_hand_over", "activate", "_clear_source")
"""Functions of the mover."""


@pytest.mark.promise(1)
@pytest.mark.promise(3)
@pytest.mark.parametrize(
    ("step", "when"),
    [(step, when) for step in STEPS for when in ("before", "after") if SLOW or when == "after" or step == "activate"],
)
def test_a_mover_that_is_killed(pair: tuple[str, str], step: str, when: str) -> None:
    """A move that was killed at any step is continued, and at most one cluster serves."""
    log = open_clusters(pair, busy_timeout=5.0)
    session, later = name_in(1), name_in(1, 1)
    for number in range(30):
        put(log, session, number)
    killed(pair, 1, step, when)
    served = [1 in state(address).serves for address in pair]
    assert sum(served) <= 1
    for number in range(30, 35):  # where nothing serves it, this process has it served
        put(log, session, number)
    put(log, later, 0)
    assert sum(1 in state(address).serves for address in pair) == 1
    assert payloads(log, session) == list(range(35))
    move_partition(1, *pair)
    put(log, session, 35)
    assert [1 in state(address).serves for address in pair] == [False, True]
    assert [rows(address, "commits", 1) for address in pair] == [0, 37]
    for address in pair:
        assert not state(address).left
        assert not state(address).arriving
    assert payloads(log, session) == list(range(36))
    assert payloads(log, later) == [0]
    assert log.check() == []
    log.close()


@pytest.mark.parametrize("step", ["_begin", "_put", "heads", "_freeze", "_hand_over"])
def test_a_move_is_abandoned(pair: tuple[str, str], step: str) -> None:
    """A move that broke off before the handing over is ended, and leaves nothing behind."""
    log = open_clusters(pair)
    session = name_in(1)
    for number in range(30):
        put(log, session, number)
    killed(pair, 1, step, "after")
    assert abandon_move(1, *pair) is True
    assert abandon_move(1, *pair) is False
    assert [1 in state(address).serves for address in pair] == [True, False]
    assert rows(pair[1], "commits", 1) == rows(pair[1], "heads", 1) == 0
    put(log, session, 30)
    assert payloads(log, session) == list(range(31))
    move_partition(1, *pair)
    with pytest.raises(CallError, match="handed over"):
        abandon_move(1, *pair)
    assert payloads(log, session) == list(range(31))
    log.close()


class DeadError(BaseException):
    """The end of a mover."""


def killed(pair: tuple[str, str], partition: int, step: str, when: str) -> None:
    """Move a partition until before or after a step, when the mover's connections are cut off.

    That is all that a server sees of a mover that is killed. Some are killed indeed, and all in the
    long form.
    """
    if not SLOW and (step, when) not in KILLED:
        place: Any = move if hasattr(move, step) else move._Copy
        original = getattr(place, step)

        def deadly(*arguments: Any, **named: Any) -> None:
            if when == "after":
                original(*arguments, **named)
            for one in opened:
                one.pgconn.finish()
            raise DeadError

        def opening(*arguments: Any, **named: Any) -> Any:
            opened.append(connect(*arguments, **named))
            return opened[-1]

        opened: list[Any] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(place, step, deadly)
            patch.setattr(move, "connect", opening)
            with pytest.raises(DeadError):
                move_partition(partition, *pair)
        return
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.killed_mover", str(partition), *pair, step, when],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr


@pytest.mark.promise(12)
def test_a_worker_with_an_old_map(pair: tuple[str, str]) -> None:
    """The server refuses what a worker sends by an old map; then the worker uses the new one."""
    stale, fresh = open_clusters(pair), open_clusters(pair)
    session, unknown = name_in(0), name_in(0, 1)
    put(stale, session, 0)
    assert stale.clusters == (frozenset({0, 1}), frozenset({2, 3}))
    move_partition(0, *pair)
    put(fresh, session, 1)
    assert stale.clusters == (frozenset({0, 1}), frozenset({2, 3}))
    assert stale.head(unknown) is None
    assert put(stale, session, 2).last == 3
    assert stale.clusters == (frozenset({1}), frozenset({0, 2, 3}))
    assert payloads(stale, session) == payloads(fresh, session) == [0, 1, 2]
    assert rows(pair[0], "commits", 0) == 0
    stale.close()
    fresh.close()


@pytest.mark.promise(4)
def test_the_server_takes_no_append_to_what_it_does_not_serve(pair: tuple[str, str]) -> None:
    """An append that reaches a cluster without its partition writes nothing there."""
    log = open_clusters(pair)
    session, other = name_in(0), name_in(0, 1)
    put(log, session, 0)
    put(log, name_in(1), 0)
    old = log._clusters.map.members[0].target
    heads = KnownHeads(old.reader.known_heads([session, name_in(1)]))
    killed(pair, 0, "_clear_source", "before")  # its rows are there still
    before, known = head_row(pair[0], session), KnownHeads(heads)
    appends = [
        Append(session=session, payload=b"1", count=1, time=1, expected=1),
        Append(session=other, payload=b"0", count=1, time=1, creates_at=0),
    ]
    for append in appends:
        ticket: QueuedTicket[Append, Committed] = QueuedTicket(append)
        old.finish(heads, [ticket])
        with pytest.raises(StorageError):
            ticket.wait()
    changed: QueuedTicket[LeaseChange, bool] = QueuedTicket(
        LeaseChange(session, LeaseState(1, b"me", 10**15), LeaseState())
    )
    old.finish(KnownHeads(heads), [changed])
    with pytest.raises(StorageError):
        changed.wait()
    mixed: list[QueuedTicket[Append, Committed]] = [
        QueuedTicket(Append(session=name, payload=b"1", count=1, time=1)) for name in (session, name_in(1))
    ]
    old.finish(known, mixed)
    assert [ticket.done() and was_committed(ticket) for ticket in mixed] == [False, True]
    assert (rows(pair[0], "commits", 0), rows(pair[0], "heads", 0)) == (1, 1)
    assert head_row(pair[0], session) == before
    move_partition(0, *pair)
    head = log.head(session)
    assert head is not None
    assert (head.version, head.lease) == (1, LeaseState())
    assert log.head(other) is None
    log.close()


@pytest.mark.promise(3)
def test_only_the_copy_that_was_handed_over_is_activated(pair: tuple[str, str]) -> None:
    """The note of an earlier handing over, never cleared, activates no later copy."""
    third = running().new_schema()
    join(pair[0], third)
    log = open_clusters([*pair, third])
    session = name_in(0)
    put(log, session, 0)
    killed(pair, 0, "_clear_source", "before")  # the note of it stays at the source
    move_partition(0, pair[1], third)
    put(log, session, 1)
    killed((third, pair[1]), 0, "_begin", "after")  # the copy back is not complete
    for again in (log, open_clusters([*pair, third])):
        assert payloads(again, session) == [0, 1]
        assert [0 in state(address).serves for address in (*pair, third)] == [False, False, True]
    with pytest.raises(StorageError, match="not served there: nothing is deleted"):
        move_partition(0, *pair)
    assert rows(pair[0], "commits", 0) == 1
    assert move_partition(0, pair[0], third).commits == 0  # clears what is left of the first move
    assert rows(pair[0], "commits", 0) == 0
    assert [0 in state(address).serves for address in (*pair, third)] == [False, False, True]
    assert not state(pair[0]).left
    move_partition(0, third, pair[1])
    put(log, session, 2)
    assert payloads(log, session) == [0, 1, 2]
    log.close()
    again.close()
    drop(running(), third)


def test_a_refused_batch_forgets_the_heads_that_it_read(pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Heads that a cluster told are forgotten once their sessions turn out to have moved."""
    log = open_clusters(pair)
    put(log, name_in(0), 0)
    target, heads = log._clusters.map.members[0].target, KnownHeads()
    ticket: QueuedTicket[Append, Committed] = QueuedTicket(Append(session=name_in(0), payload=b"", count=1, time=1))

    def moved(*_: object) -> None:
        raise MapChangedError

    monkeypatch.setattr(Attempt, "_find", moved)
    attempt = Attempt(target, heads, [ticket], {ticket: [(2, b"salt")]})
    with pytest.raises(MapChangedError):
        attempt.finish()
    assert (attempt.left, heads) == ([ticket], {})
    log.close()


def test_a_frozen_partition_makes_its_writers_wait(pair: tuple[str, str]) -> None:
    """A writer waits for a frozen partition until its timeout, and then may try again."""
    log = open_clusters(pair, busy_timeout=1.0)
    session = name_in(0)
    put(log, session, 0)
    with psycopg.connect(pair[0]) as connection:
        connection.execute("SELECT position FROM eventlog_counters WHERE partition = 0 FOR UPDATE")
        with pytest.raises(BusyError):
            put(log, session, 1)
        assert payloads(log, session) == [0]  # reading goes on
    assert put(log, session, 1).last == 2
    log.close()


def test_one_move_at_a_time(pair: tuple[str, str]) -> None:
    """Another move and an erasure are refused while a partition is on its way."""
    log = open_clusters(pair)
    put(log, name_in(0), 0)
    with psycopg.connect(pair[0]) as connection:
        connection.execute("SELECT value FROM eventlog_settings WHERE name = 'cluster' FOR UPDATE")
        with pytest.raises(BusyError, match="another move"):
            move_partition(0, *pair)
        with pytest.raises(BusyError), log.held():
            pass
    killed(pair, 0, "_put", "after")
    with pytest.raises(BusyError, match="partition 0 is being moved: complete that"), log.held():
        pass
    move_partition(0, *pair)
    with log.held():
        pass
    log.close()


def test_a_copy_that_differs(pair: tuple[str, str]) -> None:
    """A partition whose copy is not equal is not handed over."""
    log = open_clusters(pair)
    for number in range(3):
        put(log, name_in(0), number)
    killed(pair, 0, "heads", "after")
    with psycopg.connect(pair[1], autocommit=True) as connection:
        connection.execute("UPDATE eventlog_heads SET peaks = 'other' WHERE partition = 0")
    with pytest.raises(DamagedError, match="differs"):
        move_partition(0, *pair)
    assert 0 in state(pair[0]).serves
    assert put(log, name_in(0), 3).last == 4
    assert abandon_move(0, *pair)
    move_partition(0, *pair)
    assert payloads(log, name_in(0)) == [0, 1, 2, 3]
    log.close()


SETTINGS = (
    "SELECT current_setting('synchronous_commit'), current_setting('tcp_keepalives_idle'),"
    " current_setting('tcp_user_timeout')"
)


@pytest.mark.promise(1)
def test_a_move_survives_what_its_servers_can(pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The commits of a mover wait for the disk, and servers notice if its host is gone."""
    log = open_clusters(pair)
    put(log, name_in(0), 0)
    found: list[list[tuple[Any, ...]]] = []
    original = move._Copy.require_equal

    def asked(self: Any, last: int) -> None:
        found.extend(one.execute(SETTINGS).fetchall() for one in (self._here, self._there))
        original(self, last)

    monkeypatch.setattr(move._Copy, "require_equal", asked)
    source, to = (f"{address}%20-csynchronous_commit%3Doff" for address in pair)
    move_partition(0, source, to)
    assert found == [[("on", "10", "20000")], [("on", "10", "20000")]]
    with log._all_held() as held:
        assert [one.execute(SETTINGS).fetchall()[0][1:] for one in held] == [("10", "20000")] * 2
    log.close()


def test_what_is_copied_while_writers_wait(pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A move reads each commit once, and none of those that were there while it is frozen."""
    log = open_clusters(pair)
    counted: list[tuple[int, int]] = []
    for partition, size in ((0, 400), (1, 3200)):
        for number in range(size):
            append = Append(
                session=name_in(partition, number % 8),
                payload=b"%d" % number,
                count=1,
                time=1,
                creates_at=None if number >= 8 else 0,
            )
            log.submit(append)
        log.sync()
        copied: list[int] = []
        statements: list[int] = []
        original, freeze = move._Copy._put, move._freeze

        def copying(self: Any, rows: Any, copied: list[int] = copied, original: Any = original) -> None:
            copied.append(len(rows))
            original(self, rows)

        def freezing(here: Any, number: int, freeze: Any = freeze, statements: list[int] = statements) -> int:
            statements.append(len(copied))  # noqa: B023 - of this round
            last: int = freeze(here, number)
            return last

        with monkeypatch.context() as patch:
            patch.setattr(move._Copy, "_put", copying)
            patch.setattr(move, "_freeze", freezing)
            result = move_partition(partition, *pair)
        assert (sum(copied), result.commits, result.copied_frozen) == (size, size, 0)
        assert statements == [len(copied)]
        counted.append((size, len(copied)))
    assert counted == [(400, 1), (3200, 4)]
    log.close()


def test_addresses_that_are_not_of_one_log(pair: tuple[str, str]) -> None:
    """A wrong, a missing and a doubled address are refused, in opening and in moving."""
    other = running().new_schema(), second().new_schema()
    empty = running().new_schema()
    create_clusters(other, partitions=PARTITIONS)
    with pytest.raises(CallError, match="different logs"):
        open_clusters([pair[0], other[1]])
    with pytest.raises(CallError, match="one cluster"):
        open_clusters([pair[0], pair[0]])
    with pytest.raises(CallError, match="first cluster"):
        open_clusters([pair[1]])
    with pytest.raises(StorageError, match="partition 2 is in none of the 1 clusters"):
        open_clusters([pair[0]])
    with pytest.raises(CallError, match="several clusters"):
        open_log(pair[0])
    with pytest.raises(EventlogError, match="create_clusters"):
        open_clusters([*pair, empty])
    with pytest.raises(CallError, match="of one log"):
        move_partition(0, pair[0], other[1])
    with pytest.raises(CallError, match="of one cluster"):
        move_partition(0, pair[0], pair[0])
    for wrong in (-1, PARTITIONS, True, "0"):
        with pytest.raises(CallError, match="partitions 0 to 3"):
            move_partition(wrong, *pair)  # type: ignore[arg-type]
    with pytest.raises(CallError, match="that of the one the log began with"):
        join(pair[1], empty)
    for server, address in ((running(), other[0]), (second(), other[1]), (running(), empty)):
        drop(server, address)


def test_a_log_grows_into_clusters(pair: tuple[str, str]) -> None:
    """A third cluster joins a log in use, and a log in one schema becomes one in two."""
    third = running().new_schema()
    log = open_clusters(pair)
    put(log, name_in(0), 0)
    join(pair[0], third)
    join(pair[0], third)
    move_partition(0, pair[0], third)
    with pytest.raises(StorageError, match="open the log with the addresses of all"):
        put(log, name_in(0), 1)
    log.close()
    wider = open_clusters([third, *pair])
    assert wider.clusters == (frozenset({1}), frozenset({2, 3}), frozenset({0}))
    put(wider, name_in(0), 1)
    assert payloads(wider, name_in(0)) == [0, 1]
    with pytest.raises(CallError, match="handed over"):
        abandon_move(0, pair[0], third)
    wider.close()
    drop(running(), third)


def test_programs_go_on_while_a_log_in_one_schema_becomes_two() -> None:
    """A program that gave its one address in a list goes on; without a list it is refused."""
    alone, added = running().new_schema(), second().new_schema()
    plain = open_log(alone, partitions=PARTITIONS)
    listed = open_clusters([alone])
    put(listed, name_in(1), 0)
    plain.submit(Append(session=name_in(0), payload=b"0", count=1, time=1, creates_at=0)).wait()
    join(alone, added)
    put(listed, name_in(1), 1)
    assert payloads(listed, name_in(1)) == [0, 1]
    move_partition(0, alone, added)
    put(listed, name_in(1), 2)
    with pytest.raises(StorageError, match="addresses of all"):
        listed.head(name_in(0))
    with pytest.raises(StorageError, match="several clusters"):
        plain.submit(Append(session=name_in(0), payload=b"1", count=1, time=1)).wait()
    with pytest.raises(StorageError, match="several clusters"):
        plain.last_positions()
    plain.close()
    both = open_clusters([alone, added])
    assert payloads(both, name_in(0)) == [0]
    both.close()
    for server, address in ((running(), alone), (second(), added)):
        drop(server, address)


def ask(address: str, statement: str) -> None:
    """Run a statement in the schema of a cluster."""
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(statement.encode())


@contextmanager
def warns(address: str, table: str, condition: str) -> Generator[None]:
    """Have commits that write some rows come with a warning, as those that no standby has."""
    ask(
        address,
        "CREATE FUNCTION warn() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE WARNING 'no standby'; RETURN NULL; END $$;"
        f" CREATE CONSTRAINT TRIGGER warning AFTER INSERT OR UPDATE ON {table} DEFERRABLE INITIALLY DEFERRED"
        f" FOR EACH ROW WHEN ({condition}) EXECUTE FUNCTION warn()",
    )
    try:
        yield
    finally:
        ask(address, "DROP FUNCTION warn CASCADE")


@pytest.mark.promise(3)
def test_a_continued_copy_is_compared_from_its_beginning(pair: tuple[str, str]) -> None:
    """A copy of commits that the source has lost or changed meanwhile is not handed over."""
    log = open_clusters(pair)
    session = name_in(0)
    for number in range(5):
        put(log, session, number)
    killed(pair, 0, "heads", "after")
    for change in (
        "UPDATE eventlog_commits SET payload = 'other' WHERE partition = 0 AND last_position = 2",
        "DELETE FROM eventlog_commits WHERE partition = 0 AND last_position = 2",
    ):
        ask(pair[0], change)
        with pytest.raises(DamagedError, match="--abandon"):
            move_partition(0, *pair)
    assert 0 in state(pair[0]).serves
    assert abandon_move(0, *pair)
    assert move_partition(0, *pair).commits == 4
    log.close()


@pytest.mark.promise(1)
def test_a_source_keeps_what_its_destination_has_lost(pair: tuple[str, str]) -> None:
    """A partition is deleted at its source only if the destination serves all of it."""
    log = open_clusters(pair)
    for number in range(5):
        put(log, name_in(0), number)
    killed(pair, 0, "_clear_source", "before")
    ask(pair[1], "UPDATE eventlog_counters SET position = 4 WHERE partition = 0")
    with pytest.raises(DamagedError, match="later position"):
        move_partition(0, *pair)
    ask(pair[1], "DELETE FROM eventlog_counters WHERE partition = 0")
    with pytest.raises(StorageError, match="not served there: nothing is deleted"):
        move_partition(0, *pair)
    assert rows(pair[0], "commits", 0) == 5
    ask(pair[1], "INSERT INTO eventlog_counters VALUES (0, 5)")
    move_partition(0, *pair)
    assert [rows(address, "commits", 0) for address in pair] == [0, 5]
    log.close()


@pytest.mark.promise(1)
def test_a_handing_over_that_no_standby_may_have(pair: tuple[str, str]) -> None:
    """A partition is not activated before its handing over survives what the server can."""
    log = open_clusters(pair)
    put(log, name_in(0), 0)
    with warns(pair[0], "eventlog_settings", "NEW.name = 'left 0'"):
        with pytest.raises(UnknownOutcomeError, match="handing over may not be replicated: no standby"):
            move_partition(0, *pair)
        with closing(open_clusters(pair, busy_timeout=1.0)) as other:
            with pytest.raises(BusyError):
                put(other, name_in(0), 1)
            put(other, name_in(1), 0)  # the others go on
        assert [0 in state(address).serves for address in pair] == [False, False]
    assert put(log, name_in(0), 1).last == 2
    move_partition(0, *pair)
    assert [rows(address, "commits", 0) for address in pair] == [0, 2]
    log.close()


@pytest.mark.promise(1)
def test_an_activation_that_no_standby_may_have(pair: tuple[str, str]) -> None:
    """The source keeps its rows until the activation survives what the server can."""
    log = open_clusters(pair)
    put(log, name_in(0), 0)
    with warns(pair[1], "eventlog_counters", "NEW.partition = 0"):
        for _ in range(2):
            with pytest.raises(UnknownOutcomeError, match="activation may not be replicated: no standby"):
                move_partition(0, *pair)
            assert [rows(address, "commits", 0) for address in pair] == [1, 1]
    move_partition(0, *pair)
    assert [rows(address, "commits", 0) for address in pair] == [0, 1]
    log.close()


@pytest.mark.promise(1)
def test_a_mover_that_comes_late(pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A mover that others have overtaken neither begins nor clears what is theirs by then."""
    third = running().new_schema()
    join(pair[0], third)
    log = open_clusters([*pair, third])
    put(log, name_in(0), 0)
    require_served, begun = move._require_served, list[str]()

    def overtaken(*arguments: Any) -> None:
        require_served(*arguments)
        monkeypatch.setattr(move, "_require_served", require_served)
        move_partition(0, pair[1], pair[0])
        killed((pair[0], third), 0, "_hand_over", "after")
        killed((pair[0], third), 0, "activate", "before")

    monkeypatch.setattr(move, "_require_served", overtaken)
    move_partition(0, *pair)
    assert [rows(address, "commits", 0) for address in (pair[0], third)] == [1, 1]
    assert state(pair[0]).left[0].mark == state(third).arriving[0]
    assert payloads(log, name_in(0)) == [0]  # this process has it served
    move_partition(0, pair[0], third)

    def late(connection: Any) -> None:
        if not begun:
            begun.append("")
            killed((third, pair[1]), 0, "activate", "before")
        hold(connection)

    monkeypatch.setattr(move, "hold", late)
    with pytest.raises(BusyError, match="moved meanwhile"):
        move_partition(0, third, pair[1])
    assert payloads(log, name_in(0)) == [0]
    log.close()
    drop(running(), third)


@pytest.mark.promise(1)
def test_two_that_have_one_schema_join(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two joins of one schema the later one leaves it as the earlier one made it."""
    first, other, shared = (running().new_schema() for _ in range(3))
    create(first, partitions=PARTITIONS)
    create(other, partitions=PARTITIONS)
    make = joining._make

    def overtaken(*arguments: Any) -> None:
        monkeypatch.setattr(joining, "_make", make)
        join(first, shared)
        move_partition(0, first, shared)
        with closing(open_clusters([first, shared])) as log:
            put(log, name_in(0), 0)
        with pytest.raises(AlreadyExistsError):
            make(arguments[0], state(other), 1)
        make(*arguments)

    monkeypatch.setattr(joining, "_make", overtaken)
    join(first, shared)
    with closing(open_clusters([first, shared])) as log:
        assert payloads(log, name_in(0)) == [0]
    for address in (first, other, shared):
        drop(running(), address)
