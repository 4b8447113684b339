"""Salvage of a damaged store: every LMDB entry and journal frame that can be read.

LMDB's pages are not trusted: they are read without LMDB (`segments/pages.py`). Each entry goes into
a scratch environment, whose pages are sound, and which is then read like any other, with a checksum
for every row. Entries that the newest meta page does not lead to are looked for by the other one. A
frame of the journal is used where its checksum is right, at any offset; spare files still hold
what was folded, and count too. Nothing is written to the store.
"""

from __future__ import annotations

import errno
import os
import re
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import lmdb

from eventlog.errors import BusyError, DamagedError, DataError, StorageError
from eventlog.log.commit import Commit
from eventlog.log.embedded.filesystem import EXHAUSTED, NO_ROOM, data_end, is_full
from eventlog.log.embedded.journal import frames
from eventlog.log.embedded.segments.environment import LIB_VERSION
from eventlog.log.embedded.segments.fold import begin_store
from eventlog.log.embedded.segments.layout import MAX_KEY_BYTES, PAIR, TREES
from eventlog.log.embedded.segments.pages import MetaPage, are_in_turn, entries, meta_pages
from eventlog.log.embedded.segments.segments import Segments

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eventlog.log.embedded.segments.layout import FoldState, HeadRow
    from eventlog.log.embedded.watermark import Watermark

_SCARCE = NO_ROOM | EXHAUSTED
_BATCH = 256
"""Entries of a transaction: LMDB has what is not committed in memory."""
_ROOM = 64 << 20
"""Bytes of the map beyond the copied file: address space, neither memory nor disk."""
_JOURNAL = re.compile(r"(\d{10}\.log|spare-.*)\Z")


def copy_readable(old: Path, new: Path) -> list[str]:
    """Copy every readable entry of the LMDB directory `old` into `new`.

    Returns a line for each thing that may be lost.
    """
    new.mkdir(mode=0o700, parents=True)
    Segments(new, read_only=False, map_bytes=1 << 40).close()
    data = old / "data.mdb"
    if not data.exists():
        return ["the folded part is missing"]
    try:
        room = 4 * data.stat().st_size + _ROOM
        with lmdb.open(
            os.fsencode(new), map_size=room, sync=False, mode=0o600, max_dbs=64, lib_version=LIB_VERSION
        ) as target:
            lines = _copy_trees(data, target)
    except (lmdb.Error, OSError) as error:
        code = getattr(error, "code", 0) or getattr(error, "errno", 0) or errno.EIO
        code = errno.ENOSPC if code == errno.EIO and is_full(new) else code  # LMDB says so of a short write
        kind = BusyError if code in _SCARCE else StorageError
        raise kind(f"what can be saved cannot be kept: {os.strerror(code)}") from error
    segments = Segments(new, read_only=False, map_bytes=1 << 40)
    try:
        begin_store(segments, 0)  # a store says how far it is folded, even if that is lost
    finally:
        segments.close()
    return lines


def _copy_trees(data: Path, target: lmdb.Environment) -> list[str]:
    """Copy every tree by either meta page; return a line for each thing that may be lost."""
    wanted = [tree for tree in TREES if tree != "derived"]
    metas = meta_pages(data)
    if not metas:
        return ["both meta pages of the folded part are damaged"]
    broken = [tree for tree in wanted if not _copy_tree(data, metas[0], tree, target)]
    lines = [f"tree {tree} of the folded part is damaged" for tree in broken]
    if not are_in_turn(metas):
        lines.insert(
            0, "a meta page of the folded part is damaged: what was folded last may be lost, unless the journal has it"
        )
        broken = wanted
    for meta in metas[1:]:  # the newer one led there, and only that leads to all
        for tree in broken:
            _copy_tree(data, meta, tree, target)
    return lines


def _copy_tree(data: Path, meta: MetaPage, tree: str, target: lmdb.Environment) -> bool:
    """Copy what can be read of one tree; return whether that is all."""
    whole, into, found = True, target.open_db(tree.encode()), entries(data, meta, tree)
    while batch := list(islice(found, _BATCH)):
        with target.begin(write=True, db=into) as txn:
            for entry in batch:
                whole = whole and entry is not None
                if entry is not None and 0 < len(entry[0]) <= MAX_KEY_BYTES:
                    txn.put(*entry, overwrite=False)
    return whole


