"""The contract of `eventlog/log/contract.py`, sentence by sentence, for every engine."""

from __future__ import annotations

import asyncio
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from sys import maxsize
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs

from eventlog import open_log as open_log_module
from eventlog.errors import (
    AlreadyExistsError,
    CallError,
    ClosedError,
    ConflictError,
    FencedError,
    LimitError,
    NotFoundError,
    RequestReusedError,
    UnknownOutcomeError,
)
from eventlog.log.commit import Append, Commit, Committed, Head, LeaseState
from eventlog.log.contract import GROWING
from eventlog.log.embedded.engine import EmbeddedLog, open_log
from eventlog.log.memory import MemoryLog
from eventlog.log.postgres.engine import PostgresLog
from tests.support.decisions import MARKED, at_decision
from tests.support.postgres_server import give_back, new_place, running
from tests.support.sample_sessions import run_together

if TYPE_CHECKING:
    from eventlog.log.commit import Ticket
    from eventlog.log.contract import Log

HASH = bytes(range(32))


INTEGERS = ("count", "time", "messages", "epoch", "creates_at", "expected")


def engines() -> list[str]:
    """Every engine: memory, embedded, embedded folded before each read, encrypted over each."""
    return [
        "memory", "partitioned", "embedded", "folded", "postgres", "encrypted memory", "encrypted embedded",
        "encrypted postgres",
    ]  # fmt: skip


@pytest.fixture(params=engines())
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    """One empty log per engine."""
    if request.param == "memory":
        made: Log = MemoryLog()
    elif request.param == "partitioned":
        made = MemoryLog(partitions=4)
    elif request.param == "embedded":
        made = open_log(tmp_path / "store")
    elif request.param == "postgres":
        made = open_log_module.open_log(new_place())
    elif request.param == "encrypted postgres":
        made = open_log_module.open_log(running().new_schema(), keys=tmp_path / "keys", partitions=4)
    elif request.param == "encrypted memory":
        made = open_log_module.open_log("memory:", keys=tmp_path / "keys")
    elif request.param == "encrypted embedded":
        made = open_log_module.open_log(tmp_path / "store", keys=True)
    else:
        made = FoldingLog(tmp_path / "store")
    yield made
    made.close()
    if isinstance(made, PostgresLog):
        give_back(made.address)


class FoldingLog(EmbeddedLog):
    """A log that folds before every read, so that no read uses the memtable."""

    def _fresh(self) -> Any:
        partition = super()._fresh()
        partition.fold()
        return partition


def put(log: Log, session: str = "s", payload: bytes = b"p", **more: Any) -> Committed:
    """Append and wait."""
    given: dict[str, Any] = {"session": session, "payload": payload, "count": 1, "time": 1000, **more}
    return log.submit(Append(**given)).wait()


def begin(log: Log, session: str = "s", **more: Any) -> Committed:
    """Begin a session."""
    given: dict[str, Any] = {"creates_at": 0, **more}
    return put(log, session, **given)


def written(log: Log) -> int:
    """Events of the whole log."""
    return sum(log.last_positions())


def at(log: Log, position: int, session: str = "s") -> list[int]:
    """Positions of which that of the session's partition is this one; no other has an event."""
    return [position if number == log.partition_of(session) else 0 for number in range(log.partitions)]


def versions(commits: Iterator[Commit] | Sequence[Commit]) -> list[tuple[int, int]]:
    """First and last versions."""
    return [(commit.first, commit.last) for commit in commits]


@pytest.mark.promise(2)
def test_versions_and_positions_are_contiguous(log: Log) -> None:
    """A session's versions count from 1 without gaps; positions grow in a partition."""
    sizes = [("a", 2), ("b", 3), ("a", 1), ("c", 4), ("d", 1), ("b", 2), ("e", 1), ("a", 5)]
    wanted: list[list[int]] = [[] for _ in range(log.partitions)]
    last, version = [0] * log.partitions, dict.fromkeys("abcde", 0)
    for session, count in sizes:
        partition = log.partition_of(session)
        wanted[partition].append(last[partition] + 1)
        done = put(log, session, count=count, creates_at=None if version[session] else 0)
        assert done == Committed(session, version[session] + 1, version[session] + count, last[partition] + 1)
        last[partition] += count
        version[session] += count
        assert log.last_positions() == tuple(last)
    for partition in range(log.partitions):
        commits = log.commits_after(0, partition=partition)
        assert [commit.position for commit in commits] == wanted[partition]
        assert {log.partition_of(commit.session) for commit in commits} <= {partition}


def test_a_session_stays_in_its_partition(log: Log) -> None:
    """The partition of an id is the same for every log with as many partitions."""
    names = [f"session {number}" for number in range(200)]
    found = [log.partition_of(name) for name in names]
    assert set(found) == set(range(log.partitions))
    if log.partitions == 4:
        assert found == [MemoryLog(partitions=4).partition_of(name) for name in names]
        assert found[:8] == [1, 3, 1, 3, 0, 2, 0, 2]


