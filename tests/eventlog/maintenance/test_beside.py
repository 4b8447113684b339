"""Erasing, scrubbing and vacuuming beside programs that read and write the same store."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import eventlog
from eventlog.errors import BusyError, StorageError, UnfinishedError
from eventlog.log.embedded import generations
from eventlog.log.embedded.bulk_writer import BulkWriter
from eventlog.log.embedded.filesystem import JournalIO
from eventlog.maintenance.backup import restore
from eventlog.maintenance.repair import repair
from eventlog.maintenance.vacuum import _Rewriter
from eventlog.store import Store
from eventlog.testing.file_search import files_with
from projections import ModelView
from projections.verify.verify import verify
from projections.view.neutral import Text
from tests.support.python_process import ROOT, Program

SECRET = "the heron nests at dusk"
WORKER = "tests/support/rewriting_worker.py"


def said(store: Store, session: str) -> list[str]:
    """The texts of a session."""
    messages = ModelView.of(store.session(session)).messages
    return [part.text for message in messages for part in message.parts if isinstance(part, Text)]


def seeded(path: Path) -> Store:
    """A store with a session to erase and one to keep."""
    store = eventlog.open(path)
    store.create_session(id="going").user(SECRET)
    store.create_session(id="kept").user("hello")
    return store


@pytest.mark.promise(1)
@pytest.mark.parametrize("kind", ["scrub", "vacuum"])
def test_a_rewriting_goes_on_beside_a_writer_and_an_idle_program(tmp_path: Path, kind: str) -> None:
    """Nothing is lost, an idle program goes over by itself, and no file has the erased text."""
    with seeded(tmp_path / "s") as store:
        idle = Program(WORKER, "idle", tmp_path / "s")
        assert idle.hear() == "ready"
        writer = Program(WORKER, "write", tmp_path / "s", "w", 60)
        assert writer.hear() == "ready"
        head = store.head()
        store.erase("going")
        for _ in range(3):
            result = getattr(store, kind)()
            assert not result.pending
        writer.end()
        assert said(store, "w") == [f"w {number}" for number in range(60)]
        assert store.head().by_session["kept"] == head.by_session["kept"]
        assert not files_with(tmp_path, SECRET)
        idle.tell("go")
        assert idle.hear() == "61 kept"
        idle.end()
        assert verify(store, deep=True).sound
    assert len(generations.of(tmp_path / "s")) == 1


@pytest.mark.promise(12)
def test_a_stopped_reader_delays_the_removal_and_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old files stay for a stopped process; writers go on, and its death frees them."""
    monkeypatch.setattr("eventlog.log.embedded.rewriting._MOVED", 0.0)
    with seeded(tmp_path / "s") as store:
        idle = subprocess.Popen(
            [sys.executable, WORKER, "idle", str(tmp_path / "s")],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert idle.stdout is not None
        assert idle.stdout.readline() == b"ready\n"
        idle.send_signal(signal.SIGSTOP)
        store.erase("going")
        assert store.scrub().pending == (idle.pid,)
        store.session("kept").user("on")
        assert said(store, "kept") == ["hello", "on"]
        idle.kill()
        idle.communicate()
        assert not store.scrub().pending
        assert not files_with(tmp_path, SECRET)


@pytest.mark.promise(12)
def test_an_iterator_that_is_held_reads_on_through_a_rewriting(tmp_path: Path) -> None:
    """Events, heads and subscriptions begun before a vacuum come to their end after it."""
    with seeded(tmp_path / "s") as store:
        session = store.session("kept")
        for number in range(400):
            session.user(f"more {number}")
        events, heads, following = session.events(), store.log.heads(), store.subscribe(timeout=0)
        begun = [next(events), next(heads), next(following)]
        store.erase("going")
        store.vacuum()
        session.user("behind")
        assert begun
        assert len(list(events)) >= 800
        assert [head.session for head in heads][-1:] == ["kept"]
        assert sum(recorded.session == "kept" for recorded in following) >= 800


def test_one_rewrites_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second rewriting waits for the first, and for a backup, and says so in time."""
    monkeypatch.setattr(generations, "_PATIENCE", 0.0)
    with seeded(tmp_path / "s") as store:
        with generations.rewriting(tmp_path / "s", shared=True), pytest.raises(BusyError, match="copied"):
            store.vacuum()
        store.vacuum()
        with generations.rewriting(tmp_path / "s"), pytest.raises(BusyError, match="rewritten"):
            store.backup(tmp_path / "b")
        assert store.backup(tmp_path / "b").events


@pytest.mark.parametrize("is_rewritten", [True, False], ids=["rewritten", "to be rewritten"])
def test_a_backup_loses_erased_bytes_at_its_next_run(tmp_path: Path, *, is_rewritten: bool) -> None:
    """A backup after an erasure has no erased text, at no cursor, and goes on from there."""
    with seeded(tmp_path / "s") as store:
        before = store.backup(tmp_path / "b").cursor
        store.erase("going")
        if is_rewritten:
            store.vacuum()
        assert files_with(tmp_path / "b", SECRET)
        assert store.backup(tmp_path / "b").whole
        assert not files_with(tmp_path / "b", SECRET)
        restore(tmp_path / "b", tmp_path / "then", cursor=before)
        assert not files_with(tmp_path / "then", SECRET)
        store.vacuum()
        assert not files_with(tmp_path, SECRET)
        store.backup(tmp_path / "b")
        store.session("kept").user("on")
        assert not store.backup(tmp_path / "b").whole


@pytest.mark.promise(12)
def test_a_broken_off_backup_may_be_the_last_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken-off backup says how to save it, and a repair of it has what was copied."""

    def break_off(_: JournalIO, point: str) -> None:
        if point == "copy: added":
            raise OSError("interrupted")

    with seeded(tmp_path / "s") as store:
        store.backup(tmp_path / "b")
        store.session("kept").user("on")
        monkeypatch.setattr(JournalIO, "reach", break_off)
        with pytest.raises(StorageError):
            store.backup(tmp_path / "b")
        monkeypatch.undo()
    with pytest.raises(UnfinishedError, match="repair this one into a new store"):
        eventlog.open(tmp_path / "b")
    assert not repair(tmp_path / "b", tmp_path / "saved").losses
    with eventlog.open(tmp_path / "saved") as store:
        assert said(store, "kept") == ["hello", "on"]


@pytest.mark.promise(1, 12)
@pytest.mark.parametrize("step", ["made", "switching", "committed", "moved"])
def test_a_rewriting_that_dies_while_others_write_loses_nothing(tmp_path: Path, step: str) -> None:
    """Promise 1: killed at any step of the switch, writers go on and all is there."""
    with seeded(tmp_path / "s") as store:
        for _ in range(2):
            killed = subprocess.run([sys.executable, WORKER, "die", str(tmp_path / "s"), step], cwd=ROOT, check=False)
            assert killed.returncode == -signal.SIGKILL
            store.session("kept").user("on")
        assert said(store, "kept") == ["hello", "on", "on"]
        store.scrub()
    with eventlog.open(tmp_path / "s") as store:
        assert said(store, "kept") == ["hello", "on", "on"]
        assert verify(store, deep=True).sound


def test_no_directory_of_an_earlier_generation_is_left(tmp_path: Path) -> None:
    """The last program to close a store leaves one generation."""
    with seeded(tmp_path / "s") as store:
        for _ in range(3):
            store.vacuum()
    assert os.listdir(tmp_path / "s").count("4") == len(generations.of(tmp_path / "s")) == 1  # noqa: PTH208


@pytest.mark.promise(1)
def test_a_rewriting_of_a_rewritten_store_keeps_positions_and_tombstones(tmp_path: Path) -> None:
    """Promise 1: with its last session erased, a second vacuum keeps position and heads."""
    with eventlog.open(tmp_path / "s") as store:
        store.create_session(id="kept").user("hello")
        store.create_session(id="going").user(SECRET)
        store.erase("going")
        head, position = store.head(), store.log.last_positions()
        for _ in range(3):
            store.vacuum()
            assert store.head() == head
            assert store.log.last_positions() == position


@pytest.mark.promise(1)
def test_sessions_made_while_heads_are_copied_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise 1: a session that begins or goes on while a vacuum copies heads has all events."""
    copy_folded = _Rewriter.copy_folded

    def write_and_copy(rewriter: _Rewriter, copy: BulkWriter) -> None:
        for session in ("new", "newer"):
            store.create_session(id=session).user(session)
        store.session("kept").user("on")
        copy_folded(rewriter, copy)

    monkeypatch.setattr(_Rewriter, "copy_folded", write_and_copy)
    with seeded(tmp_path / "s") as store:
        store.erase("going")
        assert store.vacuum().erased == 1
    with eventlog.open(tmp_path / "s") as store:
        assert [said(store, session) for session in ("new", "newer", "kept")] == [["new"], ["newer"], ["hello", "on"]]
        assert verify(store, deep=True).sound
