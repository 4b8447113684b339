"""Receipts of imported files: what need not be decoded when a file is imported again.

A receipt says that a file of this digest is in the store whole, under its own ids and versions, and
which hash tree each of its sessions had then.  The same file again is not decoded at all; one that
has grown at its end is decoded behind what is known.  It counts only while each of these sessions
still begins with that tree and nothing of it was redacted or erased, so it never changes what an
import does.

Receipts are derived values (`history/checkpoint_store.py`), stored with the file's first session:
disposable, encrypted like its checkpoints, and dropped with them by `scrub`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import BinaryIO

import msgspec

from eventlog.codec.batch import decode_value, encode_value
from eventlog.errors import DataError
from eventlog.history import checkpoint_store
from eventlog.history.catalog import entry_of
from eventlog.history.tree_heads import tree_after, tree_at
from eventlog.importers.common.json_lines import DamagedLineError, is_object, parse
from eventlog.importers.event_jsonl.reader import EventReader, Extent, Progress
from eventlog.log.commit import Head
from eventlog.log.contract import Log
from eventlog.log.merkle_check import TreeState

__all__ = ["StoredStream", "go_on", "save"]

KIND = "imported 1"
"""Kind of the derived values; the number is that of the receipt's form and meaning."""
MOST = 2
"""Receipts that a session has: of the newest files that begin with it."""
PIECE = 1 << 20
"""Bytes that are read at a time to take a digest."""
NAMING = 4096
"""Longest line that names the first session."""


class StoredStream(msgspec.Struct, array_like=True, frozen=True):
    """A session of the file, stored under its own id and with its own versions."""

    session: str
    base: int
    """Version before the first of its own."""
    last: int
    """Version of the file's last event."""
    version: int = 0
    """Version after which the tree below was its hash tree: that of `last`, or of its append."""
    appends: int = 0
    peaks: bytes = b""


class Receipt(msgspec.Struct, array_like=True, frozen=True):
    """An imported file, the lines in front of its last one, and its sessions."""

    file: Extent
    before_end: Extent
    progress: Progress
    streams: list[StoredStream]


def go_on(log: Log, file: BinaryIO, reader: EventReader) -> list[StoredStream]:
    """Put the file, and its reader, behind what is known to be stored; return its sessions.

    None of them if nothing is known: then the file stays where it is.
    """
    start = file.tell()
    for receipt in _receipts(log, file.readline(NAMING)):
        file.seek(start)
        read = reader.hash.copy()
        known = receipt.before_end
        if not _is_read(file, read, known.length - reader.length, known.digest):
            continue
        behind, at_end = file.tell(), read.copy()
        rest = receipt.file.length - known.length
        whole = _is_read(file, at_end, rest, receipt.file.digest) and not file.read(1)
        if whole and all(_is_stored(log, stream) for stream in receipt.streams):
            reader.go_on(receipt.file.length, at_end, receipt.progress)
            reader.ended = True
            return receipt.streams
        if not whole and all(_is_stored(log, stream, at_end=True) for stream in receipt.streams):
            file.seek(behind)
            reader.go_on(known.length, read, receipt.progress)
            return receipt.streams
    file.seek(start)
    return []


def save(log: Log, reader: EventReader, streams: Sequence[StoredStream]) -> None:
    """Store the receipt of a file that was read to its end, and is stored whole."""
    if reader.before_end is None or log.read_only or not streams:
        return
    found: list[StoredStream] = []
    for stream in streams:
        head = log.head(stream.session)
        if head is None or not _is_untouched(head):
            return
        tree = tree_at(log, stream.session, stream.last)
        if tree.version < stream.last:
            return
        found.append(msgspec.structs.replace(stream, version=tree.version, appends=tree.appends, peaks=tree.peaks))
    receipt = Receipt(reader.extent(), *reader.before_end, found)
    first = found[0]
    surplus = checkpoint_store.newest(MOST)
    checkpoint_store.save(log, KIND, first.session, first.last, encode_value(receipt), surplus=surplus)


def _receipts(log: Log, line: bytes) -> Iterator[Receipt]:
    """Yield the receipts of files whose first session this line names, newest first."""
    try:
        value, _ = parse(line)
    except DamagedLineError:
        return
    session = value.get("session") if is_object(value) else None
    head = log.head(session) if isinstance(session, str) else None
    if head is None:
        return
    for _, data in checkpoint_store.valid(log, KIND, head.session, head.version):
        try:
            yield decode_value(data, Receipt)
        except DataError:
            continue


def _is_read(file: BinaryIO, read: blake2b, length: int, digest: bytes) -> bool:
    """Read so many bytes more; return whether what was read has this digest."""
    while length > 0 and (piece := file.read(min(length, PIECE))):
        read.update(piece)
        length -= len(piece)
    return length == 0 and read.digest() == digest


def _is_stored(log: Log, stream: StoredStream, *, at_end: bool = False) -> bool:
    """Return whether a session still begins with what was imported; `at_end`: and has no more."""
    head = log.head(stream.session)
    if head is None or not _is_untouched(head) or head.version < stream.version:
        return False
    if at_end and head.version != stream.last:
        return False
    known = TreeState(stream.version, stream.appends, stream.peaks)
    return tree_after(log, stream.session, known, head.version) == (head.version, head.appends, head.peaks)


def _is_untouched(head: Head) -> bool:
    """Return whether nothing of a session was redacted or erased."""
    if head.gone:
        return False
    entry = entry_of(head)
    return not entry.erased and not entry.redacted