def test_a_commit_comes_back_as_it_was_given(log: Log) -> None:
    """Payload, count, time, epoch and request id of an append are read back unchanged."""
    begin(log, payload=b"\x00\xffbytes", count=7, time=123, request="r")
    (commit,) = log.read("s")
    assert commit == Commit("s", 1, 7, 1, 0, 123, b"\x00\xffbytes", "r", commit.salt, commit.leaf, commit.stored)
    assert log.commits_after(0, partition=log.partition_of("s")) == [commit]


def test_an_empty_payload_and_a_large_one(log: Log) -> None:
    """A payload may be empty, or larger than a journal file or a chunk."""
    large = bytes(range(256)) * 4096
    begin(log, payload=b"")
    put(log, payload=large)
    assert [c.payload for c in log.read("s")] == [b"", large]


def test_a_session_has_to_be_begun(log: Log) -> None:
    """Appending to a missing session is `NotFoundError`, starting twice `AlreadyExistsError`."""
    with pytest.raises(NotFoundError):
        put(log)
    begin(log)
    with pytest.raises(AlreadyExistsError):
        begin(log)
    assert versions(log.read("s")) == [(1, 1)]


def test_a_fork_begins_after_its_parent(log: Log) -> None:
    """`creates_at` gives the version before the first one, and becomes the head's base."""
    assert begin(log, "fork", creates_at=41, count=2).first == 42
    head = log.head("fork")
    assert head is not None
    assert (head.base, head.version) == (41, 43)
    assert versions(log.read("fork")) == [(42, 43)]
    assert versions(log.read("fork", 0, 41)) == []


def test_a_quiet_append_has_the_time_of_the_one_before_it(log: Log) -> None:
    """A quiet append is no activity: neither its commit nor the head gets its time."""
    begin(log, time=1000, quiet=True)
    put(log, time=2000)
    put(log, time=3000, quiet=True)
    put(log, time=2500, quiet=True)
    assert [commit.time for commit in log.read("s")] == [1000, 2000, 2000, 2000]
    head = log.head("s")
    assert head is not None
    assert (head.created, head.updated, head.version) == (1000, 2000, 4)
    with pytest.raises(CallError):
        put(log, quiet=1)
    assert log.check() == []


def without_tree(head: Head | None) -> Head | None:
    """A head without its tree of hashes."""
    return None if head is None else structs.replace(head, appends=0, peaks=b"")


def test_the_head_is_the_sum_of_the_appends(log: Log) -> None:
    """The head holds version, newest position, first and last time, messages and entry."""
    begin(log, time=10, messages=1, entry=b"one")
    put(log, count=4, time=20, messages=2)
    assert without_tree(log.head("s")) == Head("s", 5, 5, 0, 10, 20, 3, b"one")
    put(log, time=30, entry=b"two")
    assert without_tree(log.head("s")) == Head("s", 6, 6, 0, 10, 30, 3, b"two")
    assert log.head("other") is None


def test_heads_are_listed_by_id(log: Log) -> None:
    """All heads come by session id, from the first one greater than `after`."""
    names = ["b", "a", "ä", "c\U0001f600", "c", "aa"]
    for name in names:
        begin(log, name)
    assert [head.session for head in log.heads()] == sorted(names)
    assert [head.session for head in log.heads("aa")] == [name for name in sorted(names) if name > "aa"]
    assert [head.session for head in log.heads("bb")] == [name for name in sorted(names) if name > "bb"]


def test_expected_version(log: Log) -> None:
    """A wrong expected version is `ConflictError` with both versions; nothing is written."""
    begin(log)
    assert put(log, expected=1).first == 2
    with pytest.raises(ConflictError) as caught:
        put(log, expected=1)
    assert (caught.value.session, caught.value.expected, caught.value.actual) == ("s", 1, 2)
    assert versions(log.read("s")) == [(1, 1), (2, 2)]


def test_a_known_request_gives_the_first_result(log: Log) -> None:
    """A repeated request id returns the first result, marked as repeated; nothing is written."""
    first = begin(log, request="r", digest=b"d")
    put(log)
    again = begin(log, request="r", digest=b"d")
    assert again == Committed("s", 1, 1, first.position, repeated=True)
    assert log.request("s", "r") == again
    assert log.request("s", "other") is None
    assert log.request("other", "r") is None
    assert written(log) == 2


def test_the_order_of_the_checks(log: Log) -> None:
    """Comparisons come in order: request id, existence, epoch, expected version."""
    begin(log, request="r", digest=b"d")
    log.set_lease("s", LeaseState(epoch=2, owner=b"o", until=5), replaces=LeaseState())
    assert begin(log, request="r", digest=b"d", epoch=1, expected=9).repeated
    with pytest.raises(RequestReusedError):
        put(log, "s", request="r", digest=b"x", epoch=1, expected=9)
    with pytest.raises(AlreadyExistsError):
        begin(log, epoch=1, expected=9)
    with pytest.raises(FencedError):
        put(log, epoch=1, expected=9)
    with pytest.raises(ConflictError):
        put(log, epoch=2, expected=9)
    put(log, epoch=2, expected=1)