def rows_in(segments: Segments) -> Iterator[tuple[str, HeadRow | None]]:
    """Yield every session of the scratch copy, with its row, None if that is damaged."""
    for key in segments.keys("sessions"):
        try:
            session = key.decode()
        except UnicodeDecodeError:
            continue
        try:
            with segments.environment.reading() as txn:
                yield session, segments.row_in(txn, session)
        except DamagedError:
            yield session, None


def chunks_in(segments: Segments) -> Iterator[tuple[tuple[int, int], list[Commit]]]:
    """Yield the key of every chunk, and the commits that can be read in it."""
    for key in segments.keys("commits"):
        if len(key) == PAIR.size:
            number, first = PAIR.unpack(key)
            yield (number, first), chunk_at(segments, number, first)


def chunk_at(segments: Segments, number: int, first: int) -> list[Commit]:
    """Return the commits of a chunk; none if it cannot be read."""
    try:
        return segments.chunk_at(number, first)
    except DamagedError:
        return []


def commits_in(journal: Path, unread: list[str]) -> Iterator[frames.CommitRecord]:
    """Yield the commits in every journal frame whose checksum is right.

    Adds a line to `unread` for each file that cannot be read.
    """
    for path in _files(journal):
        try:
            for _, _, records in _frames(path):
                yield from (record for record in records if isinstance(record, frames.CommitRecord))
        except OSError as error:
            if error.errno in _SCARCE:
                raise BusyError(f"{path} cannot be read now: {error.strerror}") from error
            unread.append(f"{path.name} of the journal cannot be read: {error.strerror}")


def gaps_in(journal: Path, mark: Watermark, folded: FoldState) -> list[str]:
    """Return a line for each part of the journal that is missing behind what is folded.

    `mark` is closed.
    """
    last, ends = folded.position, 0
    lines: list[str] = []
    for path in _files(journal):
        if not path.name[0].isdigit():
            continue
        ends = max(ends, frames.address_of(int(path.name[:10]), frames.FILE_HEADER_BYTES))
        for before, end, records in _readable_frames(path):
            ends = max(ends, frames.address_of(int(path.name[:10]), end))
            after = [
                record.position + record.count - 1 for record in records if isinstance(record, frames.CommitRecord)
            ]
            if before > last and (last or folded.address):
                lines.append(f"positions {last + 1} to {before} of the journal are damaged or missing")
            last = max(last, before, *after)
    durable = mark.get()
    mark.close()
    if durable > max(ends, folded.address):
        lines.append(f"what the journal had behind position {last} is damaged or missing")
    return lines


def _files(journal: Path) -> list[Path]:
    return sorted(path for path in journal.iterdir() if _JOURNAL.match(path.name)) if journal.is_dir() else []


def _readable_frames(path: Path) -> Iterator[tuple[int, int, list[frames.Record]]]:
    """Yield the frames of a file, none if it cannot be read, which `commits_in` reports."""
    with suppress(OSError):
        yield from _frames(path)


def _frames(path: Path) -> Iterator[tuple[int, int, list[frames.Record]]]:
    """Yield the valid frames of a file: position before it, offset behind it, records."""
    with path.open("rb") as file:
        data = file.read(data_end(file.fileno()))
    try:
        number = int.from_bytes(data[16:24], "little")
        salt = frames.parse_file_header(data, number)[0]
    except DataError:  # its frames begin with the salt, too
        salt = data[frames.FILE_HEADER_BYTES : frames.FILE_HEADER_BYTES + 8]
    if len(salt) != 8 or not any(salt):
        return
    at = data.find(salt, frames.FILE_HEADER_BYTES)
    bytes_left = 16 * len(data)  # of frames that are not valid, made to keep a reader busy
    while 0 <= at <= len(data) - frames.FRAME_HEADER_BYTES:
        header = frames.parse_frame_header(data, at, salt)
        begin = at + frames.FRAME_HEADER_BYTES
        payload = b"" if header is None else data[begin : begin + header.length]
        if header is None or not frames.payload_matches(header, payload, salt, at):
            bytes_left -= len(payload)
            at = data.find(salt, at + 1) if bytes_left >= 0 else -1
            continue
        records: list[frames.Record] = []
        if header.kind == frames.RECORDS:
            with suppress(DataError):
                records = frames.decode_records(payload, header.position)
        yield header.position, at + header.total, records
        at = data.find(salt, at + header.total)
