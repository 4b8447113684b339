"""A really full disk below LMDB: no loss, typed errors, live processes, recovery."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

import eventlog
from eventlog.errors import DamagedError, StorageError
from eventlog.log.embedded.engine import open_log
from projections.cli.exits import Exit
from tests.faults.tally import SLOW, tally
from tests.support.cli_runner import program as cli_program
from tests.support.faults.planned_appends import OPTIONS, compare, complete, workload

ROOT = Path(__file__).resolve().parents[2]


def program(name: str, *arguments: object, seconds: float = 280) -> subprocess.CompletedProcess[str]:
    """Run a program of this folder."""
    command = [sys.executable, "-W", "error", "-m", f"tests.support.faults.{name}", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=seconds, check=False)


@pytest.mark.promise(1, 3, 12)
def test_every_size_at_which_lmdb_cannot_grow(tmp_path: Path) -> None:
    """Promises 1, 3, 12: a fold refused inside LMDB's commit loses nothing and is repeated."""
    done = program("full_disk", tmp_path, 11 if SLOW else 13, 1 if SLOW else 9, seconds=3600 if SLOW else 280)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, int] = json.loads(done.stdout)
    tried, failed = found.pop("tried"), found.pop("failed")
    assert failed
    tally("the disk is full below LMDB", tried, **found)


@pytest.mark.promise(12)
def test_what_is_mapped_has_room(tmp_path: Path) -> None:
    """Promise 12: no mapped file has a hole, as storing into one kills on a full disk."""
    open_log(tmp_path / "s").close()
    for name in ("mark", "1/lmdb/lock.mdb"):
        status = (tmp_path / "s" / name).stat()
        assert status.st_blocks * 512 >= status.st_size > 0, name


@pytest.fixture
def small_disk(tmp_path: Path) -> Generator[Path]:
    """A file system of a megabyte, where this process may mount one."""
    if os.geteuid() or shutil.which("mount") is None:
        pytest.skip("needs the right to mount a file system")
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(tmp_path)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a file system")
    yield tmp_path
    subprocess.run(["umount", "-l", str(tmp_path)], check=True)


def test_a_file_system_without_room(small_disk: Path) -> None:
    """With any space left on a real file system a store is made or refused, typed."""
    tried = 0
    log = open_log(small_disk / "before", **OPTIONS)
    acknowledged = [log.submit(append).wait(30) for append in workload()[:20]]
    log.close()
    for left in range(0, 200, 4 if SLOW else 80):
        filler = small_disk / "filler"
        room = os.statvfs(small_disk)
        filler.write_bytes(bytes(max(room.f_bavail * room.f_frsize - left * 1024, 0)))
        done = program("write_until_full", small_disk / "new", small_disk / "before")
        assert done.returncode == 0, (left, done.returncode, done.stdout, done.stderr)
        filler.unlink()
        shutil.rmtree(small_disk / "new", ignore_errors=True)
        tried += 1
    log = open_log(small_disk / "before", **OPTIONS)
    compare(log, workload(), acknowledged)
    complete(log, workload())
    log.close()
    tally("a file system without room", tried)


@pytest.mark.promise(1, 3, 12)
def test_a_backup_on_a_full_file_system(small_disk: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Promises 1, 3, 12: backup and restore complete, or refuse for space and resume."""
    source = tmp_path_factory.mktemp("source") / "s"
    with eventlog.open(source) as store:
        session = store.create_session(id="a")
        for number in range(12):
            session.user(f"{number} " + "".join(random.Random(number).choices("abcdefghijklmnop", k=4000)))
        head = store.head()
    codes: list[int] = []
    for left in range(0, 360, 24 if SLOW else 90):
        commands: list[tuple[object, ...]] = [
            ("--store", source, "backup", small_disk / "b"),
            ("restore", source, "--into", small_disk / "r"),
        ]
        for command in commands:
            room = os.statvfs(small_disk)
            (small_disk / "filler").write_bytes(bytes(max(room.f_bavail * room.f_frsize - left * 1024, 0)))
            full = cli_program(*command)
            (small_disk / "filler").unlink()
            assert full.returncode in {Exit.OK, Exit.STORAGE}, (left, full)
            codes.append(full.returncode)
            if full.returncode:
                again = cli_program(*command)
                assert again.returncode == Exit.OK, (left, again)
            copy = small_disk / str(command[-1])
            with eventlog.open(copy, read_only=True) as store:
                assert store.head() == head
                assert store.log.check() == []
            shutil.rmtree(copy)
    assert Exit.STORAGE in codes
    tally("no room for a backup or a restore", len(codes))


def test_what_the_system_refuses_is_a_typed_error(tmp_path: Path) -> None:
    """A store that cannot be made or opened is an engine error with path and cause."""
    (tmp_path / "file").write_text("no directory")
    for read_only in (False, True):
        with pytest.raises(StorageError, match="file/store"):
            open_log(tmp_path / "file" / "store", read_only=read_only)
    open_log(tmp_path / "s").close()
    (tmp_path / "s" / "format").unlink()
    (tmp_path / "s" / "format").mkdir()
    with pytest.raises(DamagedError, match="format is a directory"):
        open_log(tmp_path / "s")