@pytest.mark.promise(4)
def test_a_refused_append_is_refused_alone(log: Log) -> None:
    """A conflict rejects its own append; the batch's other requests go in."""
    begin(log)
    tickets = [
        log.submit(Append(session="s", payload=b"p", count=1, time=1, expected=9 if number == 1 else None))
        for number in range(3)
    ]
    assert [tickets[0].wait(30).first, tickets[2].wait(30).first] == [2, 3]
    with pytest.raises(ConflictError):
        tickets[1].wait(30)


@pytest.mark.promise(4)
def test_an_expected_version_may_be_that_of_the_same_batch(log: Log) -> None:
    """An append sees the requests of its own batch that went in before it."""
    begin(log)
    tickets = [
        log.submit(Append(session="s", payload=b"p", count=2, time=1, expected=1 + 2 * number)) for number in range(5)
    ]
    assert [ticket.wait(30).first for ticket in tickets] == [2, 4, 6, 8, 10]


@pytest.mark.promise(4)
@pytest.mark.parametrize("together", [True, False])
def test_an_append_behind_a_refused_one_is_refused(log: Log, together: bool) -> None:
    """None of a row goes in behind a refused one, also where its version is reached."""
    begin(log, request="r")
    put(log, count=2)
    refused = log.submit(Append(session="s", payload=b"", count=2, time=1, expected=1))
    repeated = log.submit(Append(session="s", payload=b"", count=1, time=1, request="r"))
    if not together:
        log.sync()
    rest = [log.submit(Append(session="s", payload=b"", count=1, time=1, expected=3, behind=refused))]
    rest.append(log.submit(Append(session="s", payload=b"", count=1, time=1, expected=3, behind=rest[0])))
    rest.append(log.submit(Append(session="s", payload=b"", count=1, time=1, behind=repeated)))
    for ticket in rest:
        with pytest.raises(ConflictError):
            ticket.wait(30)
    first = log.submit(Append(session="s", payload=b"", count=1, time=1, expected=3))
    if not together:
        log.sync()
    assert put(log, expected=4, behind=first).first == 5
    assert put(log, behind=first).first == 6


def test_a_request_repeated_in_one_batch_is_written_once(log: Log) -> None:
    """Two submissions of one request at the same moment give one commit and the same result."""
    begin(log)
    append = Append(session="s", payload=b"p", count=1, time=1, request="r", digest=b"d")
    first, second = [ticket.wait(30) for ticket in [log.submit(append), log.submit(append)]]
    assert (first.first, second.first, first.repeated, second.repeated) == (2, 2, False, True)


def test_one_threads_requests_keep_their_order(log: Log) -> None:
    """Requests submitted by one thread are committed in the order of submission."""
    begin(log)
    for number in range(300):
        log.submit(Append(session="s", payload=b"%d" % number, count=1, time=1))
    log.sync()
    assert [int(c.payload) for c in log.read("s", 1)] == list(range(300))


@pytest.mark.promise(4)
def test_exactly_one_of_many_threads_wins_a_version(log: Log) -> None:
    """Of any number of writers with the same expected version exactly one wins."""
    begin(log)
    outcomes: list[str] = []

    def write(number: int) -> None:
        for expected in range(1, 11):
            try:
                put(log, payload=b"%d" % number, expected=expected)
                outcomes.append(f"won {expected}")
            except ConflictError as error:
                assert error.actual > expected  # noqa: PT017 - a conflict is one of the two right outcomes
            while (head := log.head("s")) and head.version <= expected:
                time.sleep(0.001)

    run_together(6, write)
    assert sorted(outcomes) == sorted(f"won {expected}" for expected in range(1, 11))
    assert versions(log.read("s")) == [(number, number) for number in range(1, 12)]


@pytest.mark.parametrize("reverse", [False, True])
def test_reading_a_range(log: Log, *, reverse: bool) -> None:
    """`read` returns the whole commits with versions `after + 1 .. upto`, in either direction."""
    begin(log, count=3)
    for count in (1, 2, 5, 1):
        put(log, count=count)
    whole = versions(log.read("s"))
    assert whole == [(1, 3), (4, 4), (5, 6), (7, 11), (12, 12)]
    for after in range(14):
        for upto in (None, *range(14)):
            top = 99 if upto is None else upto
            wanted = [(first, last) for first, last in whole if last > after and first <= top and after < top]
            assert versions(log.read("s", after, upto, reverse=reverse)) == (wanted[::-1] if reverse else wanted)


