"""Moments at which a rewriting meets a fork, another process, or a change of the store."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path
from typing import Any

import pytest

import eventlog
from eventlog.append.transaction import transact
from eventlog.errors import BusyError, ErasedError, KeyMissingError
from eventlog.log.commit import Commit, Head
from eventlog.log.embedded import generations
from eventlog.log.embedded.bulk_writer import BulkWriter
from eventlog.log.embedded.engine import EmbeddedLog
from eventlog.log.embedded.filesystem import JournalIO
from eventlog.log.embedded.locks import WriterLock
from eventlog.log.embedded.segments.environment import Environment
from eventlog.maintenance.emptied import inherited_versions
from eventlog.maintenance.vacuum import _Rewriter
from eventlog.open_log import open_log
from eventlog.search.catch_up import Follower
from eventlog.search.commit_rows import Update
from eventlog.store import Store
from eventlog.testing.file_search import files_with
from projections.verify.verify import verify
from tests.eventlog.maintenance.test_beside import SECRET, said, seeded
from tests.support.python_process import ROOT
from tests.support.sample_sessions import started
from tests.support.watched_io import WatchedIO


class Sweeping(WatchedIO):
    """Sweeps a store at the moment when its rewriter has gone over to the next generation."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.pending: list[tuple[int, ...]] = []
        """The processes that then read the earlier one."""

    def reach(self, point: str) -> None:
        """Sweep, as the fold thread does."""
        if point == "rewriting: moved":
            self.pending.append(generations.sweep(self._path, JournalIO()))


def engine_of(store: Store) -> EmbeddedLog:
    """The engine of a store in a directory."""
    engine = store.log.engine
    assert isinstance(engine, EmbeddedLog)
    return engine


def in_child(job: str, *arguments: object, seconds: float = 30) -> str:
    """The output of a program in another process, which may take some seconds."""
    command = [sys.executable, "-c", job, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=seconds).stdout


def held_child() -> tuple[int, int]:
    """A child of `os.fork` that lives until the pipe, returned with its number, is closed."""
    here, there = os.pipe()
    child = os.fork()
    if not child:
        os.close(there)
        os.read(here, 1)
        os._exit(0)
    os.close(here)
    return child, there


def end(child: int, pipe: int) -> None:
    """Let a child of `held_child` end."""
    os.close(pipe)
    os.waitpid(child, 0)


def test_values_in_memory_do_not_bring_erased_text_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A derived value that waits in memory while a vacuum copies is not written after it."""
    copy_folded = _Rewriter.copy_folded

    def derive_and_copy(rewriter: _Rewriter, copy: BulkWriter) -> None:
        copy_folded(rewriter, copy)
        engine_of(store).put_derived([(b"of the erased session", SECRET.encode())])

    monkeypatch.setattr(_Rewriter, "copy_folded", derive_and_copy)
    with seeded(tmp_path / "s") as store:
        store.erase("going")
        store.vacuum()
        assert engine_of(store).get_derived(b"of the erased session") is None
    assert not files_with(tmp_path, SECRET)


FORKING = """
import os, sys, threading, time
import eventlog
from eventlog.maintenance.vacuum import _Rewriter
from eventlog.open_log import open_log

def fork():
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    print("forked", flush=True)

thread = threading.Thread(target=fork)
copy_folded = _Rewriter.copy_folded

def fork_and_copy(rewriter, copy):
    thread.start()
    time.sleep(0.3)
    copy_folded(rewriter, copy)

_Rewriter.copy_folded = fork_and_copy
with eventlog.open(sys.argv[1]) as store:
    store.vacuum()
    thread.join()
    store.session("kept").user("on")
"""


def test_a_fork_during_a_rewriting_waits_for_it(tmp_path: Path) -> None:
    """A thread that forks while another rewrites lets it end, and both go on."""
    seeded(tmp_path / "s").close()
    assert in_child(FORKING, tmp_path / "s") == "forked\n"
    with eventlog.open(tmp_path / "s") as store:
        assert said(store, "kept") == ["hello", "on"]


LATE = """
import sys
import eventlog
from eventlog.log.embedded import partition
from eventlog.log.embedded.locks import WriterLock

acquire = WriterLock.acquire

def acquire_late(lock, deadline=0.0):
    WriterLock.acquire = acquire
    print("ready", flush=True)
    sys.stdin.readline()
    acquire(lock, deadline)

partition.LOOK_AFTER = 60
with eventlog.open(sys.argv[1]) as store:
    session = store.session("kept")
    WriterLock.acquire = acquire_late
    session.user("on")
    print("written", flush=True)
