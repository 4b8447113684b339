"""Stores on a server: erasure, scrub, backup and restore in both directions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import eventlog
from eventlog import events as ev
from eventlog.compression import unpack
from eventlog.errors import (
    AlreadyExistsError,
    BusyError,
    CallError,
    CursorError,
    StorageError,
    TooNewError,
    UnfinishedError,
)
from eventlog.events import SessionErased
from eventlog.log.commit import Append
from eventlog.log.postgres import schema
from eventlog.log.postgres.opening import create, open_log
from eventlog.maintenance import server_copies
from eventlog.store import Store
from projections.verify.verify import verify
from projections.view.model_view import ModelView
from tests.eventlog.maintenance.test_beside import said
from tests.support.postgres_server import give_back, new_place, running
from tests.support.sample_sessions import exchange

SECRET = "the name of the king"
LARGE = "The tide turns twice a day. " * 100_000
"""A text that is stored as a body."""


@pytest.fixture
def place() -> Iterator[str]:
    """Address of an empty log."""
    address = new_place()
    yield address
    give_back(address)


def filled(store: Store) -> None:
    """Put in a session with a fork, bodies and values, a shelf, an erased one and a name."""
    session = store.create_session(id="p", title="Tides", scope="alice")
    exchange(session)
    session.user(LARGE, request_id="large")
    session.values.put("k", "v")
    fork = session.fork(id="f")
    exchange(fork)
    store.shelf("prices").values.put("hotel", "80 EUR")
    store.open_session(("telegram", "chat 17")).user("hello")
    store.create_session(id="gone").user(SECRET)
    store.erase("gone", reason="asked for")


def shown(store: Store) -> dict[str, Any]:
    """Return what a store shows, positions and identity left out."""
    return {
        "head": store.head().text(),
        "sessions": [(info.id, info.title, info.messages, info.name) for info in store.sessions()],
        "page": sorted((info.updated, info.id) for info in store.newest_sessions().sessions),  # some in one millisecond
        "views": {info.id: ModelView.of(store.session(info.id)).messages for info in store.sessions()},
        "value": store.session("f").values.get("k"),
        "request": store.log.request("p", "large") is not None,
    }


def rows_with(address: str, text: bytes) -> int:
    """Count the rows of commits, bodies and heads whose plain bytes have a text."""
    with psycopg.connect(address) as connection:
        cells = connection.execute(
            "SELECT payload FROM eventlog_commits UNION ALL SELECT data FROM eventlog_bodies", binary=True
        ).fetchall()
        entries = connection.execute("SELECT entry FROM eventlog_heads", binary=True).fetchall()
    return sum(text in unpack(cell) for (cell,) in cells) + sum(text in entry for (entry,) in entries)


@pytest.mark.promise(9, 10)
def test_an_erased_session_leaves_its_tombstone(place: str) -> None:
    """Vacuum deletes the rows of an erased session; its head stays and everything verifies."""
    with eventlog.open(place) as store, eventlog.open(place) as other:
        filled(store)
        secret = store.create_session(id="secret")
        secret.user(SECRET)
        before = other.head()
        assert rows_with(place, SECRET.encode()) == 1
        store.erase("secret")
        cursor = other.cursor()
        result = store.vacuum()
        assert result.erased == 2
        assert rows_with(place, SECRET.encode()) == 0
        assert list(other.log.read("gone")) == []
        head = other.log.head("gone")
        assert head is not None
        assert head.gone
        assert verify(other).sound
        assert verify(other, against=before).sound
        other.session("p").user("goes on")
        other.log.last_positions()
        with pytest.raises(CursorError):
            list(other.subscribe(cursor, timeout=0))
        assert store.log.check() == []


@pytest.mark.promise(10)
def test_a_scrub_removes_what_was_redacted(place: str) -> None:
    """A scrub leaves no row with a redacted text or a freed value, and the trees still agree."""
    with eventlog.open(place) as store:
        filled(store)
        session = store.create_session(id="r")
        session.user(SECRET)
        session.values.put("old", SECRET)
        session.values.put("old", "new")
        part = next(item.event.part for item in session.events() if isinstance(item.event, ev.PartStarted))
        kept = store.head()
        session.redact(part, "asked for")
        store.vacuum()
        assert rows_with(place, SECRET.encode()) == 2
        assert store.scrub().emptied == 2
        assert rows_with(place, SECRET.encode()) == 0
        assert SECRET not in repr(ModelView.of(store.session("r")).messages)
        report = verify(store, against=kept)
        assert report.problems == []
        assert not any(found.problems for found in report.sessions)
        store.session("r").user("goes on")
        store.scrub()
        assert verify(store).sound


def test_writers_wait_for_a_rewrite(place: str) -> None:
    """An append that comes in the middle of a rewrite waits for it, and only so long."""
    log, other = open_log(place), open_log(place, busy_timeout=0.3)
    with log.held(), pytest.raises(BusyError):
        other.submit(Append(session="s", payload=b"", count=1, time=1, creates_at=0)).wait()
    assert other.submit(Append(session="s", payload=b"", count=1, time=1, creates_at=0)).wait().first == 1
    log.close()
    other.close()


@pytest.mark.parametrize("encrypted", [False, True])
def test_backup_and_restore_between_engines(tmp_path: Path, *, encrypted: bool) -> None:
    """A backup of a server and its restore to another have equal heads and show the same."""
    address, onto, keys = running().new_schema(), running().new_schema(), tmp_path / "keys" if encrypted else None
    create(onto, partitions=2)
    with eventlog.open(address, keys=keys) as store:
        filled(store)
        store.vacuum()
        before = shown(store)
        done = store.backup(tmp_path / "copy")
        assert (done.whole, done.sessions) == (True, 3)
        store.session("p").user("later")
        later = shown(store)
        store.backup(tmp_path / "second")
    with eventlog.open(tmp_path / "copy", keys=keys) as copy:
        assert shown(copy) == before
        assert verify(copy).sound
    eventlog.restore(tmp_path / "copy", onto)
    with eventlog.open(onto, keys=keys) as restored:
        assert restored.log.partitions == 2
        assert shown(restored) == before
        assert verify(restored).sound
        restored.session("p").user("goes on")
        restored.log.check()
    with pytest.raises(AlreadyExistsError):
        eventlog.restore(tmp_path / "copy", onto)
    eventlog.restore(address, tmp_path / "third")
    with eventlog.open(tmp_path / "third", keys=keys) as third, eventlog.open(tmp_path / "second", keys=keys) as second:
        assert shown(third) == shown(second) == later
    with pytest.raises(CallError):
        eventlog.restore(address, tmp_path / "fourth", cursor="x")


@pytest.mark.parametrize("encrypted", [False, True])
def test_a_result_counts_nothing_that_was_erased(tmp_path: Path, *, encrypted: bool) -> None:
    """A backup right after an erasure, and a restore of it, count what `verify` counts."""
    address, onto, keys = running().new_schema(), running().new_schema(), tmp_path / "keys" if encrypted else None
    with eventlog.open(address, keys=keys) as store:
        filled(store)
        exchange(store.fork(store.session("p"), 5, id="kept"))
        store.erase("p", forks="keep")
        done = [store.backup(tmp_path / "copy")]
    done += [eventlog.restore(tmp_path / "copy", onto), eventlog.restore(address, tmp_path / "back")]
    with eventlog.open(tmp_path / "copy", keys=keys) as copy:
        found = [each for each in verify(copy).sessions if not each.erased]
    counts = sum(each.is_session for each in found), sum(each.events for each in found)
    assert [(each.sessions, each.events) for each in done] == [counts] * 3


def test_a_restore_that_broke_off_does_not_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that is being filled does not open, and the same restore writes it anew."""
    with eventlog.open(tmp_path / "store") as store:
        filled(store)
        before = shown(store)
    onto = running().new_schema()

    def breaking(*_: object, **__: object) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(server_copies, "copy_commits", breaking)
        with pytest.raises(KeyboardInterrupt):
            eventlog.restore(tmp_path / "store", onto)
    with pytest.raises(UnfinishedError):
        eventlog.open(onto)
    eventlog.restore(tmp_path / "store", onto)
    with eventlog.open(onto) as store:
        assert shown(store) == before


