"""The structure of LMDB's pages is walked in a child process before this one relies on it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import lmdb
import pytest

from eventlog.errors import BusyError, DamagedError
from eventlog.log.commit import Append
from eventlog.log.embedded.engine import open_log
from eventlog.log.embedded.salvage import probe_child
from eventlog.log.embedded.salvage.probe import probe, require_structure

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
def probed(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The directories that were probed when a store was opened."""
    found: list[Path] = []

    def spy(directory: Path, *, writing: bool = False) -> None:
        found.append(directory)
        require_structure(directory, writing=writing)

    monkeypatch.setattr("eventlog.log.embedded.salvage.probe.require_structure", spy)
    return found


@pytest.mark.parametrize("writing", [False, True])
def test_a_sound_store_has_nothing_wrong(tmp_path: Path, *, writing: bool) -> None:
    """A store that was only written has no finding, and the probe changes no byte."""
    fill(tmp_path / "s")
    before = (tmp_path / "s" / "1" / "lmdb" / "data.mdb").read_bytes()
    assert probe(tmp_path / "s" / "1" / "lmdb", writing=writing) == []
    assert (tmp_path / "s" / "1" / "lmdb" / "data.mdb").read_bytes() == before


def test_an_unclean_end_is_followed_by_a_probe(tmp_path: Path, probed: list[Path]) -> None:
    """The pages are probed once after a crash, and not after a clean close or beside others."""
    path = tmp_path / "s"
    fill(path)
    assert probed == []
    leave(path, "one")
    log = open_log(path, **SMALL)
    assert probed == [path / "1" / "lmdb"]
    log.close()
    for read_only in (True, False):
        open_log(path, read_only=read_only, **SMALL).close()
    assert len(probed) == 1
    leave(path, "two")
    open_log(path, read_only=True, **SMALL).close()
    assert len(probed) == 2, "a reader relies on them, too"
    (path / "mark").unlink()
    open_log(path, **SMALL).close()
    assert len(probed) == 3, "where nobody knows, it may have been a crash"


def test_beside_others_nothing_is_probed(tmp_path: Path, probed: list[Path]) -> None:
    """An unfolded journal beside another open process is no unclean end and is not probed."""
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
    assert probed == []


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
def test_damaged_structure_is_found_by_the_child(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    """Pages that would kill the reader, or hide what there is, are a typed error instead."""
    path = tmp_path / "s"
    fill(path)
    damage(path)
    (found, *_) = probe(path / "1" / "lmdb")
    assert "folded part" in found
    leave_a_mark(path)
    for read_only in (False, True):
        with pytest.raises(DamagedError):
            open_log(path, read_only=read_only, **SMALL)


def leave_a_mark(path: Path) -> None:
    """Leave the store as if it had not been closed in order."""
    mark = bytearray((path / "mark").read_bytes())
    mark[16:] = bytes(16)
    (path / "mark").write_bytes(mark)


def test_a_killed_child_is_named_by_its_signal(tmp_path: Path) -> None:
    """A store whose pages kill the probe's child process is refused with the signal's name."""
    path = tmp_path / "s"
    fill(path)
    cut(path)
    (found,) = probe(path / "1" / "lmdb")
    assert any(name in found for name in (signal.SIGBUS.name, signal.SIGSEGV.name, "MDB_", "Error"))


def test_a_missing_tree_is_damage_not_a_new_one(tmp_path: Path) -> None:
    """A missing tree is damage and is not made anew as an empty one, also without a probe."""
    path = tmp_path / "s"
    fill(path)
    hide(path)
    with pytest.raises(DamagedError):
        open_log(path, **SMALL)


def test_a_frozen_program_starts_no_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where `sys.executable` is not Python, no child is started and no store refused."""
    fill(tmp_path / "s")
    hide(tmp_path / "s")
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert probe(tmp_path / "s" / "1" / "lmdb") == []


LIMITED = """\
import resource, runpy
resource.setrlimit(resource.{limit}, ({amount}, {amount}))
runpy.run_path({program!r}, run_name="__main__")
"""


@pytest.mark.parametrize(
    ("limit", "amount", "said"),
    [("RLIMIT_AS", 2 << 30, "Cannot allocate memory"), ("RLIMIT_NOFILE", 4, "Too many open files")],
)
def test_what_the_system_has_none_of_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, amount: int, said: str
) -> None:
    """A sound file that cannot be mapped or opened for lack of resources is not damaged."""
    fill(tmp_path / "s")
    os.truncate(tmp_path / "s" / "1" / "lmdb" / "data.mdb", 3 << 30)
    program = tmp_path / "limited.py"
    program.write_text(LIMITED.format(limit=limit, amount=amount, program=probe_child.__file__))
    monkeypatch.setattr("eventlog.log.embedded.salvage.probe._CHILD", program)
    for writing in (False, True):
        with pytest.raises(BusyError, match=said):
            require_structure(tmp_path / "s" / "1" / "lmdb", writing=writing)


def test_a_damaged_size_is_damage(tmp_path: Path) -> None:
    """A last page number beyond the address space is damage."""
    fill(tmp_path / "s")
    data = tmp_path / "s" / "1" / "lmdb" / "data.mdb"
    pages = bytearray(data.read_bytes())
    for page in (0, 4096):
        pages[page + 136 : page + 144] = (1 << 50).to_bytes(8, sys.byteorder)
    data.write_bytes(pages)
    assert probe(data.parent)


def test_a_child_that_was_killed_tells_of_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A child killed for lack of memory says nothing about the pages: no damage."""
    fill(tmp_path / "s")
    program = tmp_path / "killed.py"
    program.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    monkeypatch.setattr("eventlog.log.embedded.salvage.probe._CHILD", program)
    with pytest.raises(BusyError, match="SIGKILL"):
        probe(tmp_path / "s" / "1" / "lmdb")
