"""The directory of a store: made once, recognised ever after.  Imported by `embedded.py` only.

`format` is written last, so a directory without it is one that nobody has ever committed to; it is made again.
Whatever else lies in the directory is left alone and the path refused.
"""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

from eventlog.errors import CallError, DamagedError, NotFoundError, TooNewError
from eventlog.log.environment import LIB_VERSION
from eventlog.log.filesystem import refuse_network_filesystem, sync_directory
from eventlog.log.fold import begin_store
from eventlog.log.frames import FORMAT_VERSION
from eventlog.log.journal import Journal
from eventlog.log.segments import Segments

if TYPE_CHECKING:
    from pathlib import Path

    from eventlog.log.options import Options

__all__ = ["prepare"]

FIRST = "0000000001.log"
_TITLE = "eventlog store"
_NAMES = frozenset({"format", "format.new", "turn", "lock", "mark", "journal", "lmdb"})


def prepare(path: Path, options: Options) -> None:
    """Check that `path` is a store, and make one if there is nothing yet.

    Raises `UnsupportedStorageError` (network file system), `NotFoundError` (nothing there, and opened for reading),
    `CallError` (something else is there), `TooNewError`, `DamagedError`.
    """
    refuse_network_filesystem(path)
    if path.exists() and not path.is_dir():
        raise CallError(f"{path} is not a directory")
    if not (path / "format").exists():
        if options.read_only:
            if path.exists() and any(path.iterdir()):
                raise CallError(f"{path} is not a store")
            raise NotFoundError("store", str(path))
        _make(path, options)
    _check(path)


def _make(path: Path, options: Options) -> None:
    path = path.resolve()
    made = [path, *(parent for parent in path.parents if not parent.exists())]
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    strangers = sorted(entry.name for entry in path.iterdir() if entry.name not in _NAMES)
    if strangers:
        raise CallError(f"{path} holds something else than a store: {', '.join(strangers[:3])}")
    lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)  # held for as long as it takes to make a store
        if (path / "format").exists():
            return
        _refuse_to_start_over(path, options)
        for name in ("journal", "lmdb"):
            (path / name).mkdir(mode=0o700, exist_ok=True)
        segments = Segments(path / "lmdb", read_only=False, map_bytes=options.map_bytes)
        try:
            page = segments.environment.page_bytes
            begin_store(segments, Journal.create(path / "journal", options.io, options.journal_bytes))
        finally:
            segments.close()
        text = f"{_TITLE}\nformat {FORMAT_VERSION}\nlmdb {LIB_VERSION}\npage {page}\n"
        fd = os.open(path / "format.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, text.encode())
            os.fsync(fd)
        finally:
            os.close(fd)
        for directory in (path / "lmdb", path / "journal", path):
            sync_directory(directory)
        os.rename(path / "format.new", path / "format")  # noqa: PTH104 - the same call as elsewhere in this package
        sync_directory(path)
        for directory in made:  # a name is on disk when the directory that holds it is
            sync_directory(directory.parent)
    finally:
        os.close(lock)


def _refuse_to_start_over(path: Path, options: Options) -> None:
    """A store whose `format` was lost is damaged; it must not become an empty one."""
    journal = path / "journal"
    names = sorted(entry.name for entry in journal.glob("*.log")) if journal.is_dir() else []
    if names not in ([], [FIRST]) or (names and not _is_fresh(path, options)):
        raise DamagedError(f"{path} has a journal but no format file")


def _is_fresh(path: Path, options: Options) -> bool:
    """Whether the first journal file is one that nothing was written to; a half-made header counts as such."""
    try:
        return not Journal.has_frames(path / "journal", 1, options.io)
    except DamagedError:
        return not (path / "mark").exists()


def _check(path: Path) -> None:
    lines = (path / "format").read_text(encoding="utf-8", errors="replace").splitlines()
    facts = dict(line.split(" ", 1) for line in lines[1:] if " " in line)
    if not lines or lines[0] != _TITLE or not all(facts.get(name, "").isdigit() for name in ("format", "lmdb")):
        raise DamagedError(f"the format file of {path} is damaged")
    for name, known in (("format", FORMAT_VERSION), ("lmdb", LIB_VERSION)):
        if int(facts[name]) > known:
            raise TooNewError(f"{path} was made with {name} {facts[name]}, known is {known}")