def test_reading_a_little_of_much_takes_little(tmp_path: Path) -> None:
    """Promise 8: a short range at the start of a long session copies nothing behind it."""
    for log in (MemoryLog(), open_log(tmp_path / "store")):
        begin(log)
        for _ in range(20_000):
            log.submit(Append(session="s", payload=b"", count=1, time=1))
        log.sync()
        tracemalloc.start()
        assert versions(log.read("s", 1, 3)) == [(2, 2), (3, 3)]
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 20_000
        log.close()


def test_reading_is_a_snapshot(log: Log) -> None:
    """An iterator shows the session as of the call, however long it is held open."""
    begin(log)
    put(log)
    forward, backward = log.read("s"), log.read("s", reverse=True)
    put(log)
    assert versions(forward) == [(1, 1), (2, 2)]
    assert versions(backward) == [(2, 2), (1, 1)]


def test_following_by_position(log: Log) -> None:
    """Following yields at most `limit` commits beyond position `after`, in position order."""
    partition = log.partition_of("0")
    one, other = [name for name in map(str, range(50)) if log.partition_of(name) == partition][:2]
    begin(log, one, count=2)
    begin(log, other, count=3)
    put(log, one, count=2)
    put(log, other)
    whole = [(1, 2), (3, 5), (6, 7), (8, 8)]

    def spans(after: int, limit: int = 1000) -> list[tuple[int, int]]:
        commits = log.commits_after(after, limit, partition=partition)
        return [(c.position, c.position + c.count - 1) for c in commits]

    for after in range(-2, 10):
        wanted = [span for span in whole if span[1] > after]
        assert spans(after) == wanted
        assert spans(after, 2) == wanted[:2]
    assert spans(0, 0) == []


def test_following_long_histories_in_pages(log: Log) -> None:
    """Paging by position yields every commit once, also across folds."""
    begin(log, "a")
    begin(log, "b")
    for number in range(1, 400):
        log.submit(Append(session="ab"[number % 2], payload=b"x" * 300, count=1 + number % 3, time=1))
        if number == 200:
            log.sync()
            log.head("a")
    log.sync()
    total = 0
    for partition in range(log.partitions):
        position = 0
        seen: list[Commit] = []
        while page := log.commits_after(position, 37, partition=partition):
            seen += page
            position = page[-1].position + page[-1].count - 1
        total += len(seen)
        assert [c.position for c in seen][1:] == [c.position + c.count for c in seen][:-1]
        assert position == log.last_positions()[partition]
    assert total == 401


def test_waiting_for_a_commit(log: Log) -> None:
    """Waiting returns True when an event beyond the position exists, False at the timeout."""
    begin(log)
    assert log.wait_after(at(log, 0), 0)
    assert not log.wait_after(at(log, 1), 0.02)
    assert not log.wait_after(at(log, maxsize), 0)
    timer = threading.Timer(0.05, lambda: put(log))
    timer.start()
    assert log.wait_after(at(log, 1), 30)
    assert written(log) == 2
    timer.join()


def test_bodies(log: Log) -> None:
    """A body is stored once by its hash, from any append, and found by it."""
    begin(log, bodies=[(HASH, b"packed")])
    put(log, bodies=[(HASH, b"other bytes, same hash"), (HASH[::-1], b"")])
    assert log.body(HASH) == b"packed"
    assert log.body(HASH[::-1]) == b""
    assert log.body(bytes(32)) is None
    own = log.of("s")
    assert own.body(HASH) == b"packed"
    assert own.body(bytes(32)) is None
    assert own.bodies_of([HASH, bytes(32), HASH[::-1]]) == [b"packed", None, b""]
    edition, places = own.places_of([HASH, bytes(32)])
    assert places[1] is None
    assert places[0] is None or own.bodies_at(edition, [places[0]]) == [b"packed"]
    assert own.bodies_at(b"of another store", [(1, 0, 0, 1)]) is None
    assert sorted(log.bodies()) == sorted([own.name(HASH), own.name(HASH[::-1])])


@pytest.mark.promise(3)
def test_a_rejected_append_leaves_nothing(log: Log) -> None:
    """A rejected append stores nothing: no body, no request id, no catalog entry."""
    begin(log, entry=b"old")
    with pytest.raises(ConflictError):
        put(log, expected=7, bodies=[(HASH, b"packed")], entry=b"new", request="r")
    head = log.head("s")
    assert head is not None
    assert (head.entry, head.version) == (b"old", 1)
    assert log.body(HASH) is None
    assert log.request("s", "r") is None


def test_leases_are_compared_and_set(log: Log) -> None:
    """A lease is written only if it still equals what it replaces."""
    begin(log)
    mine, yours = LeaseState(1, b"me", 100), LeaseState(1, b"you", 100)
    assert log.set_lease("s", mine, replaces=LeaseState())
    assert not log.set_lease("s", yours, replaces=LeaseState())
    head = log.head("s")
    assert head is not None
    assert head.lease == mine
    assert log.set_lease("s", LeaseState(1, b"", 0), replaces=mine)
    with pytest.raises(NotFoundError):
        log.set_lease("nobody", mine, replaces=LeaseState())


