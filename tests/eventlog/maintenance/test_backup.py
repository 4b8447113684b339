"""Backup while writing, incremental by position, and restore to a position."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import eventlog
from eventlog import events as ev
from eventlog.errors import AlreadyExistsError, BusyError, CallError, CursorError, UnfinishedError
from eventlog.integrity.heads import StoreHead
from eventlog.log.embedded.engine import open_log
from eventlog.store import Store
from projections.verify.verify import verify
from tests.support.faulty_io import FaultyIO
from tests.support.sample_sessions import exchange

LARGE = "a large text, stored once " * 100


def fill(store: eventlog.Store, turns: int = 4) -> eventlog.Session:
    """A session with large texts and request ids, its fork, and another session."""
    session = store.create_session(id="a", title="first", scope="alice")
    for turn in range(turns):
        session.user(f"{LARGE}{turn}", request_id=f"r{turn}")
        with session.assistant("p/m") as reply:
            reply.add_text("answer")
            reply.finish(usage=eventlog.Usage(eventlog.Tokens(10, 5)))
    exchange(store.fork(session, 5, id="f"))
    exchange(store.create_session(id="b"))
    return session


def whole(path: Path, against: StoreHead) -> None:
    """Check head and log of a copy, without a deep verify."""
    with eventlog.open(path, read_only=True) as store:
        assert store.head() == against
        assert not store.log.check()


def sound(path: Path, against: StoreHead) -> None:
    """Check that the store is whole and has the history of this head."""
    with eventlog.open(path, read_only=True) as store:
        assert store.head() == against
        report = verify(store, against=against, deep=True)
        assert report.sound, report


def test_a_backup_has_the_heads_of_the_original(tmp_path: Path) -> None:
    """A backup verifies against the original's head; lists, totals and requests are equal."""
    with eventlog.open(tmp_path / "s") as store:
        session = fill(store)
        copied = store.backup(tmp_path / "b")
        assert (copied.whole, copied.sessions, copied.cursor) == (True, 3, store.cursor())
        sound(tmp_path / "b", store.head())
        with eventlog.open(tmp_path / "b") as copy:
            assert list(copy.sessions()) == list(store.sessions())
            assert copy.log.request("a", "r1") is not None
            before = copy.session("a").version
            copy.session("a").user(f"{LARGE}1", request_id="r1")
            assert copy.session("a").version == before
            with pytest.raises(eventlog.errors.RequestReusedError):
                copy.session("a").user("other", request_id="r1")
        assert session.version == before


def erase_a_parent(store: eventlog.Store) -> None:
    """Erase a session that a fork continues, and one that none does."""
    store.erase("b")
    store.erase("a", forks="keep")


def scrub(store: eventlog.Store) -> None:
    """Remove a redacted part."""
    session = store.session("a")
    part = next(event.event.part for event in session.events() if isinstance(event.event, ev.PartStarted))
    session.redact(part)
    store.scrub()


def name_and_shelve(store: eventlog.Store) -> None:
    """Begin sessions by names, erase one of them, and put values on a shelf."""
    for key in ("chat 17", "chat 18"):
        exchange(store.open_session(("telegram", key)))
    store.erase(store.open_session(("telegram", "chat 18")).id)
    store.shelf("settings").values.put("colour", "blue")


def counted(path: Path, keys: Path | None) -> tuple[int, int]:
    """Return the sessions and events that `verify` counts, those of all streams."""
    with eventlog.open(path, read_only=True, keys=keys) as store:
        report = verify(store)
    assert report.sound, report
    found = [each for each in report.sessions if not each.erased]
    return sum(each.is_session for each in found), sum(each.events for each in found)


@pytest.mark.parametrize("encrypted", [False, True])
@pytest.mark.parametrize("vacuumed", [False, True])
def test_a_result_counts_what_verify_counts(tmp_path: Path, *, encrypted: bool, vacuumed: bool) -> None:
    """No result has what was erased: going on, anew, restored, under own keys."""
    keys = tmp_path / "keys" if encrypted else None
    with eventlog.open(tmp_path / "s", keys=keys) as store:
        fill(store)
        store.erase("f")
        exchange(store.create_session(id="late"))
        first = store.backup(tmp_path / "b")
        assert (first.sessions, first.events) == counted(tmp_path / "b", keys)
        store.erase("late")
        exchange(store.fork(store.session("a"), 5, id="kept"))
        store.erase("a", forks="keep")
        before = store.session("b").version
        exchange(store.session("b"))
        if vacuumed:
            store.vacuum()
        with eventlog.open(tmp_path / "s", keys=keys, read_only=True) as reader:  # it removes nothing before
            second = reader.backup(tmp_path / "b")
            anew = reader.backup(tmp_path / "anew")
            own = None if encrypted else reader.backup(tmp_path / "own", keys=tmp_path / "its keys")
    now = counted(tmp_path / "b", keys)
    assert (second.sessions, second.events + (0 if second.whole else before)) == now
    restored = eventlog.restore(tmp_path / "b", tmp_path / "restored")
    assert (anew.sessions, anew.events) == (restored.sessions, restored.events) == now
    if own is not None:
        assert (own.sessions, own.events) == counted(tmp_path / "own", tmp_path / "its keys")


