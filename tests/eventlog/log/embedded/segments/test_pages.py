"""LMDB's pages are verified without LMDB before a process relies on them."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import lmdb
import pytest
from lmdb import verify

from eventlog.errors import BusyError, DamagedError, StorageError
from eventlog.log.commit import Append
from eventlog.log.embedded.engine import open_log
from eventlog.log.embedded.segments.pages import page_faults

pytestmark = pytest.mark.promise(12)

SMALL = {"map_bytes": 1 << 20, "journal_bytes": 32 << 10}


def fill(path: Path) -> None:
    """Make a store with a few pages in every tree."""
    with_body = [(bytes(32), bytes(20_000))]
    log = open_log(path, **SMALL)
    for number in range(60):
        log.submit(
            Append(
                session=f"s{number}",
                payload=os.urandom(900),
                count=1,
                time=1,
                creates_at=0,
                request="r",
                bodies=with_body if number == 7 else (),
            )
        )
    log.sync()
    log.close()


def leave(path: Path, session: str) -> None:
    """Begin a session and die."""
    script = (
        "import os, sys\n"
        "from eventlog.log.contract import Append\n"
        "from eventlog.log.embedded.engine import open_log\n"
        "log = open_log(sys.argv[1], map_bytes=1 << 20, journal_bytes=32 << 10)\n"
        "log.submit(Append(session=sys.argv[2], payload=b'x', count=1, time=1, creates_at=0)).wait(30)\n"
        "os._exit(0)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(path), session], check=True)


@pytest.fixture
def verified(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The directories whose pages were verified when a store was opened."""
    found: list[Path] = []

    def spy(directory: Path) -> list[str]:
        found.append(directory)
        return page_faults(directory)

    monkeypatch.setattr("eventlog.log.embedded.partition.page_faults", spy)
    return found


def test_a_sound_store_has_nothing_wrong(tmp_path: Path) -> None:
    """A store that was only written has no finding."""
    fill(tmp_path / "s")
    assert page_faults(tmp_path / "s" / "1" / "lmdb") == []


def test_the_pages_are_verified_after_an_unclean_end(tmp_path: Path, verified: list[Path]) -> None:
    """The pages are verified once after a crash, and not after a clean close or beside others."""
    path = tmp_path / "s"
    fill(path)
    assert verified == []
    leave(path, "one")
    log = open_log(path, **SMALL)
    assert verified == [path / "1" / "lmdb"]
    log.close()
    for read_only in (True, False):
        open_log(path, read_only=read_only, **SMALL).close()
    assert len(verified) == 1
    leave(path, "two")
    open_log(path, read_only=True, **SMALL).close()
    assert len(verified) == 2, "a reader relies on them, too"
    (path / "mark").unlink()
    open_log(path, **SMALL).close()
    assert len(verified) == 3, "where nobody knows, it may have been a crash"


def test_beside_others_nothing_is_verified(tmp_path: Path, verified: list[Path]) -> None:
    """An unfolded journal beside another open process is no unclean end: nothing is verified."""
    path = tmp_path / "s"
    fill(path)
    script = (
        "import sys\n"
        "from eventlog.log.contract import Append\n"
        "from eventlog.log.embedded.engine import open_log\n"
        "log = open_log(sys.argv[1], map_bytes=1 << 20, journal_bytes=32 << 10)\n"
        "log.submit(Append(session='beside', payload=b'x', count=1, time=1, creates_at=0)).wait(30)\n"
        "print('open', flush=True)\n"
        "sys.stdin.read()\n"
        "log.close()\n"
    )
    command = [sys.executable, "-c", script, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"open\n"
        log = open_log(path, **SMALL)
        assert log.head("beside") is not None
        log.close()
    assert verified == []


def cut(path: Path) -> None:
    """Truncate LMDB's file to its half: a process that reads beyond it is killed."""
    data = path / "1" / "lmdb" / "data.mdb"
    os.truncate(data, data.stat().st_size // 2 & ~4095)


def hide(path: Path) -> None:
    """Give a tree another name."""
    data = path / "1" / "lmdb" / "data.mdb"
    data.write_bytes(data.read_bytes().replace(b"sessions", b"{essions"))


def rename(path: Path) -> None:
    """Give a row another key, in its place among the others."""
    data = path / "1" / "lmdb" / "data.mdb"
    with lmdb.open(str(path / "1" / "lmdb"), max_dbs=16) as environment:
        tree = environment.open_db(b"sessions", create=False)
        with environment.begin(db=tree, write=True) as txn:
            value = txn.get(b"s31")
            assert value is not None
            txn.delete(b"s31")
            txn.put(b"s310", value)
    assert data.is_file()


@pytest.mark.parametrize("damage", [cut, hide, rename])
def test_damaged_structure_is_found(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    """Pages that would kill the reader, or hide what there is, are a typed error instead."""
    path = tmp_path / "s"
    fill(path)
    damage(path)
    assert damage is not cut or "folded part" in page_faults(path / "1" / "lmdb")[0]
    leave_a_mark(path)
    for read_only in (False, True):
        with pytest.raises(DamagedError):
            open_log(path, read_only=read_only, **SMALL)


def leave_a_mark(path: Path) -> None:
    """Leave the store as if it had not been closed in order."""
    mark = bytearray((path / "mark").read_bytes())
    mark[16:] = bytes(16)
    (path / "mark").write_bytes(mark)


def test_a_missing_tree_is_damage_not_a_new_one(tmp_path: Path) -> None:
    """A missing tree is damage and is not made anew as an empty one."""
    path = tmp_path / "s"
    fill(path)
    hide(path)
    with pytest.raises(DamagedError):
        open_log(path, **SMALL)


@pytest.mark.parametrize("code", [errno.EMFILE, errno.EACCES])
def test_what_the_system_refuses_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """Pages that the system does not let a process read now are not damaged."""

    def refuse(_path: str) -> list[str]:
        raise OSError(code, os.strerror(code))

    fill(tmp_path / "s")
    monkeypatch.setattr(verify, "verify", refuse)
    with pytest.raises((BusyError, StorageError), match=os.strerror(code)):
        page_faults(tmp_path / "s" / "1" / "lmdb")


def test_a_damaged_size_is_damage(tmp_path: Path) -> None:
    """A last page number beyond the address space is damage."""
    fill(tmp_path / "s")
    data = tmp_path / "s" / "1" / "lmdb" / "data.mdb"
    pages = bytearray(data.read_bytes())
    for page in (0, 4096):
        pages[page + 136 : page + 144] = (1 << 50).to_bytes(8, sys.byteorder)
    data.write_bytes(pages)
    assert page_faults(data.parent)