@pytest.mark.promise(4)
def test_an_old_epoch_is_fenced(log: Log) -> None:
    """A writer whose epoch is over is refused; a command without an epoch is not."""
    begin(log)
    log.set_lease("s", LeaseState(1, b"me", 100), replaces=LeaseState())
    put(log, epoch=1)
    log.set_lease("s", LeaseState(2, b"you", 100), replaces=LeaseState(1, b"me", 100))
    with pytest.raises(FencedError) as caught:
        put(log, epoch=1)
    assert (caught.value.epoch, caught.value.current) == (1, 2)
    put(log)
    put(log, epoch=2)
    head = log.head("s")
    assert head is not None
    assert (head.version, head.lease.epoch) == (4, 2)


def lease_with(**given: Any) -> LeaseState:
    """A lease record with fields of any type."""
    fields: dict[str, Any] = {"epoch": 1, "owner": b"me", "until": 1, **given}
    return LeaseState(**fields)


def lease_of(log: Log, session: str = "s") -> LeaseState:
    """The session's lease record."""
    head = log.head(session)
    assert head is not None
    return head.lease


@pytest.mark.promise(4)
def test_an_append_takes_keeps_and_gives_back_a_lease(log: Log) -> None:
    """An append's lease record is in the head with the append and fences the old holder."""
    first, kept, back = LeaseState(1, b"me", 100), LeaseState(1, b"me", 200), LeaseState(1, b"me", 0)
    begin(log)
    put(log, epoch=1, lease=first, replaces=LeaseState())
    assert lease_of(log) == first
    put(log, epoch=1)
    assert lease_of(log) == first
    put(log, epoch=1, lease=kept)
    put(log, epoch=1, lease=back)
    assert lease_of(log) == back
    second = LeaseState(2, b"you", 300)
    put(log, epoch=2, lease=second, replaces=back)
    with pytest.raises(FencedError) as caught:
        put(log, epoch=1, lease=kept)
    assert (caught.value.epoch, caught.value.current) == (1, 2)
    assert lease_of(log) == second
    assert versions(log.read("s")) == [(version, version) for version in range(1, 7)]
    assert log.check() == []


@pytest.mark.promise(4)
def test_a_lease_is_taken_only_from_what_it_replaces(log: Log) -> None:
    """An append whose lease was replaced meanwhile is fenced and writes nothing."""
    begin(log)
    put(log, epoch=1, lease=LeaseState(1, b"me", 100), replaces=LeaseState())
    mine = LeaseState(1, b"me", 200)
    assert log.set_lease("s", mine, replaces=LeaseState(1, b"me", 100))
    for epoch, replaces in ((1, LeaseState()), (2, LeaseState(1, b"me", 100)), (2, LeaseState(1, b"you", 200))):
        with pytest.raises(FencedError) as caught:
            put(log, epoch=epoch, lease=LeaseState(epoch, b"you", 300), replaces=replaces)
        assert caught.value.current == 1
    assert lease_of(log) == mine
    assert written(log) == 2


def test_a_session_begins_under_a_lease(log: Log) -> None:
    """The append that begins a session may take its lease."""
    begin(log, epoch=1, lease=LeaseState(1, b"me", 100), replaces=LeaseState())
    assert lease_of(log) == LeaseState(1, b"me", 100)
    with pytest.raises(FencedError):
        begin(log, "t", epoch=2, lease=LeaseState(2, b"me", 100), replaces=LeaseState(1))
    assert log.head("t") is None


def test_one_of_many_takes_the_lease_with_its_append(log: Log) -> None:
    """Of appends that are queued together, and take the same lease, one goes in."""
    begin(log)
    tickets = [
        log.submit(
            Append(
                session="s", payload=b"", count=1, time=1, epoch=1, lease=LeaseState(1, name, 1), replaces=LeaseState()
            )
        )
        for name in (b"a", b"b", b"c")
    ]
    assert tickets[0].wait(30).last == 2
    for ticket in tickets[1:]:
        with pytest.raises(FencedError):
            ticket.wait(30)
    assert lease_of(log).owner == b"a"


def test_a_known_request_or_a_refused_append_writes_no_lease(log: Log) -> None:
    """A repeated request and a refused append write no lease: lease and append are atomic."""
    begin(log, request="r", digest=b"d")
    taken: dict[str, Any] = {"epoch": 1, "lease": LeaseState(1, b"me", 100), "replaces": LeaseState()}
    assert put(log, request="r", digest=b"d", **taken).repeated
    with pytest.raises(ConflictError):
        put(log, expected=7, **taken)
    assert lease_of(log) == LeaseState()


