"""The index file may be deleted, damaged, left by a kill, and shared by processes."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import eventlog
from eventlog.errors import LimitError, NotFoundError
from eventlog.search import catch_up, search
from eventlog.store import Store
from tests.faults.tally import SLOW, tally
from tests.support.engines import ENCRYPTED, ENGINES, Engine
from tests.support.sample_sessions import run_together

WORKER = [sys.executable, "-m", "tests.support.search_worker"]


def every_hit(store: Store, words: str, **filters: Any) -> list[tuple[str, int]]:
    """Return session and version of each hit, read page by page."""
    hits: list[tuple[str, int]] = []
    cursor = None
    while True:
        page = store.search(words, cursor=cursor, limit=64, wait=None, **filters)
        assert not page.behind
        hits += [(hit.session, hit.version) for hit in page.hits]
        cursor = page.next
        if cursor is None:
            return hits


def said(store: Store) -> list[tuple[str, int]]:
    """Return session and version of each part of a user in the log."""
    return [
        (recorded.session, recorded.version)
        for recorded in store.subscribe(timeout=0, kinds=[eventlog.events.PartStarted])
    ]


def files(path: Path) -> list[Path]:
    """Return the index files of a store."""
    return sorted((path / "1" / "derived").glob("search-*.sqlite"))


def filled(path: Path, count: int = 40) -> None:
    """Make a store with messages, and its index."""
    with eventlog.open(path) as store:
        session = store.create_session()
        for number in range(count):
            session.user(f"common word{number}")
        assert len(every_hit(store, "common")) == count


@pytest.mark.parametrize(
    "what", ["file", "directory", "damage", "header", "rubbish", "empty", "other store", "old tables"]
)
@pytest.mark.parametrize("opened", [True, False])
def test_a_lost_or_damaged_index_is_made_again(tmp_path: Path, what: str, *, opened: bool) -> None:
    """An index that is gone, damaged or of another store is made anew, also while in use."""
    path = tmp_path / "store"
    filled(path)
    before = eventlog.open(path) if opened else None
    if before is not None:
        assert len(every_hit(before, "common")) == 40
    (file,) = files(path)
    if what == "file":
        file.unlink()
    elif what == "directory":
        shutil.rmtree(path / "1" / "derived")
    elif what in {"damage", "header"}:
        with sqlite3.connect(file) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()
        data = bytearray(file.read_bytes())
        start = 0 if what == "header" else 8192
        data[start : start + 8192 * 3] = os.urandom(8192 * 3)
        file.write_bytes(data)
    elif what in {"rubbish", "empty"}:
        file.unlink()
        file.write_bytes(b"no database " * 1000 if what == "rubbish" else b"")
    elif what == "other store":
        with sqlite3.connect(file) as connection:
            connection.execute("UPDATE facts SET value = x'00' WHERE name = 'store'")
        connection.close()
    else:
        with sqlite3.connect(file) as connection:
            connection.execute("PRAGMA user_version = 0")
        connection.close()
    if before is not None:
        before.session(next(before.sessions()).id).user("common at last")
        assert len(every_hit(before, "common")) == 41
        before.close()
    with eventlog.open(path) as store:
        assert sorted(every_hit(store, "common")) == sorted(said(store))
    assert len(files(path)) == 1


def test_a_restored_copy_has_no_hits_of_what_it_lost(tmp_path: Path) -> None:
    """The index of a store whose other files were put back to an earlier state is made anew."""
    path = tmp_path / "store"
    filled(path, 3)
    shutil.copytree(path, tmp_path / "copy", ignore=shutil.ignore_patterns("derived"))
    with eventlog.open(path) as store:
        store.session(next(store.sessions()).id).user("common later")
        assert len(every_hit(store, "common")) == 4
    shutil.copytree(path / "1" / "derived", tmp_path / "copy" / "1" / "derived")
    with eventlog.open(tmp_path / "copy") as store:
        store.create_session().user("other")
        assert len(every_hit(store, "common")) == 3
        assert len(every_hit(store, "other")) == 1


def test_a_read_only_store_has_the_index_too(tmp_path: Path) -> None:
    """A store that is opened for reading is searched, and what others commit is found in it."""
    path = tmp_path / "store"
    filled(path, 5)
    with eventlog.open(path, read_only=True) as reader:
        assert len(every_hit(reader, "common")) == 5
        subprocess.run([*WORKER, str(path), "more", "1"], check=True, stdout=subprocess.DEVNULL)
        assert len(every_hit(reader, "common")) == 6
    assert len(files(path)) == 1


def test_without_a_directory_to_write_to_the_index_is_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no file may be made, a store is searched in memory, up to a bound."""
    path = tmp_path / "store"
    filled(path, 5)
    shutil.rmtree(path / "1" / "derived")
    (path / "1" / "derived").write_text("in the way")
    with eventlog.open(path, read_only=True) as store:
        assert len(every_hit(store, "common")) == 5
    monkeypatch.setattr(search, "MAX_MEMORY", 20)
    with eventlog.open(path, read_only=True) as store:
        for _ in range(2):
            with pytest.raises(LimitError, match=r"`session` or a `scope`.*a backup in a directory"):
                store.search("common")


