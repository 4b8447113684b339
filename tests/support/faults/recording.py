"""Record a store's disk calls, so that every power failure between them can be built."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from eventlog.integrity.heads import StoreHead
from eventlog.log.commit import Committed
from eventlog.log.embedded.filesystem import JournalIO
from eventlog.log.embedded.segments.environment import Environment

if TYPE_CHECKING:
    from typing_extensions import Buffer

Acknowledged: TypeAlias = Committed | StoreHead
"""Durable units reported to a caller: one append, or everything a head covers."""


@dataclass(frozen=True)
class Call:
    """One recorded call: `what` to the file `file`, or to names; and the watermark then."""

    what: str
    file: int = -1
    offset: int = 0
    data: bytes = b""
    names: tuple[str, ...] = ()
    acknowledged: Acknowledged | None = None
    mark: bytes = b""


@dataclass
class Recording:
    """The store's files before the first call, and the calls in their order."""

    files: dict[int, bytes]
    """The numbered journal files' contents on disk."""
    names: dict[str, int]
    """The journal files' names."""
    lmdb: bytes
    others: dict[str, bytes]
    """The small files that never change, with contents."""
    calls: list[Call] = field(default_factory=list[Call])


class _RecordingIO(JournalIO):
    """Records every call that changes the disk, in the order of their completion."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._lock = RLock()
        self._numbers: dict[int, int] = {}
        """By inode: a reused inode counts as another file."""
        self.recording: Recording | None = None

    def note(self, what: str, **more: Any) -> None:
        """Record one call."""
        with self._lock:
            if self.recording is not None:
                self.recording.calls.append(Call(what, mark=(self._store / "mark").read_bytes(), **more))

    def begin(self) -> Recording:
        """Take what is there as on disk, and record from here on."""
        with self._lock:
            files = sorted((self._store / "journal").iterdir())
            self._numbers = {file.stat().st_ino: number for number, file in enumerate(files)}
            self.recording = Recording(
                dict(enumerate(file.read_bytes() for file in files)),
                {file.name: number for number, file in enumerate(files)},
                (self._store / "lmdb" / "data.mdb").read_bytes(),
                {name: (self._store / name).read_bytes() for name in ("format", "turn", "lock", "open")},
            )
            return self.recording

    def _number(self, fd: int, *, new: bool = False) -> int:
        inode = os.fstat(fd).st_ino
        if new or inode not in self._numbers:
            self._numbers[inode] = max(self._numbers.values(), default=0) + len(self._numbers) + 1
        return self._numbers[inode]

    def open(self, path: str, flags: int) -> int:
        """Open a file; a new file's name is not on disk yet."""
        with self._lock:
            new = bool(flags & os.O_CREAT) and not Path(path).exists()
            fd = super().open(path, flags)
            if new:
                self.note("create", file=self._number(fd, new=True), names=(Path(path).name,))
            else:
                assert not flags & os.O_TRUNC, "a file that is there is not begun anew"
            return fd

    def pwrite(self, fd: int, data: Buffer, offset: int) -> int:
        """Write."""
        with self._lock:
            written = super().pwrite(fd, data, offset)
            self.note("write", file=self._number(fd), offset=offset, data=bytes(data)[:written])
            return written

    def fdatasync(self, fd: int) -> None:
        """Flush; the flush counts once it is complete."""
        super().fdatasync(fd)
        self.note("flush", file=self._number(fd))

    def rename(self, old: str, new: str) -> None:
        """Rename."""
        with self._lock:
            super().rename(old, new)
            self.note("rename", names=(Path(old).name, Path(new).name))

    def unlink(self, path: str) -> None:
        """Remove."""
        with self._lock:
            super().unlink(path)
            self.note("unlink", names=(Path(path).name,))

    def sync_directory(self, path: str) -> None:
        """Flush names; the flush counts once it is complete."""
        super().sync_directory(path)
        self.note("flush names")


@contextmanager
def recorded(
    store: Path, patch: pytest.MonkeyPatch
) -> Generator[tuple[JournalIO, Callable[[], Recording], Callable[[Acknowledged], None]]]:
    """I/O to open `store` with, the start of its recording, and a recorder of acks."""
    io = _RecordingIO(store)
    data = store / "lmdb" / "data.mdb"
    writing = Environment.writing

    def noted(self: Environment, job: Callable[[Any], Any]) -> Any:
        if io.recording is None:
            return writing(self, job)
        io.note("lmdb begins")
        try:
            return writing(self, job)
        finally:
            io.note("lmdb ends", data=data.read_bytes())

    def acknowledge(what: Acknowledged) -> None:
        io.note("acknowledged", acknowledged=what)

    with patch.context() as patched:
        patched.setattr(Environment, "writing", noted)
        yield io, io.begin, acknowledge
    io.recording = None
