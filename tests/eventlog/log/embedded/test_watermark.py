"""The watermark, how far the journal is durable: missing, blank, or its opening refused."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from lmdb import verify

from eventlog.errors import BusyError, DamagedError
from eventlog.log.embedded.engine import open_log
from eventlog.log.embedded.watermark import Watermark
from tests.support.embedded_log import abandon, put
from tests.support.python_process import ROOT

UNKNOWN: dict[str, bytes | None] = {"missing": None, "empty": b"", "zeros": bytes(32)}
"""Watermarks left by a copy, a power failure and an earlier program."""


def make(path: Path, mark: bytes | None) -> None:
    """A store that is copied without closing it, with this watermark."""
    log = open_log(path)
    put(log, b"one")
    abandon(log)
    (path / "mark").unlink()
    if mark is not None:
        (path / "mark").write_bytes(mark)


def files(path: Path) -> dict[str, bytes]:
    """Every file of a store but LMDB's lock file, which is memory of readers."""
    found = [file for file in path.rglob("*") if file.is_file() and file.name != "lock.mdb"]
    return {str(file.relative_to(path)): file.read_bytes() for file in found}


@pytest.mark.promise(2)
@pytest.mark.parametrize("mark", UNKNOWN)
def test_a_reader_sees_what_a_later_writer_commits(tmp_path: Path, mark: str) -> None:
    """Promise 2: a store opened for reading before its first writer is followed normally."""
    make(tmp_path / "s", UNKNOWN[mark])
    reader = open_log(tmp_path / "s", read_only=True)
    assert [commit.payload for commit in reader.commits_after(0)] == [b"one"]
    assert reader.check() == []
    code = (
        "import os, sys; from eventlog.log.embedded.engine import open_log; from tests.support.embedded_log import put\n"
        "put(open_log(sys.argv[1]), b'two')\n"
        "os._exit(0)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "s")], cwd=ROOT, check=True, timeout=60)
    assert reader.last_position() == 2
    assert [commit.payload for commit in reader.read("s")] == [b"one", b"two"]
    reader.close()


@pytest.mark.promise(12)
@pytest.mark.parametrize("mark", UNKNOWN)
def test_a_check_reads_the_journal_whatever_the_mark_says(tmp_path: Path, mark: str) -> None:
    """Promise 12: a reader's check finds journal damage also without a watermark."""
    path = tmp_path / "s"
    make(path, UNKNOWN[mark])
    reader = open_log(path, read_only=True)
    (file,) = (path / "1" / "journal").glob("0*.log")
    file.write_bytes(file.read_bytes().replace(b"one", b"ONE"))
    assert len(reader.check()) == 1
    reader.close()


def hide(path: Path) -> None:
    """Rename a tree of LMDB: the check of pages finds it."""
    data = path / "1" / "lmdb" / "data.mdb"
    data.write_bytes(data.read_bytes().replace(b"sessions", b"{essions"))


def tear(path: Path) -> None:
    """Damage a journal frame before a sound one: the tail's reader finds it."""
    (file,) = (path / "1" / "journal").glob("0*.log")
    file.write_bytes(file.read_bytes().replace(b"one", b"ONE"))


@pytest.mark.promise(12)
@pytest.mark.parametrize("damage", [hide, tear])
@pytest.mark.parametrize("mark", UNKNOWN)
def test_a_refused_opening_leaves_the_directory_as_it_was(
    tmp_path: Path, damage: Callable[[Path], None], mark: str
) -> None:
    """Promise 12: a refused opening for writing makes no file and changes none."""
    path = tmp_path / "s"
    log = open_log(path)
    put(log, b"one")
    put(log, b"two")
    abandon(log)
    (path / "mark").unlink()
    if (data := UNKNOWN[mark]) is not None:
        (path / "mark").write_bytes(data)
    damage(path)
    before = files(path)
    with pytest.raises(DamagedError):
        open_log(path)
    assert files(path) == before


@pytest.mark.promise(12)
def test_an_opening_that_cannot_check_the_pages_leaves_no_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise 12: an opening that cannot check the pages leaves no mark in a copy."""

    def refuse(_path: str) -> list[str]:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    path = tmp_path / "s"
    make(path, None)
    monkeypatch.setattr(verify, "verify", refuse)
    with pytest.raises(BusyError):
        open_log(path)
    assert not (path / "mark").exists()
    monkeypatch.undo()
    log = open_log(path)
    put(log, b"two")
    log.close()
    shutil.rmtree(path)


def test_a_mark_that_cannot_be_opened_now_is_looked_at_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader without descriptors goes on with the old watermark and sees the new one later."""
    mark = Watermark(tmp_path / "mark", 1, read_only=True)
    mark.acknowledge(mark.get())
    writer = Watermark(tmp_path / "mark", 1, read_only=False)
    writer.set(7)

    def none_left(*_: object, **__: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "open", none_left)
    assert not mark.changed()
    monkeypatch.undo()
    assert mark.changed()
    assert mark.get() == 7
    mark.close()
    writer.close()
