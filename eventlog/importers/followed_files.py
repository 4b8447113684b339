"""Files are imported as they change, until the program stops.

A file that is only appended to, such as a transcript of Claude Code or Codex, is read on from where
it was, as long as it is among the `MOST` that changed last (`growing_file.py`). Any other one is
imported again as a whole once it rests, and at most a tenth of the time is spent on it.
`watched_files.py` says when to look at which file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from time import monotonic, time_ns
from typing import BinaryIO, NamedTuple

from eventlog.append.backoff import Backoff
from eventlog.errors import ConflictError, EventlogError, ImportFormatError, RetryError, StorageError
from eventlog.errors.base import brief
from eventlog.importers import receipts
from eventlog.importers.common.importer import GrowingImporter, Report
from eventlog.importers.common.json_lines import read_beginning
from eventlog.importers.common.target import require_scope
from eventlog.importers.formats import FORMATS, detect_in
from eventlog.importers.growing_file import GrowingFile
from eventlog.importers.one_file import ZIP, import_file
from eventlog.importers.receipts import FileStamp, stamp_of
from eventlog.importers.watched_files import Folder, WatchedFiles
from eventlog.store import Store
from eventlog.validation import require, require_or_none

MOST = 8
"""Files whose readers stay in memory."""
SHARE = 10
"""A file that is imported as a whole rests this many times as long as that took."""
REST = 1_000_000_000
"""Nanoseconds without a change after which a document, or a last line, counts as whole."""
RETRY = 1.0
"""Seconds after which a file is tried again that another program held."""


class FollowedFile(NamedTuple):
    """A new or changed file with the report of its import, or the error."""

    path: str
    report: Report | None
    error: Exception | None = None


def follow(
    store: Store,
    paths: Sequence[str | os.PathLike[str] | Folder],
    *,
    format: str | None = None,
    scope: str | None = None,
) -> Iterator[FollowedFile | None]:
    """Import files now, and their news whenever they change, without an end.

    `paths` are files, which need not exist yet, and folders, whose files are followed, new ones
    too. `format` and `scope` are as in `import_file`. Yields each file after its first import, then
    after each import that found a change, and None when all that changed is imported. The file's
    report counts the events and lists the skipped records that are new since the report before.

    Any number of programs may follow the same files. A file that is replaced, truncated or changed
    is compared from its beginning. A line that is not whole is imported when it is, or when the
    file has rested.

    `ImportFormatError` for an unknown `format`, `StorageError` when the store cannot be written.
    """
    require(Store, store, "a store is a Store")
    require_or_none(str, format, "a format is named by a str")
    require_or_none(str, scope, "a scope is a str")
    if format is not None and format not in FORMATS:
        raise ImportFormatError(f"{brief(format)} is no format that can be imported (known: {', '.join(FORMATS)})")
    follower = _Follower(store, format, scope)
    with closing(WatchedFiles(paths)) as watched:
        while True:
            for path in watched.due():
                try:
                    report = follower.look(path)
                except FileNotFoundError:
                    follower.forget(path)
                    watched.forget(path)
                    continue
                except StorageError:
                    raise
                except (EventlogError, OSError) as error:
                    yield FollowedFile(path, None, error)
                    continue
                if report is not None:
                    if report.events:
                        watched.changed(path)
                    yield FollowedFile(path, report)
            yield None
            watched.wait()


class _Known:
    """A file as it was when it was looked at last."""

    __slots__ = ("again", "begun", "settled", "stamp")

    def __init__(self, stamp: FileStamp, begun: int) -> None:
        self.stamp: FileStamp | None = stamp
        """None: to be read whether it changed or not."""
        self.begun = begun
        self.settled = True
        """Whether nothing is to be done once the file rests."""
        self.again = 0.0
        """Monotonic time before which it is not read again."""


class _Follower:
    """State of the files that are followed."""

    def __init__(self, store: Store, format: str | None, scope: str | None) -> None:
        self._store = store
        self._format = format
        self._scope = scope
        self._known: dict[str, _Known] = {}
        self._growing: dict[str, GrowingFile] = {}

    def forget(self, path: str) -> None:
        """Forget a file that is gone."""
        self._known.pop(path, None)
        self._growing.pop(path, None)

    def look(self, path: str) -> Report | None:
        """Import what is new in a file; None if it is as it was. Raises as `import_file` does."""
        begun = time_ns()
        stamp = stamp_of(path)
        known = self._known.get(path)
        if known is None:
            self._known[path] = known = _Known(stamp, begun)
            report = receipts.find(self._store.log, path, stamp, self._format)
            if report is not None:
                require_scope(self._store, report.sessions, self._scope)
                return report
        elif monotonic() < known.again or (known.stamp == stamp and known.settled):
            return None
        try:
            if known.stamp == stamp and not known.settled:
                return self._settle(path, known) if stamp.rests(begun - REST) else None
            known.stamp, known.begun, known.settled = stamp, begun, True
            return self._read(path, known) if stamp.size else None
        except RetryError:
            known.stamp, known.again = None, monotonic() + RETRY
            raise

    def _read(self, path: str, known: _Known) -> Report | None:
        stamp = known.stamp
        assert stamp is not None
        with open(path, "rb") as file:  # noqa: PTH123
            found = os.fstat(file.fileno())
            if (found.st_dev, found.st_ino) != stamp[:2] or found.st_size < stamp.size:
                known.stamp = None  # it was replaced just now
                return None
            backoff = Backoff()
            while True:
                growing = self._growing.pop(path, None)
                if growing is None or not growing.goes_on(file, stamp):
                    growing = self._begun(path, file)
                if growing is None:
                    if path.endswith(".db") or stamp.rests(known.begun - REST):
                        return self._whole(path, known)
                    known.settled = False
                    return None
                try:
                    report = growing.read_on(file, stamp)
                    break
                except ConflictError:  # another import began the session
                    if not backoff.goes_on():
                        raise
        self._growing[path] = growing
        if len(self._growing) > MOST:
            del self._growing[next(iter(self._growing))]
        known.settled = False
        if stamp.rests(known.begun) and growing.read == stamp.size:
            self._settle(path, known)
        return report

    def _begun(self, path: str, file: BinaryIO) -> GrowingFile | None:
        """Return the file at its beginning, None if it is imported as a whole."""
        file.seek(0)
        start = read_beginning(file)
        file.seek(0)
        if b"\n" not in start or start.startswith(ZIP):
            return None
        report = Report(path, detect_in(file, start, path) if self._format is None else self._format)
        importer = FORMATS[report.format]
        reader = importer.growing(start, path, report) if isinstance(importer, GrowingImporter) else None
        return None if reader is None else GrowingFile(self._store, reader, report, self._scope)

    def _whole(self, path: str, known: _Known) -> Report:
        begun = monotonic()
        try:
            return import_file(self._store, path, format=self._format, scope=self._scope)
        finally:
            now = monotonic()
            known.again = now + SHARE * (now - begun)

    def _settle(self, path: str, known: _Known) -> Report | None:
        """Leave a receipt of a file that rests; import its last line, if that has no end."""
        known.settled = True
        growing, stamp = self._growing.get(path), known.stamp
        assert stamp is not None
        if growing is None or growing.read != stamp.size:
            report = self._whole(path, known)
            return report if report.events else None
        receipts.save(self._store.log, growing.report(), stamp, known.begun)
        return None
