"""Repair: saves what is sound of a damaged store into a new one, and lists every loss.

A repair never works in place.  It looks for commits in the folded part, which is read without LMDB
because damaged pages can kill a reader, and in the journal (`log/embedded/salvage.py`).
`salvaged_store.py` decides which commits are kept.  A log on a server is copied, and a damaged row
there is an error.  Catalog entries are made anew from the events.  Leases are released; checkpoints
and token counts are made again when they are needed.  Where a large text is lost, a note stands in
its place (`codec.redaction.LOST`); an import of its file brings the text back in a fork.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import closing, suppress
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING

import msgspec

from eventlog.codec.payload import is_encrypted
from eventlog.errors import BusyError, CallError, DamagedError, NotFoundError
from eventlog.integrity.scrub_ledger import ScrubLedger, write_record
from eventlog.log.merkle import SALT_BYTES
from eventlog.maintenance.copy_commits import copy_commits, storage_errors
from eventlog.maintenance.salvaged_store import RepairLoss, SalvagedStore
from eventlog.open_log import LOST_NOTE, directory_of, is_server

if TYPE_CHECKING:
    from collections.abc import Callable

    from eventlog.log.embedded.options import Options

_UNFINISHED = "a repair was being written"
_MAP_BYTES = 1 << 40


class RepairReport(msgspec.Struct, frozen=True):
    """Result of a repair."""

    sessions: int
    """Sessions in the new store, tombstones of erased ones included."""
    events: int
    bodies: int
    """Large texts in the new store."""
    position: int
    losses: tuple[RepairLoss, ...]


def repair(
    source: str | os.PathLike[str],
    into: str | os.PathLike[str],
    *,
    on_progress: Callable[[int, int], None] | None = None,
    options: Options | None = None,
) -> RepairReport:
    """Save what is sound of the store at `source` into a new store; `source` is only read.

    `source` and `into` are directories or addresses of servers; a store on a server goes to another
    address or a directory, one in a directory to a directory. `NotFoundError` if there is no store
    at `source`, `CallError` if there is anything at `into`, `BusyError` if another process has the
    directory open.
    `options` are those of the log at `into`. `on_progress` is called with the events copied and all
    events.
    """
    if is_server(source):
        return _copied_from_server(str(source), into, on_progress)
    from eventlog.log.embedded import generations
    from eventlog.log.embedded.directory import (
        begin_anew,
        holds_nothing,
        refuse_inside_store,
        require_store_files,
        set_unfinished,
        unfinished,
    )
    from eventlog.log.embedded.filesystem import make_directory, refuse_network_filesystem
    from eventlog.log.embedded.locks import Presence
    from eventlog.log.embedded.options import Options

    old, new = directory_of(source), directory_of(into)
    if not generations.of(old):
        raise NotFoundError("store", str(old))
    require_store_files(old)
    if unfinished(new) != _UNFINISHED and not holds_nothing(new):  # an earlier attempt is continued
        raise CallError(f"there is something at {new} already")
    if old.resolve() in (new.resolve(), *new.resolve().parents):
        raise CallError(f"{new} is in the store that is to be repaired")
    presence = None
    with suppress(FileNotFoundError, PermissionError):
        presence = Presence(old, read_only=True)
    try:
        if presence is not None and not presence.alone:
            raise BusyError(f"another process has {old} open")
        refuse_network_filesystem(new)
        refuse_inside_store(new)
        with storage_errors(new):
            make_directory(new)
            begin_anew(new, _UNFINISHED)
            repaired = _save(old, new, Options() if options is None else options, on_progress)
            set_unfinished(new, None)
        return repaired
    finally:
        if presence is not None:
            presence.close()


def _save(old: Path, new: Path, options: Options, on_progress: Callable[[int, int], None] | None) -> RepairReport:
    """Write what can be saved; the readable part of LMDB is copied beside it meanwhile."""
    from eventlog.log.embedded.bulk_writer import BulkWriter
    from eventlog.log.embedded.generations import begin
    from eventlog.log.embedded.salvage import commits_in, copy_readable, gaps_in
    from eventlog.log.embedded.segments.segments import Segments
    from eventlog.log.embedded.watermark import Watermark

    scratch = Path(tempfile.mkdtemp(prefix="salvage-", dir=new))
    try:
        number = _generation(old)
        files = old / str(number)
        losses = [RepairLoss(None, None, None, line) for line in copy_readable(files / "lmdb", scratch / "lmdb")]
        segments = Segments(scratch / "lmdb", read_only=True, map_bytes=_MAP_BYTES)
        try:
            copy = BulkWriter(begin(new, ""), options)
            try:
                found = SalvagedStore(segments)
                unread: list[str] = []
                for record in commits_in(files / "journal", unread):
                    found.add_journal(record)
                mark = Watermark(old / "mark", number, read_only=True)
                gaps = gaps_in(files / "journal", mark, found.folded())
                losses += [RepairLoss(None, None, None, line) for line in (*unread, *gaps)]
                losses += found.assemble()
                copy.begin()
                ledger = ScrubLedger()
                events = copy_commits(
                    found,
                    copy,
                    found.position,
                    change=lambda commit: ledger.add(found.without_lost_texts(commit)),
                    on_progress=on_progress,
                )
                gone = [head for name, head in found.tombstones.items() if copy.head(name) is None]
                copy.add([], {}, {}, {}, position=max(copy.position, found.position), gone=gone)
                write_record(copy, ledger, time_ns() // 1_000_000, options.io.random(SALT_BYTES))
                repaired = RepairReport(
                    len(found.kept) + len(gone), events.total(), len(found.saved_bodies), copy.position, tuple(losses)
                )
                copy.finish(new, options.io.random(16).hex(), _encryption(old, found))
            finally:
                copy.close()
        finally:
            segments.close()
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    shutil.rmtree(scratch)
    return repaired


def _copied_from_server(
    source: str, into: str | os.PathLike[str], on_progress: Callable[[int, int], None] | None
) -> RepairReport:
    """Copy the log on a server; every catalog entry of the copy is what its events say."""
    from eventlog.log.embedded.directory import holds_nothing
    from eventlog.log.postgres.opening import open_log
    from eventlog.maintenance.server_copies import backup_to_directory, restore_to_server

    with closing(open_log(source, read_only=True)) as log:
        position = sum(log.last_positions())
        if is_server(into):
            copied = restore_to_server(source, str(into), on_progress=on_progress)
        else:
            if not holds_nothing(directory_of(into)):
                raise CallError(f"there is something at {into} already")
            copied = backup_to_directory(log, directory_of(into), on_progress=on_progress)
        sessions = sum(1 for _ in log.heads())
        return RepairReport(sessions, copied.events, sum(1 for _ in log.bodies()), position, ())


def _encryption(old: Path, found: SalvagedStore) -> str:
    """Return the old store's note of its encryption, or that it is encrypted, if it is."""
    from eventlog.log.embedded.directory import encryption_of

    with suppress(OSError):
        if noted := encryption_of(old):
            return noted
    return LOST_NOTE if any(is_encrypted(head.entry) for head in found.kept.values()) else ""


def _generation(old: Path) -> int:
    """Return the generation in force; where its file is damaged, the mark's or the first."""
    from eventlog.log.embedded import generations
    from eventlog.log.embedded.watermark import marked_generation

    there, said = generations.of(old), 0
    with suppress(OSError, DamagedError):
        said = generations.in_force(old).number
    found = max(said, marked_generation(old))
    return found if found in there else min(there)
