"""The directory of a store: created once, recognised when opened.

`FORMAT.md` describes it. `format` is written last, so a directory without it was never committed to
and is created again. A directory that holds other files is refused and left alone.

Format 1 is read and written. A later format is `TooNewError`. Opening a store never
changes its format; a new format needs an upgrade in `eventlog upgrade`.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import stat
from contextlib import suppress
from hashlib import blake2b
from typing import TYPE_CHECKING

from eventlog.errors import CallError, DamagedError, NotFoundError, TooNewError, UnfinishedError
from eventlog.log.embedded.filesystem import (
    is_number,
    read_small,
    refuse_network_filesystem,
    remove_all,
    require_files,
    sync_directory,
    write_small,
)
from eventlog.log.embedded.generations import files_of, of
from eventlog.log.embedded.journal.frames import FORMAT_VERSION
from eventlog.log.embedded.journal.journal import Journal
from eventlog.log.embedded.segments.environment import LIB_VERSION
from eventlog.log.embedded.segments.fold import begin_store
from eventlog.log.embedded.segments.segments import Segments
from eventlog.log.embedded.watermark import Watermark

if TYPE_CHECKING:
    from pathlib import Path

    from eventlog.log.embedded.options import Options

FIRST = "0000000001.log"
_TITLE = "eventlog store"
_UNFINISHED = "unfinished"
"""Says that a copy is being written in a directory."""
_NAMES = frozenset({"format", "format.new", "turn", "lock", "open", "mark", "1"})


def prepare(path: Path, options: Options, encryption: str = "") -> None:
    """Check that `path` is a store, and create one if there is nothing yet.

    `encryption` is the note of a new store (see `encryption_of`).

    Raises `UnsupportedStorageError` (network file system), `NotFoundError` (nothing there, and
    opened for reading), `CallError` (other files are there), `UnfinishedError` (a copy is being
    written there), `TooNewError`, `DamagedError`.
    """
    refuse_network_filesystem(path)
    with suppress(FileNotFoundError):
        if not stat.S_ISDIR(path.stat().st_mode):
            raise CallError(f"{path} is not a directory")
    require_store_files(path)
    refuse_unfinished(path)
    if not (path / "format").exists():
        if options.read_only:
            if path.exists() and any(path.iterdir()):
                raise CallError(f"{path} is not a store")
            raise NotFoundError("store", str(path))
        _make(path, options, encryption)
    _check(path)


def require_store_files(path: Path) -> None:
    """Raise `DamagedError` if a FIFO, a device or the like lies where a store has its files."""
    require_files(path)
    for directory in of(path).values():
        for place in (directory, directory / "journal", directory / "lmdb"):
            require_files(place)


def refuse_inside_store(path: Path) -> None:
    """Raise `CallError` for a path inside a store."""
    for directory in path.resolve().parents:
        with suppress(OSError, DamagedError):
            if read_small(directory / "format").startswith(_TITLE):
                raise CallError(f"{path} is in the store {directory}: name another place")


def _make(path: Path, options: Options, encryption: str) -> None:
    path = path.resolve()
    refuse_inside_store(path)
    made = [path, *(parent for parent in path.parents if not parent.exists())]
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    strangers = sorted(entry.name for entry in path.iterdir() if entry.name not in _NAMES)
    if strangers:
        raise CallError(f"{path} holds something else than a store: {', '.join(strangers[:3])}")
    lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)  # held until the store is complete
        if (path / "format").exists():
            return
        _refuse_to_start_over(path, options)
        files = path / "1"
        for place in (files, files / "journal", files / "lmdb"):
            place.mkdir(mode=0o700, exist_ok=True)
        forget_unbegun(files / "lmdb")
        segments = Segments(files / "lmdb", read_only=False, map_bytes=options.map_bytes)
        try:
            page = segments.environment.page_bytes
            begin = Journal.create(files / "journal", options.io, options.journal_bytes)
            begin_store(segments, begin)
        finally:
            segments.close()
        mark = Watermark(path / "mark", 1, read_only=False)
        mark.set(begin)
        mark.set_closed(begin)
        mark.close()
        os.close(os.open(path / "open", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        write_format(path, page, options.io.random(16).hex(), encryption)
        for directory in made:  # a name is on disk when the directory that holds it is
            sync_directory(directory.parent)
    finally:
        os.close(lock)


def forget_unbegun(lmdb: Path) -> None:
    """Remove an LMDB file left from before its first transaction, which LMDB takes for damage.

    Such a file has three pages at most and no data; a used one has more.
    """
    data = lmdb / "data.mdb"
    if data.exists() and data.stat().st_size <= 3 * mmap.PAGESIZE:
        data.unlink()


def write_format(path: Path, page: int, identity: str, encryption: str = "") -> None:
    """Write `format`, which makes a complete directory a store with this identity."""
    files = files_of(path)
    for directory in (files / "lmdb", files / "journal", files, path):
        sync_directory(directory)
    text = f"{_TITLE}\nformat {FORMAT_VERSION}\nlmdb {LIB_VERSION}\npage {page}\nid {identity}\n"
    write_small(path / "format", text + (f"encryption {encryption}\n" if encryption else ""))


def _refuse_to_start_over(path: Path, options: Options) -> None:
    """Raise `DamagedError` if `format` was lost: the store must not become an empty one."""
    journal = path / "1" / "journal"
    if any(number > 1 for number in of(path)):
        raise DamagedError(f"{path} has files of a rewriting but no format file")
    names = sorted(entry.name for entry in journal.glob("*.log")) if journal.is_dir() else []
    if names not in ([], [FIRST]) or (names and not _is_fresh(path, options)):
        raise DamagedError(f"{path} has a journal but no format file")


def _is_fresh(path: Path, options: Options) -> bool:
    """Return whether the first journal file was never written to.

    A half-made header counts as never written.
    """
    try:
        return not Journal.has_frames(path / "1" / "journal", 1, options.io)
    except DamagedError:
        return not (path / "mark").exists()


def identity_of(path: Path) -> str:
    """Return the identity that a store shares with its copies only; "" if it is unknown."""
    return _facts(path)[1].get("id", "")


def identity_bytes(path: Path) -> bytes:
    """Return 16 bytes that name a store and its copies; a rewriting keeps them."""
    return blake2b(identity_of(path).encode(), digest_size=16).digest()


def encryption_of(path: Path) -> str:
    """Return the store's note of its encryption (`eventlog/open_log.py`); "" if there is none."""
    return _facts(path)[1].get("encryption", "")


