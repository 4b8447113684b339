"""Salvage of a damaged store: every LMDB entry and journal frame that can be read.

LMDB's pages are not trusted: a child process reads them entry by entry and writes each to a pipe
at once. What arrives, even from a child that died, goes into a scratch environment, whose pages are
sound, and which is then read like any other, with a checksum for every row. Entries that the newest
meta page does not lead to are looked for by the other one, in a copy of the file (`meta_pages.py`).
A frame of the journal is used where its checksum is right, at any offset; spare files still hold
what was folded, and count too. Nothing is written to the store.
"""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from contextlib import suppress
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING, NamedTuple

import lmdb

from eventlog.errors import BusyError, CallError, DamagedError, DataError, EventlogError, StorageError
from eventlog.log.commit import Commit
from eventlog.log.embedded.filesystem import EXHAUSTED, NO_ROOM, data_end, is_full
from eventlog.log.embedded.journal import frames
from eventlog.log.embedded.salvage.salvage_child import ROOM, SIZES, UNABLE, WHOLE
from eventlog.log.embedded.segments.environment import LIB_VERSION
from eventlog.log.embedded.segments.fold import begin_store
from eventlog.log.embedded.segments.layout import NUMBER, PAIR, TREES
from eventlog.log.embedded.segments.meta_pages import MetaPage, are_in_turn, copy_as_of, sound_metas
from eventlog.log.embedded.segments.segments import Segments

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eventlog.log.embedded.segments.layout import FoldState, HeadRow
    from eventlog.log.embedded.watermark import Watermark

_CHILD = Path(__file__).with_name("salvage_child.py")
_LIBRARY = Path(str(lmdb.__file__)).parent.parent
_BATCH = 256
_MOST_DEATHS = 40
_SCARCE = NO_ROOM | EXHAUSTED
_JOURNAL = re.compile(r"(\d{10}\.log|spare-.*)\Z")


class Chunks(NamedTuple):
    """The place of a chunk, and its versions."""

    session: str
    first: int
    last: int
    number: int


def copy_readable(old: Path, new: Path) -> list[str]:
    """Copy every readable entry of the LMDB directory `old` into `new`.

    Returns a line for each thing that may be lost.
    """
    if getattr(sys, "frozen", False) or not sys.executable:
        raise CallError("a damaged store is read in child processes, which this program cannot start")
    new.mkdir(mode=0o700, parents=True)
    Segments(new, read_only=False, map_bytes=1 << 40).close()
    data = old / "data.mdb"
    if not data.exists():
        return ["the folded part is missing"]
    try:
        room = 4 * data.stat().st_size + ROOM
        with lmdb.open(str(new), map_size=room, sync=False, mode=0o600, max_dbs=64, lib_version=LIB_VERSION) as target:
            lines = _copy_trees(data, target)
    except (lmdb.Error, OSError) as error:
        raise _refusal(getattr(error, "code", 0) or getattr(error, "errno", 0) or errno.EIO, new) from error
    segments = Segments(new, read_only=False, map_bytes=1 << 40)
    try:
        begin_store(segments, 0)  # a store says how far it is folded, even if that is lost
    finally:
        segments.close()
    return lines


def _copy_trees(data: Path, target: lmdb.Environment) -> list[str]:
    """Copy every tree by either meta page; return a line for each thing that may be lost."""
    wanted = [tree for tree in TREES if tree != "derived"]
    broken = [tree for tree in wanted if not _copy_tree(data.parent, target, tree)]
    metas = sound_metas(data)
    lines: list[str] = []
    if not metas:
        lines = ["both meta pages of the folded part are damaged"]
    elif not are_in_turn(metas):
        lines = [
            "a meta page of the folded part is damaged: what was folded last may be lost, unless the journal has it"
        ]
        broken = _copy_as_of(metas[-1], data, target, wanted, broken)
    elif broken:  # the newer one led there, and only that leads to all
        _copy_as_of(metas[-1], data, target, broken, broken)
    return [*lines, *(f"tree {tree} of the folded part is damaged" for tree in broken)]