"""


def test_a_late_writer_keeps_no_rewriting_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that opens the next generation has no lock that its next rewriting waits for."""
    monkeypatch.setattr("eventlog.log.embedded.rewriting._MOVED", 0.0)
    with seeded(tmp_path / "s") as store:
        late = subprocess.Popen(
            [sys.executable, "-c", LATE, str(tmp_path / "s")],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert late.stdin is not None
        assert late.stdout is not None
        assert late.stdout.readline() == "ready\n"
        store.vacuum()
        lock = WriterLock(tmp_path / "s", 5.0)
        with engine_of(store).partition.tail.segments.environment.holding():
            late.stdin.write("go\n")
            late.stdin.flush()
            time.sleep(1.0)  # it has come as far as it can
            lock.acquire()
            lock.release()
        lock.close()
        assert late.stdout.readline() == "written\n"
        late.communicate()
        assert said(store, "kept") == ["hello", "on"]


@pytest.mark.promise(12)
@pytest.mark.parametrize("reverse", [False, True])
def test_a_reader_of_an_erased_session_comes_to_its_end(tmp_path: Path, *, reverse: bool) -> None:
    """An iterator over a session that is erased and vacuumed meanwhile is no sign of damage."""
    with seeded(tmp_path / "s") as store:
        session = store.session("going")
        for number in range(400):
            session.user(f"more {number} {os.urandom(3000).hex()}")
        engine_of(store).partition.fold()
        commits = store.log.read("going", reverse=reverse)
        begun = next(commits)
        count = session.version
        store.erase("going")
        store.vacuum()
        assert begun.count + sum(commit.count for commit in commits) == count


class _Changing:
    """Heads of a store that is changed after the first of them was read."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._changed = False

    def head(self, session: str) -> Head | None:
        return self._store.log.head(session)

    def heads(self, after: str = "") -> Iterator[Head]:
        while (head := next(iter(self._store.log.heads(after)), None)) is not None:
            after = head.session
            yield head
            if not self._changed:
                self._changed = True
                source = self._store.session("source")
                self._store.fork(source, source.version, id="a fork")
                self._store.erase("source", forks="keep")


@pytest.mark.promise(1)
def test_a_fork_made_while_heads_are_read_keeps_its_events(tmp_path: Path) -> None:
    """Promise 1: the events that a new fork inherits are needed, where its parent is erased."""
    with eventlog.open(tmp_path / "s") as store:
        store.create_session(id="first").user("hello")
        source = store.create_session(id="source")
        source.user("inherited")
        version = source.version
        changing: Any = _Changing(store)
        assert inherited_versions(changing) == {"source": version}


class _Erasing(_Changing):
    """Heads of a store whose fork is erased while they are read."""

    def heads(self, after: str = "") -> Iterator[Head]:
        for head in self._store.log.heads(after):
            yield head
            if head.session == "z" and not self._changed:
                self._changed = True
                self._store.erase("fork", forks="keep")


def test_a_fork_erased_while_heads_are_read_ends_no_rewriting(tmp_path: Path) -> None:
    """A fork that is erased between two looks counts as living once more, and raises nothing."""
    with eventlog.open(tmp_path / "s") as store:
        source = store.create_session(id="source")
        source.user("inherited")
        version = source.version
        store.fork(source, version, id="fork")
        store.create_session(id="z")
        store.erase("source", forks="keep")
        changing: Any = _Erasing(store)
        assert inherited_versions(changing) == {"source": version}


@pytest.mark.promise(12)
@pytest.mark.parametrize("encrypted", [False, True])
def test_a_fork_of_a_session_that_is_erased_while_it_begins_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, encrypted: bool
) -> None:
    """Promise 12: a fork begun behind its parent's erasure is refused: it inherits nothing."""
    with eventlog.open(tmp_path / "s", keys=tmp_path / "keys" if encrypted else None) as store:
        parent = store.create_session(id="parent")
        parent.user(SECRET)

        def erase_and_begin(*given: Any, **more: Any) -> Any:
            monkeypatch.undo()
            store.erase("parent")
            store.vacuum()
            return transact(*given, **more)

        monkeypatch.setattr("eventlog.session.registry.transact", erase_and_begin)
        with pytest.raises(KeyMissingError if encrypted else ErasedError):
            parent.fork(id="fork")
        assert [info.id for info in store.sessions()] == []
        assert not files_with(tmp_path, SECRET)
        assert verify(store).sound


def test_a_session_erased_while_a_scrub_looks_ends_no_scrub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that is erased meanwhile counts as living once more, and the scrub goes on."""
    with seeded(tmp_path / "s") as store:
        store.session("going").values.put("plan", "1")
        store.session("going").redact(started(store.session("going"))[0], search=False)

        heads = store.log.heads
        stale = [list(heads())] * 2  # for what is freed, and for what is redacted
        monkeypatch.setattr(store.log, "heads", lambda after="": iter(stale.pop()) if stale else heads(after))
        store.erase("going")
        assert store.scrub().erased == 1
        assert not files_with(tmp_path, SECRET)


def test_a_search_keeps_its_index_while_the_store_is_rewritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rewriting by another process overwrites no index that a search reads."""
    catch_up = Follower.catch_up

    def rewrite_and_catch_up(follower: Follower, deadline: float | None, *, words: bool) -> None:
        catch_up(follower, deadline, words=words)
        assert in_child(VACUUM, tmp_path / "s") == f"{(os.getpid(),)}\n"
        store.session("kept").user("on")  # this process goes over to the next generation
        assert generations.sweep(tmp_path / "s", engine_of(store).options.io) == (os.getpid(),)

    with seeded(tmp_path / "s") as store:
        monkeypatch.setattr(Follower, "catch_up", rewrite_and_catch_up)
        assert len(store.search("heron", wait=None).hits) == 1
        monkeypatch.undo()
        assert not generations.sweep(tmp_path / "s", engine_of(store).options.io)
        assert len(store.search("heron", wait=None).hits) == 1


ERASING = """
import sys
import eventlog
with eventlog.open(sys.argv[1]) as store:
    store.erase("going")
    store.session("kept").redact(sys.argv[2], search=False)
    print(store.scrub().erased)
"""


def test_large_texts_that_go_while_an_index_takes_them_in_are_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Texts erased or redacted by another process, once their commits are read, are not found."""
    take = Update.take
    printed: list[str] = []

    def erase_and_take(update: Update, commit: Commit, after: int) -> None:
        if not printed:
            printed.append(in_child(ERASING, tmp_path / "s", part))
            store.session("kept").user("on")  # this process goes over to the next generation
        take(update, commit, after)

    with seeded(tmp_path / "s") as store:
        for session in ("going", "kept"):
            store.session(session).user(f"{SECRET} {os.urandom(20_000).hex()}")
        part = started(store.session("kept"))[-1]
        monkeypatch.setattr(Update, "take", erase_and_take)
        assert not store.search("heron", wait=None).hits
        assert printed == ["1\n"]


VACUUM = """
import sys
import eventlog
from eventlog.log.embedded import rewriting

rewriting._MOVED = 0.0
with eventlog.open(sys.argv[1]) as store:
    print(store.vacuum().pending)
"""


def test_a_child_keeps_no_lock_of_its_parent(tmp_path: Path) -> None:
    """The right to rewrite, and an old generation, are free at their end, with a child alive."""
    with seeded(tmp_path / "s"):
        held = generations.hold(tmp_path / "s")
        with generations.rewriting(tmp_path / "s"):
            child, pipe = held_child()
        try:
            fd = os.open(tmp_path / "s", os.O_RDONLY)
            flock(fd, LOCK_EX | LOCK_NB)
            os.close(fd)
            held.close()
        finally:
            end(child, pipe)


def test_a_child_releases_no_lock_of_its_parent(tmp_path: Path) -> None:
    """A child that closes what it inherits leaves the parent's generation locked."""
    seeded(tmp_path / "s").close()
    held = generations.hold(tmp_path / "s")
    child = os.fork()
    if not child:
        held.close()
        os._exit(0)
    os.waitpid(child, 0)
    fd = os.open(tmp_path / "s" / "1", os.O_RDONLY)
    with pytest.raises(BlockingIOError):
        flock(fd, LOCK_EX | LOCK_NB)
    held.close()
    flock(fd, LOCK_EX | LOCK_NB)
    os.close(fd)


def test_without_room_to_overwrite_old_files_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that writes elsewhere, and is full, still loses the earlier generation."""
    fsync = os.fsync

    def full(fd: int) -> None:
        if (
            stat.S_ISREG(os.fstat(fd).st_mode)
            and tmp_path / "s" / "1" in Path(f"/proc/self/fd/{fd}").readlink().parents
        ):
            raise OSError(errno.ENOSPC, "No space left on device")
        fsync(fd)

    with seeded(tmp_path / "s") as store:
        monkeypatch.setattr(os, "fsync", full)
        assert not store.vacuum().pending
        assert list(generations.of(tmp_path / "s")) == [2]


def test_without_a_free_descriptor_a_generation_is_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that may open no more files gets an error of the engine."""

    def refuse(*_: object, **__: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    seeded(tmp_path / "s").close()
    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(BusyError, match="Too many open files"):
        generations.hold(tmp_path / "s")


GROWING = """
import sys
from pathlib import Path
from eventlog.log.embedded.segments.environment import Environment
other = Environment(Path(sys.argv[1]), ("data",), read_only=False, map_bytes=1 << 20)
other.writing(lambda txn: [txn.put(str(n).encode(), bytes(4000), db=other.trees["data"]) for n in range(1000)])
other.close()
"""


def test_a_map_that_another_process_has_grown_can_be_held(tmp_path: Path) -> None:
    """Keeping others from writing adopts the map's new size, as writing does."""
    environment = Environment(tmp_path, ("data",), read_only=False, map_bytes=1 << 20)
    in_child(GROWING, tmp_path)
    with environment.holding(), environment.reading() as txn:
        assert txn.stat(environment.trees["data"])["entries"] == 1000
    environment.close()


@pytest.mark.promise(12)
def test_files_whose_lock_a_rewriter_has_are_not_overwritten(tmp_path: Path) -> None:
    """Promise 12: LMDB's write lock lies in a file, which stays until it is given back."""
    path = tmp_path / "s"
    io = Sweeping(path)
    seeded(path).close()
    with Store(open_log(path, io=io)) as store:
        store.vacuum()
        assert io.pending == [(os.getpid(),)]
        assert verify(store, deep=True).sound