@pytest.mark.parametrize("work", [erase_a_parent, scrub, name_and_shelve])
def test_every_way_to_copy_a_store_counts_what_verify_counts(
    tmp_path: Path, work: Callable[[eventlog.Store], object]
) -> None:
    """The records that a copy begins anew count, too: encrypting, or restoring to a cursor."""
    with eventlog.open(tmp_path / "s") as store:
        fill(store)
        cursor = store.cursor()
        work(store)
        made = {"b": store.backup(tmp_path / "b"), "e": store.backup(tmp_path / "e", keys=tmp_path / "keys")}
    made["b again"] = eventlog.restore(tmp_path / "b", tmp_path / "b again")
    made["e again"] = eventlog.restore(tmp_path / "e", tmp_path / "e again")
    made["earlier"] = eventlog.restore(tmp_path / "b", tmp_path / "earlier", cursor=cursor)
    for name, copied in made.items():
        keys = tmp_path / "keys" if name.startswith("e") and name != "earlier" else None
        assert (copied.sessions, copied.events) == counted(tmp_path / name, keys)


def test_a_second_backup_adds_what_is_new(tmp_path: Path) -> None:
    """A second backup into the same place copies the new events only."""
    with eventlog.open(tmp_path / "s") as store:
        session = fill(store)
        store.backup(tmp_path / "b")
        before = store.log.last_positions()[0]
        exchange(session)
        store.create_session(id="c")
        second = store.backup(tmp_path / "b")
        assert not second.whole
        assert second.events == store.log.last_positions()[0] - before
        assert store.backup(tmp_path / "b").events == 0
        sound(tmp_path / "b", store.head())


def test_restore_to_a_cursor(tmp_path: Path) -> None:
    """A restore to a cursor has the original's heads of then and can be written to."""
    heads: dict[str, StoreHead] = {}
    with eventlog.open(tmp_path / "s") as store:
        session = fill(store, 2)
        for _ in range(3):
            heads[store.cursor()] = store.head()
            exchange(session)
        store.backup(tmp_path / "b")
    for number, (cursor, head) in enumerate(heads.items()):
        new = tmp_path / f"r{number}"
        assert eventlog.restore(tmp_path / "b", new, cursor=cursor).cursor == cursor
        whole(new, head)
        with eventlog.open(new) as store:
            exchange(store.session("a"))
            assert not store.log.check()
    with pytest.raises(AlreadyExistsError):
        eventlog.restore(tmp_path / "b", tmp_path / "r0")
    with eventlog.open(tmp_path / "s") as store:
        exchange(store.session("a"))
        ahead = store.cursor()
    with pytest.raises(CursorError, match="ahead"):
        eventlog.restore(tmp_path / "b", tmp_path / "r9", cursor=ahead)


def test_an_append_is_restored_whole_or_not_at_all(tmp_path: Path) -> None:
    """A store restored at any position ends before or after each append, and verifies."""
    with eventlog.open(tmp_path / "s") as store:
        exchange(store.create_session(id="a"))
        recorded = list(store.subscribe(timeout=0))
        ends = [commit.last for commit in store.log.commits_after(0)]
        store.backup(tmp_path / "b")
    for number, each in enumerate(recorded, 1):
        new = tmp_path / f"r{number}"
        eventlog.restore(tmp_path / "b", new, cursor=each.cursor)
        with eventlog.open(new, read_only=True) as store:
            whole_ends = [end for end in ends if end <= number]
            assert [commit.last for commit in store.log.commits_after(0)] == whole_ends
        with eventlog.open(new, read_only=True) as store:
            assert not store.log.check()


def test_writers_go_on_during_a_backup(tmp_path: Path) -> None:
    """Each backup taken beside a writing thread is a sound state; the last one is complete."""
    with eventlog.open(tmp_path / "s") as store:
        fill(store, 1)
        done = threading.Event()

        def write() -> None:
            session = store.create_session(id="w")
            for _ in range(15):
                exchange(session)
            done.set()

        writer = threading.Thread(target=write)
        writer.start()
        rounds = 0
        while not done.is_set():
            copied = store.backup(tmp_path / "b")
            rounds += 1
            with eventlog.open(tmp_path / "b", read_only=True) as copy:
                assert copy.cursor() == copied.cursor
                assert verify(copy, against=copy.head()).sound
        writer.join()
        assert rounds
        store.backup(tmp_path / "b")
        sound(tmp_path / "b", store.head())


def test_a_full_disk_ends_a_backup_and_no_more(tmp_path: Path) -> None:
    """A backup on a full disk is `BusyError` and unfinished; with space it goes on."""
    with eventlog.open(tmp_path / "s") as store:
        fill(store, 1)
        head = store.head()
    io = FaultyIO()
    io.refused["pwrite"] = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with Store(open_log(tmp_path / "s", read_only=True, io=io)) as store:
        with pytest.raises(BusyError):
            store.backup(tmp_path / "b")
        with pytest.raises(UnfinishedError):
            eventlog.open(tmp_path / "b", read_only=True)
        io.refused.clear()
        store.backup(tmp_path / "b")
    whole(tmp_path / "b", head)


def test_a_place_that_holds_something_else_is_refused(tmp_path: Path) -> None:
    """A backup goes into an empty place or an earlier backup of the same store only."""
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "letter").write_text("dear")
    with eventlog.open(tmp_path / "other") as other:
        other.create_session(id="x")
        other.backup(tmp_path / "of-other")
    with eventlog.open(tmp_path / "s") as store:
        fill(store, 1)
        for place in ("files", "other", "of-other", "s", "s/inside"):
            with pytest.raises(CallError):
                store.backup(tmp_path / place)
        store.backup(tmp_path / "b")
        with eventlog.open(tmp_path / "b", read_only=True), pytest.raises(BusyError):
            store.backup(tmp_path / "b")
        with eventlog.open(tmp_path / "b") as copy:
            exchange(copy.session("a"))
        with pytest.raises(CallError):
            store.backup(tmp_path / "b")
        assert (tmp_path / "files" / "letter").read_text() == "dear"