@pytest.mark.parametrize("name", [*ENGINES, ENCRYPTED])
def test_a_scope_of_a_store_that_is_too_large_is_searched(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without an index file a small tenant, and one session, are found beside a large tenant."""
    monkeypatch.setattr(search, "MAX_MEMORY", 400)
    place = Engine(name, tmp_path)
    store = place.open()
    for number in range(3):
        store.create_session(id=f"small{number}", scope="small").user(f"a quiet axolotl {number}")
        store.create_session(id=f"large{number}", scope="large").user("axolotl " * 40)
    store.session("small2").fork(id="heir").user("the heir of an axolotl")
    store.erase("small2", forks="keep")
    if store.log.derived_directory is None:
        for scope in (None, "large"):
            with pytest.raises(LimitError, match="backup in a directory"):
                store.search("axolotl", scope=scope, wait=None)
    for _ in range(2):
        found = every_hit(store, "axolotl", scope="small")
        assert sorted(session for session, _ in found) == ["heir", "heir", "small0", "small1"]
        assert len(every_hit(store, "axolotl", session="large1")) == 1
        assert len(every_hit(store, "axolotl", session="heir", scope="small")) == 2
        assert not every_hit(store, "axolotl", session="heir", scope="large")
        assert not every_hit(store, "axolotl", scope="unknown")
    with pytest.raises(NotFoundError):
        store.search("axolotl", session="unknown")
    place.close()


def test_a_scope_of_a_store_that_is_too_large_is_read_for_as_long_as_a_search_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A search that may not wait counts the events of the scope that it has not read."""
    monkeypatch.setattr(search, "MAX_MEMORY", 100)
    with eventlog.open("memory:") as store:
        session = store.create_session(scope="small")
        session.user("axolotl")
        store.create_session(scope="large").user("word " * 40)
        with pytest.raises(LimitError):
            store.search("axolotl", wait=None)
        page = store.search("axolotl", scope="small", wait=0)
        assert (len(page.hits), page.behind) == (0, session.version)
        assert store.search("axolotl", scope="small").behind == 0


def test_a_wait_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that may not wait says how many events its index lacks, and finds what it has."""
    path = tmp_path / "store"
    with eventlog.open(path) as store:
        session = store.create_session()
        for number in range(50):
            session.user(f"common {number}")
        monkeypatch.setattr(catch_up, "_COMMITS", 10)
        monkeypatch.setattr(catch_up, "_SECONDS", 0.0)
        page = store.search("common", wait=0, limit=100)
        assert page.behind > 0
        assert len(page.hits) < 50
        assert len(every_hit(store, "common")) == 50


def test_threads_search_at_once(tmp_path: Path) -> None:
    """Threads that write and search find what they wrote."""
    with eventlog.open(tmp_path / "store") as store:

        def work(name: int) -> None:
            session = store.create_session()
            for number in range(25):
                session.user(f"common t{name}n{number}")
                assert len(store.search(f"t{name}n{number}", wait=None).hits) == 1

        run_together(4, work)
        assert sorted(every_hit(store, "common")) == sorted(said(store))


def test_processes_search_and_update_at_once(tmp_path: Path) -> None:
    """Processes that write and search at once take in each commit once, and find it at once."""
    path = tmp_path / "store"
    workers = [subprocess.Popen([*WORKER, str(path), f"p{name}", "40"], stdout=subprocess.PIPE) for name in range(3)]
    for worker in workers:
        worker.communicate(timeout=120)
        assert worker.returncode == 0
    with eventlog.open(path) as store:
        assert sorted(every_hit(store, "共同")) == sorted(said(store))
    assert len(files(path)) == 1


def test_a_kill_at_any_time_leaves_an_index_that_goes_on(tmp_path: Path) -> None:
    """After `kill -9` of a process that searches, the next finds just what was committed."""
    path = tmp_path / "store"
    chance = random.Random(21)
    kills = 60 if SLOW else 5
    for kill in range(kills):
        worker = subprocess.Popen([*WORKER, str(path), f"k{kill}", "100000"], stdout=subprocess.PIPE)
        assert worker.stdout is not None
        worker.stdout.readline()
        with pytest.raises(subprocess.TimeoutExpired):
            worker.wait(chance.random() * 0.2)
        worker.kill()
        worker.communicate()
        with eventlog.open(path) as store:
            assert sorted(every_hit(store, "common")) == sorted(said(store))
    (file,) = files(path)
    with sqlite3.connect(file) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()
    tally("a process is killed while it searches", kills)
