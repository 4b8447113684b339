"""Handles that were open while the server lost commits, or another log took the place."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import psycopg
import pytest

import eventlog
from eventlog.errors import AlreadyExistsError, BusyError, CallError, FencedError, PoisonedError
from eventlog.log.append_checks import commit_of
from eventlog.log.commit import Append, Commit, Committed, Head, LeaseState
from eventlog.log.merkle import TAG_BYTES, new_leaf
from eventlog.log.postgres.engine import PostgresLog
from eventlog.log.postgres.opening import filling, open_log
from tests.support.postgres_server import give_back, new_place, running
from tests.support.sample_sessions import begin

TABLES = ("heads", "commits", "counters")


@pytest.fixture
def log(place: str) -> Iterator[PostgresLog]:
    """A handle that stays open meanwhile, on a session `s` of one commit."""
    made = open_log(place)
    put(made, creates_at=0)
    yield made
    made.close()


def put(log: PostgresLog, session: str = "s", **more: Any) -> Committed:
    """Append and wait."""
    given: dict[str, Any] = {"session": session, "payload": b"p", "count": 1, "time": 1, **more}
    return log.submit(Append(**given)).wait()


class Past:
    """The rows of a log at one time, as a standby has them that got nothing since."""

    def __init__(self, place: str) -> None:
        self._place = place
        with psycopg.connect(place) as other:
            for table in TABLES:
                other.execute(f"CREATE TABLE past_{table} (LIKE eventlog_{table})".encode())
                other.execute(f"INSERT INTO past_{table} TABLE eventlog_{table}".encode())

    def promote(self) -> None:
        """Have the log be as it was then."""
        with psycopg.connect(self._place) as other:
            for table in TABLES:
                other.execute(f"TRUNCATE eventlog_{table}".encode())
                other.execute(f"INSERT INTO eventlog_{table} TABLE past_{table}".encode())
                other.execute(f"DROP TABLE past_{table}".encode())


@pytest.mark.promise(2, 4)
@pytest.mark.parametrize("others", [0, 1, 2, 3])
@pytest.mark.parametrize("expecting", [True, False])
def test_lost_commits_are_not_written_behind(place: str, log: PostgresLog, others: int, expecting: bool) -> None:
    """Promises 2, 4: a handle that saw commits which were lost writes nothing behind others."""
    past = Past(place)
    put(log, payload=b"lost 1")
    version = put(log, payload=b"lost 2").last
    past.promote()
    other = open_log(place)
    for number in range(others):
        put(other, payload=b"other %d" % number)
    with pytest.raises(PoisonedError, match="open it again"):
        put(log, expected=version if expecting else None)
    assert log.stopped
    for read in (lambda: log.head("s"), lambda: put(log, "new", creates_at=0), lambda: list(log.read("s"))):
        with pytest.raises(PoisonedError):
            read()
    assert [commit.payload for commit in other.read("s")] == [b"p", *(b"other %d" % number for number in range(others))]
    again = open_log(place)
    put(again, payload=b"again", expected=1 + others)
    assert again.check() == []
    other.close()
    again.close()


@pytest.mark.parametrize("read", [PostgresLog.head, put])
def test_a_session_that_was_lost_as_a_whole_is_noticed(
    place: str, log: PostgresLog, read: Callable[[PostgresLog, str], object]
) -> None:
    """A session that was begun here and is unknown to the server now is no new session."""
    past = Past(place)
    put(log, "t", creates_at=0)
    past.promote()
    with pytest.raises(PoisonedError):
        read(log, "t")


def test_who_only_read_what_was_lost_is_told(place: str, log: PostgresLog) -> None:
    """A handle that has read commits which the server lost does not read on behind others."""
    past, reader = Past(place), open_log(place)
    put(log)
    assert reader.head("s") is not None
    past.promote()
    other = open_log(place)
    put(other, payload=b"another")
    with pytest.raises(PoisonedError):
        reader.head("s")
    reader.close()
    other.close()


def test_a_lease_that_was_lost_is_not_written_over_the_next(place: str, log: PostgresLog) -> None:
    """A lost lease is over: who took the next one keeps it, and the former holder is fenced."""
    past = Past(place)
    assert log.set_lease("s", LeaseState(1, b"lost", 10), replaces=LeaseState())
    past.promote()
    other = open_log(place)
    assert other.set_lease("s", LeaseState(1, b"other", 10), replaces=LeaseState())
    assert not log.set_lease("s", LeaseState(2, b"lost", 20), replaces=LeaseState(1, b"lost", 10))
    assert other.set_lease("s", LeaseState(2, b"other", 10), replaces=LeaseState(1, b"other", 10))
    with pytest.raises(FencedError):
        put(log, epoch=1)
    other.close()


def test_what_others_do_meanwhile_is_no_loss(place: str) -> None:
    """Commits, erasures, vacuums and scrubs of other handles leave a handle as it is."""
    with eventlog.open(place) as one, eventlog.open(place) as two:
        sessions = [one.create_session(id=name) for name in ("a", "b", "c")]
        fork = sessions[0].fork()
        seen = [two.session(session.id) for session in (*sessions, fork)]
        for session in sessions:
            session.user("said by one")
        part = next(iter(sessions[1].reader.state().parts))
        for session in seen:
            session.user("said by two")
        sessions[1].redact(part)
        one.erase("a", forks="keep")
        one.vacuum()
        one.scrub()
        assert [info.id for info in two.sessions() if info.id in {"b", "c"}] == ["b", "c"]
        for session in (*seen[1:], *sessions[1:]):
            session.user("and on")
        assert not two.log.stopped
        assert two.log.check() == []


def directory_of(path: Path) -> Path:
    """A store directory with one session, for restores."""
    with eventlog.open(path) as store:
        store.create_session(id="kept").user("Why two a day?")
    return path


@pytest.mark.parametrize("known", [True, False])
def test_a_restore_ends_handles_that_are_open(place: str, tmp_path: Path, known: bool) -> None:
    """After a restore a handle from before it writes nothing, and its subscriptions say so."""
    log = open_log(place)
    if known:
        assert log.head("kept") is None
    eventlog.restore(directory_of(tmp_path / "store"), place)
    with pytest.raises(PoisonedError, match="restored"):
        put(log, "mine", creates_at=0) if known else log.last_positions()
    with pytest.raises(PoisonedError):
        log.submit(Append(session="kept", payload=b"x", count=1, time=1))
    log.close()
    with eventlog.open(place) as store:
        assert [info.id for info in store.sessions()] == ["kept"]
        store.session("kept").user("again")
        assert store.log.check() == []


def _waiters(count: int) -> None:
    deadline = time.monotonic() + 20
    while len(running().ask("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'")) < count:
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("first", ["append", "restore"])
def test_an_append_and_a_restore_at_once(place: str, tmp_path: Path, first: str) -> None:
    """Of an append to an empty log and a restore into it, exactly one goes in."""
    log, source = open_log(place), directory_of(tmp_path / "store")
    works: list[tuple[str, Callable[[], object]]] = [
        ("append", lambda: put(log, "mine", creates_at=0)),
        ("restore", lambda: eventlog.restore(source, place)),
    ]
    works.sort(key=lambda work: work[0] != first)
    with psycopg.connect(place) as other:
        other.execute("SELECT 1 FROM eventlog_counters FOR UPDATE")
        ends: dict[str, Future[object]] = {}
        for number, (name, work) in enumerate(works, start=1):
            ends[name] = begin(work)
            _waiters(number)
    errors = {name: type(error) for name, end in ends.items() if (error := end.exception(60))}
    assert errors in ({"restore": AlreadyExistsError}, {"append": PoisonedError})
    log.close()
    again = open_log(place)
    assert ["mine" in {head.session for head in again.heads()}] == ["restore" in errors]
    assert [again.head("kept") is None] == ["restore" in errors]
    assert again.check() == []
    again.close()


def test_two_restores_into_one_place(place: str) -> None:
    """Of two copies into one log the later one goes on, and the earlier one is told."""
    append = Append(session="s", payload=b"p", count=1, time=1, creates_at=0)
    commit, head = commit_of(None, append, 1, b"0" * 16)
    given: tuple[list[Commit], dict[str, Head]] = ([commit], {"s": head})
    assert commit.leaf == new_leaf(append, 1, b"0" * 16)[:TAG_BYTES]
    early, late = filling(place, ""), filling(place, "")
    first = early.__enter__()
    first.add(*given, {}, {}, position=1)
    second = late.__enter__()
    with pytest.raises(BusyError, match="another process restores"):
        first.add(*given, {}, {}, position=1)
    with pytest.raises(BusyError, match="another process restores"):
        early.__exit__(None, None, None)
    second.add(*given, {}, {}, position=1)
    late.__exit__(None, None, None)
    log = open_log(place)
    assert [one.payload for one in log.read("s")] == [b"p"]
    assert log.check() == []
    log.close()


def test_backups_go_on_after_an_erasure(place: str, tmp_path: Path) -> None:
    """The backup after an erasure replaces the one before it; that of another log does not."""
    with eventlog.open(place) as store:
        gone, kept = store.create_session(), store.create_session()
        gone.user("A secret")
        kept.user("No secret")
        store.backup(tmp_path / "backup")
        store.erase(gone.id)
        store.vacuum()
        assert store.backup(tmp_path / "backup").sessions == 1
    with eventlog.open(tmp_path / "backup", read_only=True) as copy:
        assert [info.id for info in copy.sessions()] == [kept.id]
    other = new_place()
    with eventlog.open(other) as store, pytest.raises(CallError, match="of another store"):
        store.backup(tmp_path / "backup")
    give_back(other)