@pytest.mark.parametrize(
    "wrong",
    [
        {"lease": (1, b"me", 1)},
        {"lease": None},
        {"replaces": (0, b"", 0)},
        {"epoch": 0},
        {"epoch": 2},
        {"lease": LeaseState(2, b"me", 1)},
        {"replaces": LeaseState(1, b"me", 1)},
        {"epoch": 0, "lease": LeaseState(0, b"me", 1), "replaces": None},
        {"lease": lease_with(owner="me")},
        {"lease": lease_with(until=2**70)},
        {"replaces": lease_with(epoch=0, owner=None)},
    ],
)
def test_a_wrong_lease_of_an_append_is_refused_at_once(log: Log, wrong: dict[str, Any]) -> None:
    """Types and epochs of an append's leases are checked before it is queued."""
    begin(log)
    given: dict[str, Any] = {"epoch": 1, "lease": LeaseState(1, b"me", 1), "replaces": LeaseState(), **wrong}
    append = Append(session="s", payload=b"", count=1, time=1, **given)
    with pytest.raises(CallError):
        log.submit(append)
    assert written(log) == 1
    assert lease_of(log) == LeaseState()


def test_derived_values(log: Log) -> None:
    """Derived values are put, replaced, deleted and scanned by prefix in key order."""
    log.put_derived([(b"a1", b"x"), (b"b", b"y"), (b"a2", b"")])
    assert log.get_derived(b"a1") == b"x"
    assert log.get_derived(b"none") is None
    assert log.scan_derived(b"a") == [(b"a1", b"x"), (b"a2", b"")]
    log.put_derived([(b"a1", None), (b"a2", b"z"), (b"a0", b"w"), (b"none", None)])
    assert log.get_derived(b"a1") is None
    assert log.scan_derived(b"") == [(b"a0", b"w"), (b"a2", b"z"), (b"b", b"y")]
    assert log.derived_keys(b"a") == [b"a0", b"a2"]
    assert log.derived_keys(b"") == [b"a0", b"a2", b"b"]


def test_a_derived_value_that_grows_is_not_replaced_by_an_older_one(log: Log) -> None:
    """Of two values under a growing key the one with the greater stamp stays, in any order."""
    key, other = GROWING + b"k", b"k"
    old, new = bytes(7) + b"\1older", bytes(7) + b"\2"
    log.put_derived([(key, new), (other, new)])
    log.put_derived([(key, old), (other, old)])
    assert (log.get_derived(key), log.get_derived(other)) == (new, old)
    log.put_derived([(key, new + b"same stamp")])
    assert log.get_derived(key) == new + b"same stamp"
    log.put_derived([(key, None)])
    log.put_derived([(key, old)])
    assert log.get_derived(key) == old
    assert log.scan_derived(GROWING) == [(key, old)]


@pytest.mark.parametrize("key", [b"", bytes(201)])
def test_derived_keys_are_limited(log: Log, key: bytes) -> None:
    """A derived key has 1 to 200 bytes."""
    with pytest.raises(CallError):
        log.put_derived([(key, b"v")])
    log.put_derived([(bytes(200), b"v")])
    assert log.get_derived(bytes(200)) == b"v"


def test_ids_of_every_length(log: Log) -> None:
    """Session and request ids may be any text of 1 to 256 bytes."""
    for name in ("x", "x" * 256, "é" * 128, "a\x00b", "\x00"):
        begin(log, name, request=name)
        assert log.request(name, name) == Committed(
            name, 1, 1, log.last_positions()[log.partition_of(name)], repeated=True
        )
        assert [c.session for c in log.read(name)] == [name]
    for append in (
        Append(session="x" * 257, payload=b"", count=1, time=1, creates_at=0),
        Append(session="é" * 129, payload=b"", count=1, time=1, creates_at=0),
        Append(session="x", payload=b"", count=1, time=1, request="r" * 257),
    ):
        with pytest.raises(LimitError):
            log.submit(append)


@pytest.mark.parametrize(
    "wrong",
    [
        {"session": ""},
        {"session": "\ud800"},
        {"request": ""},
        {"count": 0},
        {"messages": -(2**32)},
        {"epoch": -1},
        {"creates_at": -1},
        {"bodies": [(b"short", b"")]},
        *({name: value} for name in INTEGERS for value in (1.5, True, "1", 2**70, -(2**70))),
        {"time": 2**62 + 1},
        {"time": -(2**62) - 1},
        {"count": None},
        {"time": None},
        {"session": None},
        {"session": b"s"},
        {"request": 5},
        {"payload": "text"},
        {"payload": bytearray(b"changing")},
        {"digest": "text"},
        {"entry": "text"},
        {"behind": "text"},
        {"bodies": iter([(HASH, b"")])},
        {"bodies": [HASH]},
        {"bodies": [5]},
        {"bodies": [("x" * 32, b"")]},
        {"bodies": [(HASH, "text")]},
    ],
)
def test_wrong_calls_are_refused_at_once(log: Log, wrong: dict[str, Any]) -> None:
    """An invalid call raises `CallError` from `submit` before anything is queued."""
    given: dict[str, Any] = {"session": "s", "payload": b"", "count": 1, "time": 1, "creates_at": 0, **wrong}
    append = Append(**given)
    with pytest.raises(CallError):
        log.submit(append)
    assert written(log) == 0


