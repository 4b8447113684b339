"""A cursor over the journal files, which reads frames and appends them at the end.

`frames.py` has the bytes, `files.py` makes and reuses the files. A store that is closed gives up
its journal's space: the journal continues in a file that is a header and nothing else (`renew`);
the next append makes it longer, and the one after begins a full file.

Everything before the cursor's address has been read or written. Not thread-safe. A writer must hold
the writers' lock and have read to the end (`adopt`) before it appends.

When the system refuses a step of an append:

* An error while the next file is made, or no room (`ENOSPC`, `EDQUOT`) before the flush, is
  `BusyError`, and the log goes on: nothing of the append is on disk, or it is erased.
* Any other error, and every failed flush, poisons the journal (`PoisonedError`): it is unknown what
  is on disk. The frame's header is blanked if possible, so that no other process adopts the frame.

A file that was flushed must lie at its path. Else the store was moved, deleted or replaced, and who
opens it does not find the frame: it is erased, and the journal is poisoned.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from eventlog.errors import BusyError, DamagedError, PoisonedError, TooNewError
from eventlog.log.embedded.filesystem import NO_ROOM, data_end, unreadable
from eventlog.log.embedded.journal import frames
from eventlog.log.embedded.journal.files import FIRST_FILE_BYTES, JournalFiles, io_close, misplaced, write_all
from eventlog.log.embedded.journal.frames import FILE_HEADER_BYTES, FRAME_HEADER_BYTES, OFFSET_MASK, Frame, FrameHeader

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from eventlog.log.embedded.filesystem import JournalIO

_WINDOW = 1 << 20
_PIECE = 1 << 20
_KEEP_BUFFER = 1 << 20
_BLANK = bytes(FRAME_HEADER_BYTES)


class Journal:
    """A cursor over the journal files of one store."""

    def __init__(self, directory: Path, io: JournalIO, *, writable: bool, file_bytes: int) -> None:
        self._directory = directory
        self._io = io
        self._flags = os.O_RDWR if writable else os.O_RDONLY
        self._files = JournalFiles(directory, io, file_bytes)
        self._fd = -1
        self._salt = b""
        self.erased: bool = False
        """Whether a frame was refused for its place, and nothing is left of it."""
        self._size = 0
        self.middle: int = 0
        """Address in the middle of the current file: from there on a spare should be made."""
        self._buffer = bytearray()
        self._unflushed: OSError | None = None
        """Why a flush failed: from then on it is unknown what is on disk."""
        self.address: int = 0
        """Where the next frame begins."""
        self.position: int = 0
        """Position of the last event before `address`."""

    @classmethod
    def create(cls, directory: Path, io: JournalIO, file_bytes: int, position: int = 0, sequence: int = 1) -> int:
        """Write the first file of new files; return the address of its first frame.

        `position` is that of the last event before it, `sequence` its number.
        """
        journal = cls(directory, io, writable=True, file_bytes=file_bytes)
        try:
            fd, _ = journal._files.begin(sequence, position)
            io_close(fd)
        finally:
            journal.close()
        return frames.address_of(sequence, FILE_HEADER_BYTES)

    def seek(self, address: int, position: int) -> None:
        """Move the cursor; `position` -1 means unknown, which suits `continues` only."""
        self.close()
        self.address = address
        self.position = position

    def close(self) -> None:
        """Close the current file."""
        fd, self._fd = self._fd, -1  # first: an interrupt must not leave a number that another file may get
        if fd >= 0:
            io_close(fd)

    # --- reading

    def read(self, until: int) -> Iterator[Frame]:
        """Yield the frames from the cursor up to the address `until`, moving the cursor.

        It stops early, before `until`, where there is no valid frame: because the file was
        recycled, or because it is damaged. The caller can tell by how far the journal is folded.
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
        """Yield valid frames beyond the watermark, whose writer died before it moved it.

        Only under the writers' lock. A writable journal flushes them first.
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
        """Return whether there may be a frame at the cursor: a cheap test before `adopt`."""
        if self._fd < 0 and not self._open_current():
            return True
        try:
            return self._io.pread(self._fd, 8, self.address & OFFSET_MASK) == self._salt
        except OSError as error:
            raise unreadable(self._files.path(frames.sequence_of(self.address)), error) from error

    def verify_end(self) -> None:
        """Raise `DamagedError` if the cursor is not the end of the journal but a hole in it.

        A torn or stale frame ends the log. A valid frame of the same salt behind it, or of a later
        file, means that the invalid one was once valid.
        """
        if not self._open_current():
            raise self._damaged("a journal file is missing")
        offset = self.address & OFFSET_MASK
        end = data_end(self._fd)
        bytes_left = 2 * end  # of frames that are not valid: more than chance and a torn one leave
        while offset < end and (window := self._pread(self._fd, _PIECE + frames.FRAME_HEADER_BYTES, offset)):
            at = window.find(self._salt)
            while 0 <= at < _PIECE:
                header = self._header(window, at)
                if header is not None:
                    payload = self._pread(self._fd, header.length, offset + at + FRAME_HEADER_BYTES)
                    if frames.payload_matches(header, payload, self._salt, offset + at):
                        raise self._damaged("a journal frame is damaged: valid ones follow it")
                    bytes_left -= len(payload)
                    if bytes_left < 0:
                        raise self._damaged("a journal frame is damaged: others that are follow it")
                at = window.find(self._salt, at + 1)
            offset += _PIECE
        following = frames.sequence_of(self.address) + 1
        if self.has_frames(self._directory, following, self._io) or self._files.path(following + 1).exists():
            raise self._damaged("a journal frame is damaged: a file with valid ones follows it")

    def _pread(self, fd: int, size: int, offset: int) -> bytes:
        try:
            return self._io.pread(fd, size, offset)
        except OSError as error:
            raise unreadable(self._files.path(frames.sequence_of(self.address)), error) from error

    def _load(self, offset: int, until: int) -> bytes:
        """Return a window of the file that begins at `offset`."""
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
        """Move over one frame; None if it is invalid, or ends the file (then the cursor moved)."""
        offset = self.address & OFFSET_MASK
        if header is None or not self._valid(header, data, at, offset):
            return None
        if header.kind not in frames.KINDS:
            raise TooNewError(f"a journal frame of kind {header.kind} ({self._where()})", position=self.position + 1)
        if header.kind == frames.END:
            self.seek(frames.address_of(frames.sequence_of(self.address) + 1, FILE_HEADER_BYTES), self.position)
            return None
        begin = at + FRAME_HEADER_BYTES
        records = frames.decode_records(memoryview(data)[begin : begin + header.length], self.position)
        position = self.position
        for record in records:
            if isinstance(record, frames.CommitRecord):
                if record.position <= position:
                    raise self._damaged("positions in the journal do not increase")
                position = record.position + record.count - 1
        self.position = position
        self.address += header.total
        return Frame(self.address, header.total, self.position, records)

    def _open_current(self) -> bool:
        """Open the cursor's file; False if there is none of that number."""
        if self._fd >= 0:
            return True
        sequence = frames.sequence_of(self.address)
        try:
            fd = self._io.open(str(self._files.path(sequence)), self._flags)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise unreadable(self._files.path(sequence), error) from error
        try:
            self._salt, position = frames.parse_file_header(self._pread(fd, FILE_HEADER_BYTES, 0), sequence)
            self._check_continues(position)
            self._opened(fd)
        except BaseException:
            io_close(fd)
            raise
        return True

    def _opened(self, fd: int) -> None:
        """Use a descriptor as the cursor's file."""
        self._size = self._files.use(frames.sequence_of(self.address), fd)
        self.middle = (self.address & ~OFFSET_MASK) + self._size // 2
        self._fd = fd

    def _check_continues(self, position: int) -> None:
        if self.address & OFFSET_MASK == FILE_HEADER_BYTES and self.position not in {position, -1}:
            raise self._damaged(f"a journal file continues position {position}, not {self.position}")

    @classmethod
    def has_frames(cls, directory: Path, sequence: int, io: JournalIO) -> bool:
        """Return whether a file begins with a valid frame."""
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

    def prepare(self, records: list[frames.Record]) -> tuple[int, int]:
        """Encode one frame for `put`; return the address behind it, and its bytes.

        Continues in the next file if this one has no room for it.
        """
        if len(self._buffer) > _KEEP_BUFFER:
            self._buffer = bytearray()
        buffer = self._buffer
        frames.encode_records(records, buffer)
        total = len(buffer) + 7 & ~7
        if self._fd < 0 and not self._open_current():
            raise self._damaged("a journal file is missing")
        offset = self.address & OFFSET_MASK
        if offset + total + FRAME_HEADER_BYTES > self._size and offset > FILE_HEADER_BYTES:
            self._switch()
            offset = FILE_HEADER_BYTES
        frames.finish_frame(buffer, self._salt, self.position, len(records), offset)
        return self.address + total, total

    def put(self, frame: bytes | bytearray | None = None) -> None:
        """Write a frame, by default the prepared one, and flush it; else erase it and raise.

        May be repeated until the caller moves the cursor behind it (`address`, `position`).
        """
        offset = self.address & OFFSET_MASK
        if self._unflushed is None:
            data = self._buffer if frame is None else frame
            try:
                written = self._io.pwrite(self._fd, data, offset)
                if written != len(data):
                    write_all(self._io, self._fd, data, offset, written)
            except OSError as error:
                raise self._refused(error, erased=self._erase(offset)) from error
            try:
                self._io.fdatasync(self._fd)
            except OSError as error:
                self._unflushed = error  # first: after an interrupt another flush must not be trusted
        if self._unflushed is not None:
            self._erase(offset)
            reason = self._unflushed.strerror
            raise PoisonedError(f"a flush of the journal failed: {reason} ({self._where()})") from self._unflushed
        if not self._files.used_is_there():
            self.erased = self._erase(offset)
            raise misplaced(self._files.used)

    def make_spare(self) -> None:
        """Make a file for later, unless one waits; needs no lock."""
        self._files.make_spare(self._size)

    def recycle(self, before: int) -> None:
        """Free the files that end before the folded address; needs no lock."""
        self._files.recycle(before, self._size)

    def renew(self) -> int:
        """Continue in a file that is only a header; return the address of its end.

        For a journal that is folded to its end, under the writers' lock. The earlier files may be
        removed (`remove_before`) once that address counts as folded.
        """
        if not self._open_current():
            raise self._damaged("a journal file is missing")
        self._switch(short=True)
        return self.address

    def remove_before(self, before: int) -> None:
        """Remove the files that end before the folded address, and the spares.

        No other process has the store open.
        """
        self._files.remove(before)

    def takes_room(self) -> bool:
        """Return whether the files take enough space to be worth giving up."""
        return self._size > FIRST_FILE_BYTES or bool(self._files.spares())

    def remove_half_made(self) -> None:
        """Remove files of processes that died while they filled them."""
        self._files.remove_half_made()

    def _switch(self, *, short: bool = False) -> None:
        """Continue in the next file, which is complete on disk before this one is ended."""
        sequence = frames.sequence_of(self.address) + 1
        try:
            fd, salt = self._files.begin(sequence, self.position, short=short)
        except OSError as error:
            raise BusyError(
                f"the next journal file cannot be begun: {error.strerror}; nothing of this append was written"
            ) from error
        try:
            self.put(frames.encode_end(self._salt, self.position, self.address & OFFSET_MASK))
        except BaseException:
            io_close(fd)
            raise
        self.seek(frames.address_of(sequence, FILE_HEADER_BYTES), self.position)
        self._salt = salt
        self._opened(fd)

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
        if error.errno in NO_ROOM and erased:
            return BusyError(f"no room for the journal: {error.strerror}; nothing of this append was written")
        return PoisonedError(f"a write to the journal failed: {error.strerror} ({self._where()})")