def _copy_as_of(meta: MetaPage, data: Path, target: lmdb.Environment, trees: list[str], broken: list[str]) -> list[str]:
    """Copy what a meta page leads to; return the trees that are not whole either way."""
    with TemporaryDirectory(prefix="older-", dir=Path(target.path()).parent) as name:
        copy_as_of(data, Path(name) / data.name, meta)
        whole = [tree for tree in trees if _copy_tree(Path(name), target, tree)]
    return [tree for tree in broken if tree not in whole]


def _copy_tree(old: Path, target: lmdb.Environment, tree: str) -> bool:
    """Copy one tree; return whether all of it could be read."""
    if _run(old, target, tree, "forward") == WHOLE:
        return True
    _run(old, target, tree, "backward")
    if tree == "data":
        with target.begin(db=target.open_db(b"data")) as txn, txn.cursor() as cursor:
            greatest = int.from_bytes(cursor.key(), "big") if cursor.last() else 0
        last, number = min(greatest, (old / "data.mdb").stat().st_size), 0
        for _ in range(_MOST_DEATHS):
            if _run(old, target, tree, "points", range(number + 1, last + 1)) >= 0:
                break
            number = _gap(target, number)
    return False


def _run(old: Path, target: lmdb.Environment, tree: str, way: str, numbers: range = range(0)) -> int:
    """Copy what a child reads until it ends; return its exit code, negative if it died.

    `numbers` are the keys to read by the way "points".
    """
    arguments = (_CHILD, _LIBRARY, old, LIB_VERSION, tree, way, numbers.start, numbers.stop)
    command = [sys.executable, "-I", "-S", *map(str, arguments)]
    try:
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # noqa: S603 - our own program
    except OSError as error:
        raise BusyError(f"the child that reads the damaged store could not be started: {error.strerror}") from error
    with child:
        assert child.stdout is not None
        assert child.stderr is not None
        records = _records(child.stdout)
        more = True
        while more:
            with target.begin(write=True, db=target.open_db(tree.encode())) as txn:
                count = 0
                for key, value in islice(records, _BATCH):
                    txn.put(key, value, overwrite=False)
                    count += 1
                more = count == _BATCH
        said = child.stderr.read()
    if child.returncode == UNABLE:  # nothing is known of the store then: no loss of it
        raise _refusal(int(said.strip() or errno.EIO), Path(target.path()))
    return child.returncode


def _records(pipe: IO[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Yield the whole entries that a child has written."""
    while len(sizes := pipe.read(SIZES.size)) == SIZES.size:
        of_key, of_value = SIZES.unpack(sizes)
        entry = pipe.read(of_key + of_value)
        if len(entry) < of_key + of_value:
            return
        yield entry[:of_key], entry[of_key:]


def _refusal(code: int, new: Path) -> EventlogError:
    """Return the error for salvaged entries that cannot be written."""
    kind = BusyError if code in _SCARCE or (code == errno.EIO and is_full(new)) else StorageError
    return kind(f"what can be saved cannot be kept: {os.strerror(code)}")


def _gap(target: lmdb.Environment, number: int) -> int:
    """Return the first missing number behind another: reading it killed the child."""
    with target.begin(db=target.open_db(b"data")) as txn:
        number += 1
        while txn.get(NUMBER.pack(number)) is not None:
            number += 1
    return number


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


def chunks_in(segments: Segments) -> Iterator[tuple[Chunks, list[Commit]]]:
    """Yield every chunk that can be read, with its commits."""
    for key in segments.keys("commits"):
        if len(key) == PAIR.size:
            number, first = PAIR.unpack(key)
            commits = chunk_at(segments, number, first)
            if commits:
                yield Chunks(commits[0].session, commits[0].first, commits[-1].last, number), commits


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