@pytest.mark.parametrize(
    ("session", "wrong"),
    [
        ("", {}),
        ("x" * 257, {}),
        ("\ud800", {}),
        *(("s", {name: value}) for name in ("epoch", "until") for value in (1.5, True, None, 2**70, -(2**70))),
        ("s", {"epoch": -1}),
        ("s", {"owner": "text"}),
        ("s", {"owner": None}),
    ],
)
def test_wrong_leases_are_refused_at_once(log: Log, session: str, wrong: dict[str, Any]) -> None:
    """A lease that could not be read back raises `CallError`, and the stored one stays."""
    begin(log)
    given: dict[str, Any] = {"epoch": 1, "owner": b"o", "until": 1, **wrong}
    with pytest.raises(CallError):
        log.set_lease(session, LeaseState(**given), replaces=LeaseState())
    head = log.head("s")
    assert head is not None
    assert head.lease == LeaseState()


def test_the_largest_numbers_are_kept(log: Log) -> None:
    """The largest and smallest accepted numbers are stored exactly."""
    top, base = 2**63 - 1, 2**62
    begin(log, creates_at=base, count=2**32 - 1, messages=2**32 - 1, time=-base)
    put(log, time=base, expected=base + 2**32 - 1)
    put(log, time=-base)
    assert log.set_lease("s", LeaseState(top, b"o", top), replaces=LeaseState())
    head = without_tree(log.head("s"))
    expected = Head("s", base + 2**32 + 1, 2**32 + 1, base, -base, -base, 2**32 - 1, b"", LeaseState(top, b"o", top))
    assert head == expected
    assert [c.time for c in log.read("s")] == [-base, base, -base]
    log.close()  # close folds


@pytest.mark.parametrize("name", ["", "\ud800", "x" * 257, "x" * 600, "é" * 200])
def test_impossible_ids_are_not_there(log: Log, name: str) -> None:
    """An impossible id is found nowhere, and looking it up disturbs nothing."""
    begin(log, "w", request="r")
    begin(log, "\U0001f600")
    assert log.head(name) is None
    assert list(log.read(name)) == []
    assert list(log.read(name, 0, 5, reverse=True)) == []
    assert log.request(name, "r") is None
    assert log.request("w", name) is None
    assert [head.session for head in log.heads(name)] == [s for s in ("w", "\U0001f600") if s > name]
    assert log.body(name.encode(errors="surrogatepass")) is None
    assert log.get_derived(name.encode(errors="surrogatepass")) is None
    assert log.scan_derived(b"k" + name.encode(errors="surrogatepass")) == []
    assert put(log, "w").first == 2


def test_a_ticket_knows_when_it_is_done(log: Log) -> None:
    """Several threads may wait for one ticket repeatedly; it says when its outcome is known."""
    ticket = log.submit(Append(session="s", payload=b"", count=1, time=1, creates_at=0))
    results: list[Committed] = []
    run_together(5, lambda _: results.append(ticket.wait(30)))
    assert ticket.done()
    assert results == [Committed("s", 1, 1, 1)] * 5


