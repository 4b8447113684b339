"""Remains of dead programs in or beside a store are removed by the next one."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import eventlog
from eventlog.errors import BusyError, DamagedError, PoisonedError, UnfinishedError, UnknownOutcomeError
from eventlog.log.embedded.engine import open_log
from eventlog.maintenance.repair import repair
from eventlog.store import Store
from tests.support.faults.abandoned_store import copied_as_left
from tests.support.faults.failing_io import FailingIO
from tests.support.sample_sessions import exchange


def make(path: Path) -> None:
    """A small store whose journal is not folded in a copy taken while it is open."""
    with eventlog.open(path.with_name("used")) as store:
        exchange(store.create_session(id="a"))
        store.log.sync()
        copied_as_left(path.with_name("used"), path)


def test_a_half_made_generation_is_taken_away(tmp_path: Path) -> None:
    """The next opening removes the remains of a vacuum or scrub that died before its commit."""
    make(tmp_path / "s")
    (tmp_path / "s" / "2" / "lmdb").mkdir(parents=True)
    (tmp_path / "s" / "generation.new").write_text("half")
    with eventlog.open(tmp_path / "s", read_only=True) as store:
        head = store.head()
    with eventlog.open(tmp_path / "s") as store:
        assert store.head() == head
    assert not {"2", "generation", "generation.new"} & {entry.name for entry in (tmp_path / "s").iterdir()}


@pytest.mark.promise(12)
@pytest.mark.parametrize("lost", ["", "generation", "1/lmdb", "1/journal"])
def test_an_earlier_generation_is_never_read_for_the_one_in_force(tmp_path: Path, lost: str) -> None:
    """Promise 12: old files left by a rewriting change nothing, whichever are missing."""
    make(tmp_path / "s")
    shutil.copytree(tmp_path / "s" / "1", tmp_path / "old")
    with eventlog.open(tmp_path / "s") as store:
        store.vacuum()
        exchange(store.create_session(id="b"))
        head = store.head()
    mark = (tmp_path / "s" / "mark").read_bytes()
    shutil.copytree(tmp_path / "old", tmp_path / "s" / "1")
    if lost == "generation":
        (tmp_path / "s" / lost).unlink()
    elif lost:
        shutil.rmtree(tmp_path / "s" / lost)
    if lost != "generation":
        with eventlog.open(tmp_path / "s", read_only=True) as store:
            assert store.head() == head
        with eventlog.open(tmp_path / "s") as store:
            assert store.head() == head
        assert {entry.name for entry in (tmp_path / "s").iterdir()} >= {"2", "generation"}
        assert not (tmp_path / "s" / "1").exists()
        return
    for read_only in (True, False):
        with pytest.raises(DamagedError, match="generation 2"):
            eventlog.open(tmp_path / "s", read_only=read_only)
    assert (tmp_path / "s" / "mark").read_bytes() == mark
    assert not repair(tmp_path / "s", tmp_path / "new").losses
    with eventlog.open(tmp_path / "new") as store:
        assert store.head() == head


@pytest.mark.promise(12)
@pytest.mark.parametrize("pages", [0, 1, 2, 3])
def test_an_lmdb_file_that_was_never_begun_is_begun_again(tmp_path: Path, pages: int) -> None:
    """Promise 12: LMDB's file torn before the first commit is no damage, also in a backup."""
    make(tmp_path / "s")
    for name in ("new", "backup"):
        (tmp_path / name / "1" / "lmdb").mkdir(parents=True)
        (tmp_path / name / "1" / "lmdb" / "data.mdb").write_bytes(bytes(4096 * pages))
    (tmp_path / "backup" / "unfinished").write_text("a backup was being written\n")
    with eventlog.open(tmp_path / "new") as store:
        exchange(store.create_session(id="a"))
    with eventlog.open(tmp_path / "s") as store:
        store.backup(tmp_path / "backup")
        head = store.head()
    with eventlog.open(tmp_path / "backup", read_only=True) as store:
        assert store.head() == head


def test_a_repair_goes_on_where_one_died_before_it_said_so(tmp_path: Path) -> None:
    """A repair that died while marking its target can be repeated into the same place."""
    make(tmp_path / "s")
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "unfinished.new").write_text("a rep")
    assert not repair(tmp_path / "s", tmp_path / "new").losses
    assert "unfinished.new" not in {entry.name for entry in (tmp_path / "new").iterdir()}


def test_a_repair_that_dies_while_it_clears_up_can_be_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a repair clears an earlier try, its target still counts as unfinished."""
    make(tmp_path / "s")
    new = tmp_path / "new"
    for name in ("1/lmdb", "1/journal", "salvage-x"):
        (new / name).mkdir(parents=True)
    (new / "unfinished").write_text("a repair was being written\n")

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("eventlog.log.embedded.directory.remove_all", die)
        with pytest.raises(KeyboardInterrupt):
            repair(tmp_path / "s", new)
    with pytest.raises(UnfinishedError):
        eventlog.open(new)
    assert not repair(tmp_path / "s", new).losses
    assert not list(new.glob("salvage-*"))


@pytest.mark.promise(12)
@pytest.mark.parametrize(("code", "losses"), [(errno.EIO, 1), (errno.EMFILE, None)])
def test_a_journal_file_that_cannot_be_read_is_never_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, losses: int | None
) -> None:
    """Promise 12: an unreadable journal file is a listed loss or ends the repair."""
    make(tmp_path / "s")
    refuse_once(monkeypatch, ".log", code)
    if losses is None:
        with pytest.raises(BusyError):
            repair(tmp_path / "s", tmp_path / "new")
        assert not repair(tmp_path / "s", tmp_path / "new").losses
    else:
        told = repair(tmp_path / "s", tmp_path / "new").losses
        assert any("cannot be read" in loss.problem for loss in told)


def refuse_once(monkeypatch: pytest.MonkeyPatch, suffix: str, code: int) -> None:
    """Fail the first whole-file read of such a file."""
    opened: Callable[..., Any] = Path.open
    refused: list[Path] = []

    def open_(path: Path, *given: Any, **named: Any) -> Any:
        if path.suffix == suffix and not refused:
            refused.append(path)
            raise OSError(code, os.strerror(code))
        return opened(path, *given, **named)

    monkeypatch.setattr(Path, "open", open_)


@pytest.mark.promise(12)
def test_what_failed_first_is_what_is_raised(tmp_path: Path) -> None:
    """Promise 12: the first disk error is raised, and errors of `close` are noted on it."""
    io: Any = FailingIO("late", 0, lasting=True)

    def work() -> None:
        with Store(open_log(tmp_path / "s", io=io), flush_interval=3600) as store:
            session = store.create_session(id="a")
            session.executor.acquire()
            reply = session.assistant("p/m")
            reply.begin()
            reply.stream_text().append("accepted")
            io._at = 1
            session.flush()

    with pytest.raises((PoisonedError, UnknownOutcomeError)) as failed:
        work()
    assert [note.split(":")[0] for note in failed.value.__notes__] == ["closing the store then failed, too"]
