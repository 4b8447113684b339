"""Unreadable files of a store: a typed error with advice, no new file, no dead process."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import lmdb
import pytest

from eventlog.errors import BusyError, DamagedError, EventlogError, StorageError
from eventlog.log.embedded.engine import open_log
from projections.cli.exits import Exit, classify
from tests.support.embedded_log import put
from tests.support.faulty_io import FaultyIO
from tests.support.python_process import printed

pytestmark = pytest.mark.promise(12)

PAGE = 4096
META = 16
"""Where a meta page's own bytes begin, behind the header of every page."""
Damage = Callable[[Path], object]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store closed in order, large enough to have inner pages."""
    path = tmp_path_factory.mktemp("original") / "s"
    log = open_log(path, map_bytes=1 << 24, journal_bytes=64 << 10)
    for number in range(40):
        put(log, os.urandom(5000), session=f"s{number % 4}")
    log.close()
    return path


def cut(size: int) -> Damage:
    """Cut the data file there; from its end if negative."""

    def damage(path: Path) -> None:
        data = path / "1" / "lmdb" / "data.mdb"
        os.truncate(data, size if size >= 0 else data.stat().st_size + size)

    return damage


def over(*places: tuple[int, bytes]) -> Damage:
    """Overwrite bytes at a place."""

    def damage(path: Path) -> None:
        with (path / "1" / "lmdb" / "data.mdb").open("r+b") as file:
            for offset, data in places:
                file.seek(offset)
                file.write(data)

    return damage


def a_directory(path: Path) -> None:
    """Put a directory in place of the data file."""
    (path / "1" / "lmdb" / "data.mdb").unlink()
    (path / "1" / "lmdb" / "data.mdb").mkdir()


DAMAGES: dict[str, Damage] = {
    "empty": cut(0),
    "within the first meta page": cut(100),
    "one page": cut(PAGE),
    "the meta pages alone": cut(2 * PAGE),
    "the last page gone": cut(-PAGE),
    "half": cut(40 * PAGE),
    "one meta page is none": over((META, b"none")),
    "both meta pages are none": over((META, b"none"), (PAGE + META, b"none")),
    "another format of LMDB": over((META + 4, b"\x63"), (PAGE + META + 4, b"\x63")),
    "zeros": over((0, bytes(2 * PAGE))),
    "roots beyond the end": over((META + 112, b"\x07\x77\x77"), (PAGE + META + 112, b"\x07\x77\x77")),
    "missing": lambda path: (path / "1" / "lmdb" / "data.mdb").unlink(),
    "a directory": a_directory,
    "its directory missing": lambda path: shutil.rmtree(path / "1" / "lmdb"),
}


@pytest.mark.parametrize("read_only", [True, False], ids=["reading", "writing"])
@pytest.mark.parametrize("name", DAMAGES)
def test_a_data_file_that_is_none(original: Path, tmp_path: Path, name: str, *, read_only: bool) -> None:
    """Promise 12: opening a broken LMDB file is damage with advice, and writes nothing."""
    path = tmp_path / "s"
    shutil.copytree(original, path)
    DAMAGES[name](path)
    data = path / "1" / "lmdb" / "data.mdb"
    before = data.read_bytes() if data.is_file() else None
    with pytest.raises(DamagedError, match="repair") as caught:
        open_log(path, read_only=read_only, map_bytes=1 << 24, journal_bytes=64 << 10)
    code, line = classify(caught.value)
    assert code == Exit.DAMAGED
    assert "eventlog repair" in line
    assert (data.read_bytes() if data.is_file() else None) == before


def system(code: int) -> lmdb.Error:
    """An error of the system as LMDB reports it."""
    error = lmdb.Error(os.strerror(code))
    vars(error)["code"] = code
    return error


FOLDS: dict[str, tuple[lmdb.Error, type[EventlogError]]] = {
    "corrupted": (lmdb.CorruptedError("MDB_CORRUPTED"), DamagedError),
    "page not found": (lmdb.PageNotFoundError("MDB_PAGE_NOTFOUND"), DamagedError),
    "invalid": (lmdb.InvalidError("MDB_INVALID"), DamagedError),
    "page full": (lmdb.PageFullError("MDB_PAGE_FULL"), DamagedError),
    "after damage": (lmdb.BadTxnError("MDB_BAD_TXN"), DamagedError),
    "incompatible": (lmdb.IncompatibleError("MDB_INCOMPATIBLE"), DamagedError),
    "no permission": (system(errno.EACCES), StorageError),
    "read-only": (system(errno.EROFS), StorageError),
    "read-only file": (lmdb.ReadonlyError("Permission denied"), StorageError),
    "no room": (system(errno.ENOSPC), BusyError),
    "no descriptor": (system(errno.EMFILE), BusyError),
}


@pytest.mark.parametrize("name", FOLDS)
def test_folding_meets_what_lmdb_cannot_read(tmp_path: Path, name: str) -> None:
    """Promise 12: `close` raises the error that ends every fold; committed data remains."""
    given, wanted = FOLDS[name]
    io = FaultyIO()
    log = open_log(tmp_path / "s", io=io)
    put(log, b"one")
    io.refused["fold: begun"] = given
    with pytest.raises(wanted):
        log.close()
    log = open_log(tmp_path / "s")
    assert [commit.payload for commit in log.read("s")] == [b"one"]
    log.close()


@pytest.mark.parametrize("name", ["corrupted", "no permission"])
def test_writers_are_told_why_nothing_is_folded(tmp_path: Path, name: str) -> None:
    """Promise 12: a writer refused because folding cannot work gets the cause, every time."""
    given, wanted = FOLDS[name]
    io = FaultyIO()
    path = tmp_path / "s"
    log = open_log(path, io=io, fold_bytes=4096, journal_bytes=16 << 10, busy_timeout=600)
    io.refused["fold: begun"] = given
    written = 0
    refused: EventlogError | None = None
    while refused is None and written < 200:
        try:
            put(log, bytes(2000))
            written += 1
        except EventlogError as error:
            refused = error
    assert isinstance(refused, wanted), "it would have waited ten minutes for what cannot come"
    with pytest.raises(wanted):
        put(log, bytes(2000))
    assert len(list(log.read("s"))) == written, "it can be read"
    io.refused.clear()
    log.close()
    log = open_log(path, fold_bytes=4096, journal_bytes=16 << 10)
    assert len(list(log.read("s"))) == written
    assert log.check() == []
    log.close()


DENIED: dict[str, list[tuple[str, int]]] = {
    "the data file": [("1/lmdb/data.mdb", 0)],
    "the data file for writing": [("1/lmdb/data.mdb", 0o400)],
    "LMDB's lock file": [("1/lmdb/lock.mdb", 0o400)],
    "LMDB's directory": [("1/lmdb", 0)],
    "the mark": [("mark", 0)],
    "the writers' lock": [("lock", 0)],
    "the journal's directory": [("1/journal", 0)],
    "the journal's files": [("1/journal/*.log", 0)],
    "the format file": [("format", 0)],
    "everything": [(".", 0)],
}
CHILD = """
import os, sys
from eventlog.log.commit import Append
from eventlog.log.embedded.engine import open_log
sound, denied, mode = sys.argv[1:]
log = open_log(sound); list(log.heads()); log.close()  # all modules are loaded
"x".encode("unicode_escape")
if os.geteuid() == 0:
    os.setgid(65534); os.setuid(65534)  # root is denied nothing