def test_waiting_with_a_timeout(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wait that times out raises `UnknownOutcomeError`; the append goes on."""
    release = threading.Event()
    begin(log)
    started = threading.Event()

    def slow() -> None:
        started.set()
        release.wait(30)

    if isinstance(log.engine, MemoryLog):
        started.set()
    at_decision(monkeypatch, slow)
    slowly = log.submit(Append(session="s", payload=b"", count=1, time=MARKED))
    waiter = threading.Thread(target=slowly.wait)
    waiter.start()
    started.wait(30)
    ticket = log.submit(Append(session="s", payload=b"", count=1, time=1, request="r"))
    if not isinstance(log.engine, MemoryLog):
        with pytest.raises(UnknownOutcomeError) as caught:
            ticket.wait(0.01)
        assert (caught.value.session, caught.value.request) == ("s", "r")
    release.set()
    assert ticket.wait(30).first == 3
    waiter.join(30)


def test_tickets_in_asyncio(log: Log) -> None:
    """A ticket can be awaited by many tasks at once and raises the append's error in each."""

    async def work(name: str) -> list[int]:
        committed = await submit(log, Append(session=name, payload=b"", count=1, time=1, creates_at=0))
        versions_seen = [committed.last]
        for _ in range(20):
            committed = await submit(log, Append(session=name, payload=b"", count=1, time=1))
            versions_seen.append(committed.last)
        with pytest.raises(ConflictError):
            await submit(log, Append(session=name, payload=b"", count=1, time=1, expected=1))
        return versions_seen

    async def main() -> list[list[int]]:
        return await asyncio.gather(*(work(f"s{number}") for number in range(64)))

    assert asyncio.run(main()) == [list(range(1, 22))] * 64


async def submit(log: Log, append: Append) -> Committed:
    """Submit and await."""
    ticket: Ticket = log.submit(append)
    return await ticket


def test_a_cancelled_await_leaves_the_append_alone(log: Log) -> None:
    """A cancelled await neither undoes the append nor disturbs the log."""

    async def main() -> None:
        append = Append(session="s", payload=b"", count=1, time=1, creates_at=0, request="r", digest=b"d")
        task = asyncio.ensure_future(submit(log, append))
        await asyncio.sleep(0)
        if not task.done():
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert (await submit(log, append)).first == 1

    asyncio.run(main())
    assert versions(log.read("s")) == [(1, 1)]


def test_threads_waiting_for_durability(log: Log) -> None:
    """64 threads that wait for each of their appends get all outcomes in their own order."""
    wrong: list[object] = []

    def work(name: str) -> None:
        begin(log, name)
        for number in range(2, 12):
            committed = put(log, name)
            if committed.last != number:
                wrong.append(committed)

    run_together(64, lambda number: work(f"s{number}"))
    assert not wrong
    assert written(log) == 64 * 11
    assert log.check() == []


def test_sync_waits_for_everything(log: Log) -> None:
    """After `sync` everything submitted before has its outcome, refusals too."""
    tickets = [
        log.submit(Append(session="s", payload=b"x", count=1, time=1, creates_at=0 if number == 0 else None))
        for number in range(50)
    ]
    tickets.append(log.submit(Append(session="s", payload=b"x", count=1, time=1, creates_at=0)))
    log.sync()
    assert all(ticket.done() for ticket in tickets)
    assert written(log) == 50


USES: list[Callable[[Log], object]] = [
    lambda log: log.submit(Append(session="s", payload=b"", count=1, time=1)),
    lambda log: list(log.read("s")),
    lambda log: log.head("s"),
    lambda log: list(log.heads()),
    lambda log: log.commits_after(0),
    lambda log: log.last_positions(),
    lambda log: log.wait_after([0], 1),
    lambda log: log.request("s", "r"),
    lambda log: log.body(HASH),
    lambda log: list(log.bodies()),
    lambda log: log.set_lease("s", LeaseState(), replaces=LeaseState()),
    lambda log: log.get_derived(b"k"),
    lambda log: log.put_derived([(b"k", b"v")]),
    lambda log: log.bodies_of([HASH]),
    lambda log: log.derived_keys(b""),
    lambda log: log.scan_derived(b""),
    lambda log: log.sync(),
    lambda log: log.check(),
]


def test_a_closed_log_says_so(log: Log) -> None:
    """After `close`, also twice, every use is `ClosedError`; queued appends are committed."""
    ticket = log.submit(Append(session="s", payload=b"", count=1, time=1, creates_at=0))
    before = log.stopped
    log.close()
    log.close()
    assert (before, log.stopped) == (False, True)
    assert ticket.wait(30).first == 1
    for use in USES:
        with pytest.raises(ClosedError):
            use(log)


def test_everything_is_there_after_opening_again(tmp_path: Path) -> None:
    """Commits, heads, leases, requests, bodies and derived values survive reopening."""
    path = tmp_path / "store"
    log = open_log(path)
    for name in ("a", "b"):
        begin(
            log, name, count=2, request="r1", digest=b"d", bodies=[(HASH, b"packed")], entry=name.encode(), messages=1
        )
        for number in range(40):
            put(log, name, payload=b"%d" % number * 50, time=2000 + number)
    log.set_lease("a", LeaseState(3, b"me", 77), replaces=LeaseState())
    put(log, "b", epoch=1, lease=LeaseState(1, b"me", 88), replaces=LeaseState())
    log.put_derived([(b"k", b"v")])
    before = state(log)
    log.close()
    for read_only in (False, True, False):
        log = open_log(path, read_only=read_only)
        assert state(log) == before
        assert log.check() == []
        if not read_only:
            assert begin(log, "a", request="r1", digest=b"d").repeated
            with pytest.raises(ConflictError):
                put(log, "a", expected=3)
        log.close()


def state(log: Log) -> dict[str, object]:
    """Everything that can be read from a log."""
    heads = list(log.heads())
    return {
        "heads": heads,
        "commits": {head.session: list(log.read(head.session)) for head in heads},
        "order": log.commits_after(0, 10**6),
        "last": log.last_positions(),
        "requests": {head.session: log.request(head.session, "r1") for head in heads},
        "bodies": {digest: log.body(digest) for digest in log.bodies()},
        "derived": log.scan_derived(b""),
    }