def _facts(path: Path) -> tuple[str, dict[str, str]]:
    lines = read_small(path / "format").splitlines() or [""]
    return lines[0], dict(line.split(" ", 1) for line in lines[1:] if " " in line)


def format_of(path: Path) -> int:
    """Return the format of the store at `path`; errors as for `prepare`, nothing is changed."""
    require_store_files(path)
    refuse_unfinished(path)
    if not path.exists():
        raise NotFoundError("store", str(path))
    if not (path / "format").is_file():
        raise CallError(f"{path} is not a store")
    _check(path)
    return int(_facts(path)[1]["format"])


def _check(path: Path) -> None:
    title, facts = _facts(path)
    if title != _TITLE or not all(is_number(facts.get(name, "")) for name in ("format", "lmdb")):
        raise DamagedError(f"the format file of {path} is damaged")
    for name, supported in (("format", FORMAT_VERSION), ("lmdb", LIB_VERSION)):
        if int(facts[name]) > supported:
            raise TooNewError(f"{path} was made with {name} {facts[name]}, known is {supported}")
    if int(facts["format"]) < FORMAT_VERSION:
        raise DamagedError(f"{path} says format {facts['format']}, which no program has released")


def set_unfinished(path: Path, what: str | None) -> None:
    """Mark a directory as being written, with what is written; None removes the mark."""
    if what is None:
        (path / _UNFINISHED).unlink(missing_ok=True)
        sync_directory(path)
    else:
        write_small(path / _UNFINISHED, what + "\n")


def begin_anew(path: Path, what: str) -> None:
    """Mark a directory as being written, and remove what an earlier try left there."""
    set_unfinished(path, what)
    for entry in path.iterdir():
        if entry.is_dir():
            remove_all(entry)
        elif entry.name != _UNFINISHED:
            entry.unlink()


def unfinished(path: Path) -> str | None:
    """Return what is being written in a directory, or was when the program died; else None."""
    try:
        return read_small(path / _UNFINISHED).strip()
    except (FileNotFoundError, NotADirectoryError):
        return None


def holds_nothing(path: Path) -> bool:
    """Return whether a path is empty, but for what a dying `set_unfinished` leaves."""
    return not path.exists() or (path.is_dir() and all(entry.name == f"{_UNFINISHED}.new" for entry in path.iterdir()))


def refuse_unfinished(path: Path) -> None:
    """Raise `UnfinishedError` if a directory is not a whole store yet."""
    what = unfinished(path)
    if what is not None:
        raise UnfinishedError(str(path), what)


def bytes_on_disk(path: Path) -> int:
    """Return the bytes that the files below a directory take, holes not counted."""
    total = 0
    for file in path.rglob("*"):
        with suppress(FileNotFoundError):  # another process removes files
            total += file.stat().st_blocks * 512 if file.is_file() else 0
    return total
