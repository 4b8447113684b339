"""The append-only files in front of LMDB: a cursor that reads frames, and appends them at the end.

`frames.py` describes the bytes.  Files are filled with zeros once, ahead of need (`make_spare`), and are used again
under the next number once they are folded (`recycle`): overwriting blocks that exist costs half of what appending
to a file costs.  The first file of a store is short; a new one is up to four times as long as the one before, up to `file_bytes`.  Names in the directory: `NNNNNNNNNN.log`, and
`spare-…` for files that wait to be used.

The cursor stands at an address; everything before it has been read or written.  Not thread-safe, and a writer
must hold the writers' lock and have read up to the end (`adopt`) before it appends.  Imported by this package
only.

What an append does when the system refuses:
* no room (`ENOSPC`, `EDQUOT`) before the flush: what was written is erased, `BusyError`, and the log goes on;
* anything else, and any failed flush: the journal is poisoned (`PoisonedError`), because nobody knows any more
  what is on disk.  The frame's header is blanked as far as that works, so that no other process takes it for good.
"""

from __future__ import annotations

import errno
import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING

from eventlog.errors import BusyError, DamagedError, PoisonedError
from eventlog.log import frames
from eventlog.log.filesystem import unreadable
from eventlog.log.frames import FILE_HEADER_BYTES, FRAME_HEADER_BYTES, OFFSET_MASK, Frame, FrameHeader

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from eventlog.log.filesystem import JournalIO

__all__ = ["Journal"]

FIRST_FILE_BYTES = 256 << 10
"""A store's first file, and one that is needed before its spare is ready: small, so that it is quick to fill."""
_GROWTH = 4
"""How many times longer than the current file a new one is made."""
_WINDOW = 1 << 20
_PIECE = 1 << 20
_SPARES = 2
_KEEP_BUFFER = 1 << 20
_LOG_NAME = re.compile(r"(\d{10})\.log\Z")
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
_BLANK = bytes(FRAME_HEADER_BYTES)