try:
    log = open_log(denied, read_only=mode == "reading")
    sum(len(list(log.read(head.session))) for head in log.heads())
    if mode == "writing":
        log.submit(Append(session="s0", payload=b"x", count=1, time=1)).wait(30)
    log.close()
    print("fine")
except Exception as error:
    print(type(error).__name__, type(error.__cause__).__name__, error)
"""


@pytest.mark.parametrize("name", DENIED)
def test_no_permission_is_no_damage(original: Path, tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    """Promise 12: a file without permission is `StorageError`, neither damaged nor missing."""
    base = tmp_path_factory.mktemp("denied")
    for directory in (base, *base.parents[:2]):
        if directory.stat().st_uid == os.geteuid():
            directory.chmod(directory.stat().st_mode | 0o011)  # other users may traverse it
    outcomes: list[str] = []
    for mode in ("reading", "writing"):
        sound, denied = base / f"sound {mode}", base / f"denied {mode}"
        shutil.copytree(original, sound)
        shutil.copytree(original, denied)
        if os.geteuid() == 0:
            for entry in [denied, *denied.rglob("*")]:
                os.chown(entry, 65534, 65534)
        try:
            for pattern, permissions in DENIED[name]:
                for entry in [denied] if pattern == "." else sorted(denied.glob(pattern)):
                    entry.chmod(permissions)
            outcomes.append(printed(CHILD, sound, denied, mode).strip())
        finally:
            for entry in [denied, *denied.rglob("*")]:
                entry.chmod(0o700)
    reading, writing = outcomes
    assert writing.startswith("StorageError "), writing
    assert "Permission denied" in writing
    assert reading.startswith("StorageError ") or name in {"the data file for writing", "the writers' lock"}, reading
