"""The files of a journal: created, made ahead of need, reused and removed.

Files are filled with zeros once, ahead of need, and reused under the next number once they are
folded: overwriting allocated blocks costs half of what appending costs. Names: `NNNNNNNNNN.log`,
`spare-…` for a file that waits to be used, `spare-….tmp` for one that is half made. `journal.py`
reads and writes their content.
"""

from __future__ import annotations

import errno
import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING

from eventlog.errors import PoisonedError
from eventlog.log.embedded.journal import frames
from eventlog.log.embedded.journal.frames import FILE_HEADER_BYTES

if TYPE_CHECKING:
    from pathlib import Path

    from eventlog.log.embedded.filesystem import JournalIO

FIRST_FILE_BYTES = 256 << 10
"""Size of a first file, and of one needed before its spare is ready: quick to fill."""
_GROWTH = 4
"""Size of a new file, in sizes of the current one."""
_PIECE = 1 << 20
_SPARES = 2
_LOG_NAME = re.compile(r"(\d{10})\.log\Z")
_USED_SPARE = re.compile(r"spare-\d{10}\Z")
"""A spare that was a journal file before; one that was made has another name."""


class JournalFiles:
    """The directory of one journal, whose files grow up to `file_bytes`."""

    def __init__(self, directory: Path, io: JournalIO, file_bytes: int) -> None:
        self._directory = directory
        self._io = io
        self._file_bytes = file_bytes
        self._opened = directory.parent.stat()
        self.used: str = ""
        """Path of the file in use."""
        self._used: os.stat_result
        self._home: os.stat_result
        """The directory in which it lies."""
        self._link, self._target = "", ""
        """Where the system says which path it has now, and the path that it had at first."""

    def is_there(self) -> bool:
        """Whether the generation still lies at its path: it was not moved, deleted or replaced.

        A log holds it open, so that no other directory gets its number.
        """
        return _lies_at(str(self._directory.parent), self._opened)

    def use(self, sequence: int, fd: int) -> int:
        """Note which file is in use, and is open; return its size."""
        self.used, self._used = str(self.path(sequence)), os.fstat(fd)
        self._home, self._link = self._directory.stat(), f"/proc/self/fd/{fd}"
        self._target = _target(self._link)
        return self._used.st_size

    def used_is_there(self) -> bool:
        """Whether the file in use still lies at its path: who opens the store finds it.

        The file itself is looked at only if its path is not known to be the same: once its times
        were asked for, Linux notes those of the next write, whose flush takes half as long again.
        """
        is_same = self._target != "" and _target(self._link) == self._target
        return (is_same and _lies_at(str(self._directory), self._home)) or _lies_at(self.used, self._used)

    def path(self, sequence: int) -> Path:
        """Return the path of the file of this number."""
        return self._directory / f"{sequence:010}.log"

    def spares(self) -> list[str]:
        """Return the names of the files that wait to be used."""
        names = [path.name for path in self._directory.iterdir()]
        return sorted(name for name in names if name.startswith("spare-") and not name.endswith(".tmp"))

    def begin(self, sequence: int, position: int, *, short: bool = False) -> tuple[int, bytes]:
        """Make file `sequence` from a spare, or anew; return its descriptor and salt.

        With `short` it is a header and nothing else. `PoisonedError` if another directory lies at
        the path: its files are another store's.
        """
        if not self.is_there():
            raise misplaced(self._directory)
        salt = self._io.salt()
        fd = -1
        try:
            path, fd = self._new(sequence, FILE_HEADER_BYTES) if short else self._take_spare(sequence)
            write_all(self._io, fd, frames.pack_file_header(sequence, salt, position), 0)
            self._io.fdatasync(fd)
            self._io.rename(path, str(self.path(sequence)))
            self._io.sync_directory(str(self._directory))
        except BaseException:
            if fd >= 0:
                io_close(fd)
            raise
        return fd, salt

    def make_spare(self, current: int) -> None:
        """Fill a file with zeros for later, unless one waits.

        The file in use has `current` bytes.
        """
        if self.spares() or not self.is_there():
            return
        name = self._io.salt().hex()
        half_made = self._directory / f"spare-{name}.tmp"
        try:
            size = max(current * _GROWTH, FIRST_FILE_BYTES)
            io_close(self._fill(str(half_made), min(self._file_bytes, size)))
            self._io.rename(str(half_made), str(self._directory / f"spare-{name}"))
        except OSError:
            with suppress(OSError):
                self._io.unlink(str(half_made))
            raise

    def recycle(self, before: int, current: int) -> None:
        """Turn the files that end before an address into spares, or remove them.

        Files shorter than `current` bytes are removed. Several processes may do this at once: a
        missing file is another process's work.
        """
        if not self.is_there():
            return
        for path in self._ended(before):
            with suppress(FileNotFoundError):
                fits = current <= path.stat().st_size <= self._file_bytes
                if fits and len(self.spares()) < _SPARES:
                    self._io.rename(str(path), str(self._directory / f"spare-{path.stem}"))
                else:
                    self._io.unlink(str(path))

    def remove(self, before: int) -> None:
        """Remove the files that end before an address, and the spares.

        No other process has the store open. Used files are overwritten first: a later scrub
        overwrites all files of the store and could not reach them. A spare that was never used
        holds zeros.
        """
        if not self.is_there():
            return
        for path in self._ended(before):
            self._io.blank(str(path))
            self._io.unlink(str(path))
        for name in self.spares():
            if _USED_SPARE.match(name):
                self._io.blank(str(self._directory / name))
            self._io.unlink(str(self._directory / name))

    def remove_half_made(self) -> None:
        """Remove files of processes that died while they filled them."""
        for path in self._directory.glob("spare-*.tmp"):
            with suppress(FileNotFoundError):
                self._io.unlink(str(path))

    def _ended(self, before: int) -> list[Path]:
        last = frames.sequence_of(before)
        matches = ((path, _LOG_NAME.match(path.name)) for path in sorted(self._directory.iterdir()))
        return [path for path, match in matches if match is not None and int(match[1]) < last]

    def _take_spare(self, sequence: int) -> tuple[str, int]:
        for spare in self.spares():
            path = str(self._directory / spare)
            with suppress(FileNotFoundError):
                return path, self._io.open(path, os.O_RDWR)
        return self._new(sequence, min(FIRST_FILE_BYTES, self._file_bytes))

    def _new(self, sequence: int, size: int) -> tuple[str, int]:
        path = str(self._directory / f"spare-{sequence}.tmp")
        return path, self._fill(path, size)

    def _fill(self, path: str, size: int) -> int:
        fd = self._io.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        try:
            for offset in range(0, size, _PIECE):
                write_all(self._io, fd, bytes(min(_PIECE, size - offset)), offset)
            self._io.fdatasync(fd)
        except BaseException:
            io_close(fd)
            raise
        return fd


