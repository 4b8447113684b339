"""Receipts of imported files: an unchanged file is not read when it is imported again.

A receipt says that a file of a path, as `FileStamp` describes it, is in the store whole, and which
hash tree each of its sessions had then. It counts only while the file has that stamp, each of
these sessions still begins with that tree, and nothing of them was redacted or erased: then an
import would find nothing new. In all other cases the file is read.

It is stored after all events of the file, and only if the file was at rest before and after it was
read: another change within one tick of its clock would leave the stamp as it is.

Receipts are derived values (`history/checkpoint_store.py`): a row for each session, under a hash of
the path and the name of the session, encrypted with the session's key, and dropped with the
session. If a row is lost or damaged, the file is read.

Key: `checkpoint`, 0, `imported 2`, 0, 16 bytes of the path's hash (keyed in an encrypted store),
16 bytes of BLAKE2b of the session id. Value: `_Row`.
"""

from __future__ import annotations

import os
from contextlib import suppress
from hashlib import blake2b
from operator import attrgetter
from typing import NamedTuple

import msgspec

from eventlog.codec.batch import decode_value, encode_value
from eventlog.errors import DataError, EventlogError
from eventlog.history.catalog import entry_of
from eventlog.history.checkpoint_store import PREFIX, name_in_keys
from eventlog.history.tree_heads import tree_after
from eventlog.importers.common.importer import Report, Skipped
from eventlog.log.commit import Head
from eventlog.log.contract import Log
from eventlog.log.merkle_check import TreeState

KIND = PREFIX + b"imported 2\0"
"""First bytes of the keys of all receipts; the number is that of their form and meaning."""
TICK = 50_000_000
"""Nanoseconds for which a file must have rested, if its clock counts parts of seconds."""
COARSE = 2_000_000_000
"""That time for a file system that counts seconds."""


_place = attrgetter("place")


class FileStamp(NamedTuple):
    """A file as the file system describes it; the log of a database is described with it."""

    device: int
    inode: int
    size: int
    modified: int
    """Nanoseconds; so is `changed`."""
    changed: int
    beside: tuple[int, ...] = ()
    """Description of the write-ahead log beside a database."""

    def rests(self, now: int) -> bool:
        """Whether a change after `now` would change the stamp."""
        tick = TICK if self.changed % 1_000_000_000 else COARSE
        return now - max(self.modified, self.changed, *self.beside[3:]) > tick


class _Row(msgspec.Struct, array_like=True, frozen=True):
    """One session of a file; the first one has what the report says besides."""

    stamp: FileStamp
    format: str
    place: int
    count: int
    """Number of the file's sessions."""
    session: str
    version: int
    appends: int
    peaks: bytes
    messages: int = 0
    parts: int = 0
    skipped: list[Skipped] = []


def stamp_of(path: str) -> FileStamp:
    """Return the stamp of the file at a path; `OSError` if there is none."""
    beside: tuple[int, ...] = ()
    if path.endswith(".db"):
        with suppress(FileNotFoundError):
            beside = _numbers(os.stat(path + "-wal"))  # noqa: PTH116  # the cost of an unchanged file is this call
    return FileStamp(*_numbers(os.stat(path)), beside)  # noqa: PTH116


def _numbers(found: os.stat_result) -> tuple[int, int, int, int, int]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def find(log: Log, path: str, stamp: FileStamp, format: str | None = None) -> Report | None:
    """Return the report of a file that is stored whole, None if it must be read.

    `format` is the format that the file is imported as, None for the one it was recognised as.
    """
    try:
        rows = [decode_value(value, _Row) for _, value in log.scan_derived(_prefix(log, path))]
    except DataError:
        return None
    rows.sort(key=_place)
    for place, row in enumerate(rows):
        if row.place != place or row.count != len(rows) or row.stamp != stamp or not _is_stored(log, row):
            return None
    if not rows or format not in {None, rows[0].format}:
        return None
    first, sessions = rows[0], [row.session for row in rows]
    return Report(path, first.format, sessions, 0, first.messages, first.parts, first.skipped)


def save(log: Log, report: Report, stamp: FileStamp, begun: int) -> None:
    """Store the receipt of a file that is stored whole.

    `stamp` is that of the file before it was read, `begun` when reading began: no receipt is stored
    unless the file had rested by then, and has the same stamp now.
    """
    with suppress(OSError, EventlogError):  # derived: the next import reads the file
        if log.read_only or not stamp.rests(begun) or stamp_of(report.path) != stamp:
            return
        prefix = _prefix(log, report.path)
        sessions = list(dict.fromkeys(report.sessions))
        rows: list[tuple[str, bytes, bytes]] = []
        for place, session in enumerate(sessions):
            head = log.head(session)
            if head is None or not _is_untouched(head):
                return
            row = _Row(stamp, report.format, place, len(sessions), session, head.version, head.appends, head.peaks)
            if place == 0:
                row = msgspec.structs.replace(row, messages=report.messages, parts=report.parts, skipped=report.skipped)
            rows.append((session, prefix + name_in_keys(session), encode_value(row)))
        kept = {key for _, key, _ in rows}
        log.put_derived([(key, None) for key in log.derived_keys(prefix) if key not in kept])
        for session, key, value in rows:
            log.of(session).put_derived([(key, value)])


def _prefix(log: Log, path: str) -> bytes:
    absolute = os.path.abspath(path)  # noqa: PTH100  # resolving links would cost a call for each folder
    return KIND + log.name(blake2b(os.fsencode(absolute), digest_size=32).digest())[:16]


def _is_stored(log: Log, row: _Row) -> bool:
    """Return whether a session still begins with the events that it had."""
    head = log.head(row.session)
    if head is None or not _is_untouched(head) or head.version < row.version:
        return False
    if head.version == row.version:
        return head.appends == row.appends and head.peaks == row.peaks
    known = TreeState(row.version, row.appends, row.peaks)
    return tree_after(log, row.session, known, head.version) == (head.version, head.appends, head.peaks)


def _is_untouched(head: Head) -> bool:
    """Return whether nothing of a session was redacted or erased."""
    if head.gone:
        return False
    entry = entry_of(head)
    return not entry.erased and not entry.redacted