class Journal:
    """A cursor over the journal files of one store."""

    def __init__(self, directory: Path, io: JournalIO, *, writable: bool, file_bytes: int) -> None:
        self._directory = directory
        self._io = io
        self._flags = os.O_RDWR if writable else os.O_RDONLY
        self._file_bytes = file_bytes
        self._fd = -1
        self._salt = b""
        self._size = 0
        self._buffer = bytearray()
        self.address = 0
        """Where the next frame begins."""
        self.position = 0
        """Position of the last event before `address`."""

    @classmethod
    def create(cls, directory: Path, io: JournalIO, file_bytes: int, position: int = 0) -> int:
        """Write the first file of a new store, behind the event at `position`; returns the address of its first frame."""
        journal = cls(directory, io, writable=True, file_bytes=file_bytes)
        try:
            fd, _ = journal._begin_file(1, position)
            io_close(fd)
        finally:
            journal.close()
        return frames.address_of(1, FILE_HEADER_BYTES)

    def seek(self, address: int, position: int) -> None:
        """Put the cursor somewhere else."""
        self.close()
        self.address = address
        self.position = position

    def close(self) -> None:
        """Close the current file."""
        if self._fd >= 0:
            io_close(self._fd)
            self._fd = -1

    # --- reading

    def read(self, until: int) -> Iterator[Frame]:
        """The frames from the cursor up to the address `until`; the cursor moves along.

        Stops early, with the cursor before `until`, where there is no valid frame: because the file was
        recycled, or because it is damaged; the caller knows which, by how far the journal is folded.
        """
        window = b""
        start = 0
        while self.address < until:
            if not self._open_current():
                return
            before = self.address
            offset = before & OFFSET_MASK
            at = offset - start
            if at < 0 or at + FRAME_HEADER_BYTES > len(window):
                window, start, at = self._load(offset, until), offset, 0
            header = self._header(window, at)
            if header is not None and at + header.total > len(window):
                window, start, at = self._pread(self._fd, header.total, offset), offset, 0
            frame = self._step(header, window, at)
            if frame is not None:
                yield frame
            elif self.address == before:
                return
            else:  # the file has ended
                window, start = b"", 0

    def adopt(self) -> Iterator[Frame]:
        """Valid frames beyond the mark, which a process wrote that died before it could say so.

        Only under the writers' lock.  A writer flushes them before it hands them out.
        """
        flushed = -1
        while self._open_current():
            offset = self.address & OFFSET_MASK
            header = self._header(self._pread(self._fd, FRAME_HEADER_BYTES, offset), 0)
            if header is None:
                return
            whole = self._pread(self._fd, header.total, offset)
            if not self._valid(header, whole, 0, offset):
                return
            if self._flags == os.O_RDWR and flushed != frames.sequence_of(self.address):
                self._flush()
                flushed = frames.sequence_of(self.address)
            frame = self._step(header, whole, 0)
            if frame is not None:
                yield frame

    def continues(self) -> bool:
        """Whether there may be a frame at the cursor: a cheap look before `adopt`."""
        if not self._open_current():
            return True
        return self._pread(self._fd, 8, self.address & OFFSET_MASK) == self._salt

    def verify_end(self) -> None:
        """Raise `DamagedError` if the cursor is not the end of the journal but a hole in it.

        A torn or stale frame ends the log.  A valid frame of the same salt behind it, or of a following file,
        means that the bad one was once good.
        """
        if not self._open_current():
            raise self._damaged("a journal file is missing")
        offset = self.address & OFFSET_MASK
        while rest := self._pread(self._fd, _PIECE + frames.FRAME_HEADER_BYTES, offset):
            at = rest.find(self._salt)
            while 0 <= at < _PIECE:
                header = self._header(rest, at)
                if header is not None:
                    payload = self._pread(self._fd, header.length, offset + at + FRAME_HEADER_BYTES)
                    if frames.payload_matches(header, payload, self._salt, offset + at):
                        raise self._damaged("a journal frame is damaged: valid ones follow it")
                at = rest.find(self._salt, at + 1)
            offset += _PIECE
        following = frames.sequence_of(self.address) + 1
        if self.has_frames(self._directory, following, self._io) or self._path(following + 1).exists():
            raise self._damaged("a journal frame is damaged: a file with valid ones follows it")

    def _pread(self, fd: int, size: int, offset: int) -> bytes:
        try:
            return self._io.pread(fd, size, offset)
        except OSError as error:
            raise unreadable(self._path(frames.sequence_of(self.address)), error) from error

    def _load(self, offset: int, until: int) -> bytes:
        """A window that begins at `offset`: as much as is wanted, within reason."""
        size = _WINDOW
        if frames.sequence_of(until) == frames.sequence_of(self.address):
            size = min(size, (until & OFFSET_MASK) - offset)
        return self._pread(self._fd, max(size, FRAME_HEADER_BYTES), offset)

    def _header(self, data: bytes, at: int) -> FrameHeader | None:
        if len(data) - at < FRAME_HEADER_BYTES:
            return None
        return frames.parse_frame_header(data, at, self._salt)

    def _valid(self, header: FrameHeader, data: bytes, at: int, offset: int) -> bool:
        begin = at + FRAME_HEADER_BYTES
        payload = memoryview(data)[begin : begin + header.length]
        return header.position == self.position and frames.payload_matches(header, payload, self._salt, offset)

    def _step(self, header: FrameHeader | None, data: bytes, at: int) -> Frame | None:
        """Move over one frame; None if it is not valid, or if it ends the file (then the cursor moved)."""
        offset = self.address & OFFSET_MASK
        if header is None or not self._valid(header, data, at, offset):
            return None
        if header.kind == frames.END:
            self.seek(frames.address_of(frames.sequence_of(self.address) + 1, FILE_HEADER_BYTES), self.position)
            return None
        begin = at + FRAME_HEADER_BYTES
        records = frames.decode_records(memoryview(data)[begin : begin + header.length], self.position)
        for record in records:
            if isinstance(record, frames.CommitRecord):
                self.position = record.position + record.count - 1
        self.address += header.total
        return Frame(self.address, header.total, self.position, records)

    def _open_current(self) -> bool:
        """Open the cursor's file; False if there is none of that number."""
        if self._fd >= 0:
            return True
        sequence = frames.sequence_of(self.address)
        try:
            fd = self._io.open(str(self._path(sequence)), self._flags)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise unreadable(self._path(sequence), error) from error
        try:
            self._salt, position = frames.parse_file_header(self._pread(fd, FILE_HEADER_BYTES, 0), sequence)
            self._check_continues(position)
            self._size = os.fstat(fd).st_size
        except BaseException:
            io_close(fd)
            raise
        self._fd = fd
        return True

    def _check_continues(self, position: int) -> None:
        if self.address & OFFSET_MASK == FILE_HEADER_BYTES and position != self.position:
            raise self._damaged(f"a journal file continues position {position}, not {self.position}")

    @classmethod
    def has_frames(cls, directory: Path, sequence: int, io: JournalIO) -> bool:
        """Whether a file begins with a valid frame."""
        try:
            fd = io.open(str(directory / f"{sequence:010}.log"), os.O_RDONLY)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise unreadable(directory, error) from error
        try:
            salt, _ = frames.parse_file_header(io.pread(fd, FILE_HEADER_BYTES, 0), sequence)
            data = io.pread(fd, FRAME_HEADER_BYTES, FILE_HEADER_BYTES)
            header = frames.parse_frame_header(data, 0, salt) if len(data) == FRAME_HEADER_BYTES else None
            if header is None:
                return False
            payload = io.pread(fd, header.length, FILE_HEADER_BYTES + FRAME_HEADER_BYTES)
            return frames.payload_matches(header, payload, salt, FILE_HEADER_BYTES)
        except OSError as error:
            raise unreadable(directory, error) from error
        finally:
            io_close(fd)

    def _damaged(self, message: str) -> DamagedError:
        return DamagedError(f"{message} ({self._where()})", position=self.position + 1)

    def _where(self) -> str:
        return f"file {frames.sequence_of(self.address)}, byte {self.address & OFFSET_MASK}"

    # --- writing

    def append(self, records: list[frames.Record], position: int) -> int:
        """Write one frame and flush it; `position` is that of its last event.  Returns its bytes."""
        buffer = self._buffer
        frames.encode_records(records, buffer)
        total = len(buffer) + 7 & ~7
        if not self._open_current():
            raise self._damaged("a journal file is missing")
        offset = self.address & OFFSET_MASK
        if offset + total + FRAME_HEADER_BYTES > self._size and offset > FILE_HEADER_BYTES:
            self._switch()
            offset = FILE_HEADER_BYTES
        frames.seal(buffer, self._salt, self.position, len(records), offset)
        self._put(offset, buffer)
        self.address += total
        self.position = position
        if total > _KEEP_BUFFER:
            self._buffer = bytearray()
        return total

    def half_full(self) -> bool:
        """Whether a file should be made ready to follow the current one."""
        return (self.address & OFFSET_MASK) * 2 > self._size

    def make_spare(self) -> None:
        """Fill a file with zeros for later, unless one waits.  Needs no lock; may run in another thread."""
        if self._spares():
            return
        name = self._io.salt().hex()
        half_made = self._directory / f"spare-{name}.tmp"
        try:
            io_close(self._fill(str(half_made), min(self._file_bytes, self._size * _GROWTH)))
            self._io.rename(str(half_made), str(self._directory / f"spare-{name}"))
        except OSError:
            with suppress(OSError):
                self._io.unlink(str(half_made))
            raise

    def recycle(self, before: int) -> None:
        """Set free the files that end before the folded address.  Needs no lock; may run in another thread.

        Several processes may do it at once: a name that is gone was somebody else's work.
        """
        for path in sorted(self._directory.iterdir()):
            match = _LOG_NAME.match(path.name)
            if match is None or int(match[1]) >= frames.sequence_of(before):
                continue
            with suppress(FileNotFoundError):
                fits = self._size <= path.stat().st_size <= self._file_bytes
                if fits and len(self._spares()) < _SPARES:
                    self._io.rename(str(path), str(self._directory / f"spare-{match[1]}"))
                else:
                    self._io.unlink(str(path))

    def remove_half_made(self) -> None:
        """Remove what processes left that died while they filled a file."""
        for path in self._directory.glob("spare-*.tmp"):
            with suppress(FileNotFoundError):
                self._io.unlink(str(path))

    def _switch(self) -> None:
        """Go on in the next file.  The next file is complete on disk before this one is ended."""
        sequence = frames.sequence_of(self.address) + 1
        try:
            fd, salt = self._begin_file(sequence, self.position)
        except OSError as error:
            raise self._refused(error, erased=True) from error
        try:
            offset = self.address & OFFSET_MASK
            self._put(offset, frames.encode_end(self._salt, self.position, offset))
        except BaseException:
            io_close(fd)
            raise
        self.seek(frames.address_of(sequence, FILE_HEADER_BYTES), self.position)
        self._fd, self._salt, self._size = fd, salt, os.fstat(fd).st_size

    def _begin_file(self, sequence: int, position: int) -> tuple[int, bytes]:
        """Make file `sequence` from a spare, or from nothing; returns its descriptor and salt."""
        salt = self._io.salt()
        name = self._directory / f"{sequence:010}.log"
        fd = -1
        try:
            path, fd = self._take_spare(sequence)
            header = frames.pack_file_header(sequence, salt, position)
            self._write_all(fd, header, 0)
            self._io.fdatasync(fd)
            self._io.rename(path, str(name))
            self._io.sync_directory(str(self._directory))
        except BaseException:
            if fd >= 0:
                io_close(fd)
            raise
        return fd, salt

    def _take_spare(self, sequence: int) -> tuple[str, int]:
        for spare in self._spares():
            path = str(self._directory / spare)
            with suppress(FileNotFoundError):
                return path, self._io.open(path, os.O_RDWR)
        path = str(self._directory / f"spare-{sequence}.tmp")
        return path, self._fill(path, min(FIRST_FILE_BYTES, self._file_bytes))

    def _fill(self, path: str, size: int) -> int:
        fd = self._io.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        try:
            for offset in range(0, size, _PIECE):
                self._write_all(fd, bytes(min(_PIECE, size - offset)), offset)
            self._io.fdatasync(fd)
        except BaseException:
            io_close(fd)
            raise
        return fd

    def _spares(self) -> list[str]:
        names = [path.name for path in self._directory.iterdir()]
        return sorted(name for name in names if name.startswith("spare-") and not name.endswith(".tmp"))

    def _put(self, offset: int, data: bytes | bytearray) -> None:
        """Write and flush, or erase and raise."""
        try:
            self._write_all(self._fd, data, offset)
        except OSError as error:
            raise self._refused(error, erased=self._erase(offset)) from error
        try:
            self._io.fdatasync(self._fd)
        except OSError as error:
            self._erase(offset)
            raise PoisonedError(f"a flush of the journal failed: {error.strerror} ({self._where()})") from error

    def _write_all(self, fd: int, data: bytes | bytearray, offset: int) -> None:
        """Write, and go on after a short write, as long as anything is taken."""
        written = self._io.pwrite(fd, data, offset)
        while written < len(data):
            more = self._io.pwrite(fd, memoryview(data)[written:], offset + written)
            if not more:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            written += more

    def _erase(self, offset: int) -> bool:
        """Blank a frame's header, on disk; False if that failed."""
        try:
            whole = self._io.pwrite(self._fd, _BLANK, offset) == len(_BLANK)
            self._io.fdatasync(self._fd)
        except OSError:
            return False
        return whole

    def _flush(self) -> None:
        try:
            self._io.fdatasync(self._fd)
        except OSError as error:
            raise PoisonedError(f"a flush of the journal failed: {error.strerror} ({self._where()})") from error

    def _refused(self, error: OSError, *, erased: bool) -> BusyError | PoisonedError:
        if error.errno in _NO_ROOM and erased:
            return BusyError(f"no room for the journal: {error.strerror}; nothing of this append was written")
        return PoisonedError(f"a write to the journal failed: {error.strerror} ({self._where()})")

    def _path(self, sequence: int) -> Path:
        return self._directory / f"{sequence:010}.log"


def io_close(fd: int) -> None:
    """Close a descriptor; what a close could report was reported by the flush before it."""
    with suppress(OSError):
        os.close(fd)
