"""A file of records that is read on as it grows: only the lines that came are read.

The state of the reader stays in memory between two reads, and so does the place in the store up to
which the file agrees. A line counts once its line feed is there. The file goes on where it was if
it is the same file, is longer, and has the same bytes at the end of what was read.
"""

from __future__ import annotations

from io import IOBase
from typing import TYPE_CHECKING, BinaryIO, cast

from msgspec.structs import replace

from eventlog.importers.one_file import with_content
from eventlog.importers.receipts import FileStamp
from eventlog.importers.reconcile import Reconciliation

if TYPE_CHECKING:
    from eventlog.importers.common.importer import RecordReader, Report
    from eventlog.store import Store

END = 4096
"""Bytes at the end of what was read by which a file is known again."""
PIECE = 1 << 16
"""Bytes in which the last line feed is looked for at a time."""


class GrowingFile:
    """One file while it is followed; after an error it is of no use."""

    def __init__(self, store: Store, reader: RecordReader, report: Report, scope: str | None) -> None:
        """Begin at the beginning of a file; `reader` and `report` are those of its format.

        `scope` is as in `import_file`.
        """
        self._reader = reader
        self._report = report
        self._sessions = Reconciliation(store, report, scope)
        self._stamp: FileStamp | None = None
        """The file when it was read last."""
        self.read: int = 0
        """Bytes that were read."""
        self._lines = 0
        self._end = b""

    def goes_on(self, file: BinaryIO, stamp: FileStamp) -> bool:
        """Whether an open file still begins with what was read."""
        if self._stamp is None or self._stamp[:2] != stamp[:2] or stamp.size <= self._stamp.size:
            return False
        file.seek(self.read - len(self._end))
        return file.read(len(self._end)) == self._end

    def read_on(self, file: BinaryIO, stamp: FileStamp) -> Report:
        """Append what is new in the whole lines that came; return the report of them."""
        report, begin = self._report, self.read
        events, skipped = report.events, len(report.skipped)
        piece = _Lines(file, begin, _end_of_lines(file, begin, stamp.size), self._end)
        batches = self._reader.read(cast("BinaryIO", piece), self._lines)
        self._sessions.go_on()
        self._sessions.take(batches if begin else with_content(batches, report, stamp.size))
        self._sessions.finish()
        self._stamp, self.read, self._end = stamp, piece.at, piece.end
        self._lines += piece.count
        return replace(self.report(), events=report.events - events, skipped=report.skipped[skipped:])

    def report(self) -> Report:
        """Return the report of the file as it is now."""
        report = self._report
        return replace(
            report,
            sessions=self._sessions.stored_ids(report.sessions),
            skipped=[*report.skipped, *self._reader.unsettled()],
        )


class _Lines(IOBase):
    """The whole lines of a file between two places; `end` has the last bytes that were read."""

    def __init__(self, file: BinaryIO, begin: int, stop: int, end: bytes) -> None:
        super().__init__()
        self._file = file
        self._stop = stop
        self.at = begin
        self.end = end
        self.count = 0
        file.seek(begin)

    def readline(self, size: int | None = None, /) -> bytes:
        """Read the next line, or up to `size` bytes of it."""
        left = self._stop - self.at
        data = self._file.readline(left if size is None else min(size, left))
        self.at += len(data)
        self.count += data.endswith(b"\n")
        self.end = (self.end + data)[-END:]
        return data


def _end_of_lines(file: BinaryIO, begin: int, size: int) -> int:
    """Return the place behind the last line feed between two places, `begin` if there is none."""
    at = size
    while at > begin:
        at, end = max(begin, at - PIECE), at
        file.seek(at)
        found = file.read(end - at).rfind(b"\n")
        if found >= 0:
            return at + found + 1
    return begin