def test_a_schema_of_a_later_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables that a newer program made are refused."""
    address = running().new_schema()
    create(address)
    monkeypatch.setattr(schema, "VERSION", 0)
    with pytest.raises(TooNewError, match="version 1, this program knows 0"):
        eventlog.open(address)


def test_a_role_needs_no_more_than_rows(place: str) -> None:
    """A role of rows runs sessions; one that may only read opens read-only."""
    running().ask(
        "DROP ROLE IF EXISTS writer; DROP ROLE IF EXISTS reader; CREATE ROLE writer LOGIN; CREATE ROLE reader LOGIN"
    )
    name = place.rpartition("%3D")[2]
    running().ask(
        f"GRANT USAGE ON SCHEMA {name} TO writer, reader; GRANT SELECT ON ALL TABLES IN SCHEMA {name} TO reader;"
        f" GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {name} TO writer"
    )
    with eventlog.open(place.replace("postgres@", "writer@")) as store:
        filled(store)
        assert store.newest_sessions().sessions
    with eventlog.open(place.replace("postgres@", "reader@"), read_only=True) as store:
        assert [info.id for info in store.newest_sessions("alice").sessions] == ["f", "p"]
        assert ModelView.of(store.session("p")).messages
    with pytest.raises(StorageError, match="refuses"):
        eventlog.open(place.replace("postgres@", "reader@")).create_session()
    running().ask("DROP OWNED BY writer, reader; DROP ROLE writer, reader")


@pytest.mark.parametrize("to_server", [True, False])
def test_a_repair_makes_wrong_catalog_entries_anew(place: str, to_server: bool, tmp_path: Path) -> None:
    """An entry that is not what its events say is found, and right in the repaired store."""
    with eventlog.open(place) as store:
        filled(store)
        session = store.session("p")
        session.rename("The old title")
        with psycopg.connect(place) as connection:
            row = connection.execute("SELECT entry, messages FROM eventlog_heads WHERE session = 'p'::bytea").fetchone()
        session.rename("The new title")
        session.user("one more")
        assert row is not None
        with psycopg.connect(place) as connection:
            connection.execute("UPDATE eventlog_heads SET entry = %s, messages = %s WHERE session = 'p'::bytea", row)
    into = new_place() if to_server else str(tmp_path / "repaired")
    try:
        with eventlog.open(place, read_only=True) as store:
            assert store.info("p").title == "The old title"
            assert not verify(store).sound
            messages = [*ModelView.of(store.session("p")).messages]
        report = eventlog.repair(place, into)
        assert report.losses == ()
        with eventlog.open(into, read_only=True) as store:
            repaired = verify(store, deep=True)
            assert repaired.sound, [*repaired.problems, *(one for each in repaired.sessions for one in each.problems)]
            assert (store.info("p").title, store.info("p").messages) == ("The new title", 4)
            assert [*ModelView.of(store.session("p")).messages] == messages
        with pytest.raises(CallError):
            eventlog.repair(place, into)
    finally:
        if to_server:
            give_back(into)


@pytest.mark.promise(6, 9)
def test_an_erasure_takes_texts_out_of_rows_at_once(place: str) -> None:
    """No row has an erased text, followers are told, and a fork keeps what it inherited."""
    with eventlog.open(place) as store, eventlog.open(place) as other:
        kept = store.create_session(id="kept")
        kept.user("hello")
        for name in ("alone", "continued"):
            store.create_session(id=name).user(SECRET)
        version = store.session("continued").version
        store.session("continued").fork(id="fork")
        store.session("continued").user(f"{SECRET} 2")
        before, cursor = other.head(), other.cursor()
        store.erase("alone")
        store.erase("continued", forks="keep")
        assert rows_with(place, SECRET.encode()) == 1
        assert other.session("fork").version == version + 1
        assert said(other, "fork") == [SECRET]
        erased = [each.session for each in other.subscribe(cursor, timeout=0) if isinstance(each.event, SessionErased)]
        assert erased == ["alone", "continued"]
        report = verify(other, against=before, deep=True)
        assert report.sound, report
        assert store.log.check() == []
        assert store.vacuum().erased == 1
        report = verify(other, against=before, deep=True)
        assert report.sound, report
        assert said(other, "fork") == [SECRET]


@pytest.mark.promise(1, 6)
def test_an_erasure_keeps_the_append_that_a_fork_has_a_part_of(place: str) -> None:
    """Promise 1: a fork from inside an append, and a shelf, verify when all behind them goes."""
    with eventlog.open(place) as store:
        session = store.create_session(id="split")
        session.user("first")
        session.user("second")
        store.fork(session, session.version - 1, id="half")
        read = [each.event for each in store.session("half").events()]
        store.shelf("todo").values.put("a", "1")
        store.erase("split", forks="keep")
        store.drop_shelf("todo")
        assert [each.event for each in store.session("half").events()] == read
        report = verify(store, deep=True)
        assert report.sound, report