def _lies_at(path: str, opened: os.stat_result) -> bool:
    """Return whether a path still leads to what was opened, as far as this process may look."""
    try:
        return os.path.samestat(os.stat(path), opened)  # noqa: PTH116 - a `Path` takes longer, and each commit looks
    except OSError as error:
        return error.errno not in {errno.ENOENT, errno.ENOTDIR}


def _target(link: str) -> str:
    """Return the path to which a link leads; "" where the system has no such links."""
    try:
        return os.readlink(link)  # noqa: PTH115 - the same
    except OSError:
        return ""


def misplaced(path: object) -> PoisonedError:
    """Return the error for a journal that does not lie at its path any more."""
    return PoisonedError(
        f"{path} is missing, or another one than was opened: the store was moved, deleted or replaced while in use;"
        " nothing more is written; close the store and open it again where it is, or restore a backup"
    )


def write_all(io: JournalIO, fd: int, data: bytes | bytearray, offset: int, written: int = 0) -> None:
    """Write the bytes after the first `written` ones, as long as the system accepts some."""
    while written < len(data):
        more = io.pwrite(fd, memoryview(data)[written:] if written else data, offset + written)
        if not more:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written += more


def io_close(fd: int) -> None:
    """Close a descriptor; the flush before it reported any error."""
    with suppress(OSError):
        os.close(fd)
