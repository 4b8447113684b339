"""Backup and restore of a log on a PostgreSQL server.

A backup is a store directory, as that of any store; each is written anew. A restore fills the
tables of an empty log, in transactions of whole commits; while it is being written, or after it
broke off, the log does not open. Heads are equal in both directions; positions are those of the
copy, so a cursor does not go on there.
"""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from eventlog.errors import CallError
from eventlog.history.catalog import is_session
from eventlog.history.cursor import cursor_at
from eventlog.log.embedded import generations
from eventlog.log.embedded.directory import encryption_of, identity_of
from eventlog.log.embedded.options import Options
from eventlog.log.embedded.unfinished import unfinished
from eventlog.maintenance.copy_commits import CopySource, copy_commits, storage_errors
from eventlog.maintenance.destination import BackupResult, Progress, copy_at, destination
from eventlog.maintenance.merged_log import MergedLog
from eventlog.open_log import directory_of, is_server

if TYPE_CHECKING:
    from eventlog.log.embedded.bulk_writer import BulkWriter
    from eventlog.log.postgres.engine import PostgresLog
    from eventlog.log.postgres.tables import Tables


def backup_to_directory(log: PostgresLog, to: Path, *, on_progress: Progress | None) -> BackupResult:
    """Copy what is committed by now into a store directory, while writers go on."""
    from eventlog.log.embedded.engine import open_log

    options = Options()
    identity = log.settings.made.hex()  # it outlives a rewrite, which makes another edition
    with storage_errors(to), destination(to):
        generations.discard(to)
        generations.sweep(to, options.io)
        if (to / "format").exists() and unfinished(to) is None and identity_of(to) != identity:
            raise CallError(f"{to} is a backup of another store")
        with copy_at(to, options.io.random(16).hex(), "a backup was being written", options) as (copy, store):
            source = MergedLog(log)
            events = _copied(source, copy, source.end, on_progress)
            copy.finish(store, identity, log.settings.encryption)
    with closing(open_log(to, read_only=True)) as made:
        sessions = sum(is_session(head) for head in made.heads())
        return BackupResult(cursor_at(made, made.last_positions()), sessions, events, whole=True)


def restore_to_server(source: str | os.PathLike[str], address: str, *, on_progress: Progress | None) -> BackupResult:
    """Fill the empty log at an address from a backup, a store or another server."""
    from eventlog.log.embedded.engine import open_log as open_directory
    from eventlog.log.postgres.opening import filling, open_log

    if is_server(source):
        on_server = open_log(str(source), read_only=True)
        with closing(on_server):
            merged = MergedLog(on_server)
            with filling(address, on_server.settings.encryption) as copy:
                events = _copied(merged, copy, merged.end, on_progress)
    else:
        log = open_directory(directory_of(source), read_only=True)
        with closing(log), filling(address, encryption_of(log.path)) as copy:
            events = _copied(log, copy, log.last_position(), on_progress)
    with closing(open_log(address)) as made:
        sessions = sum(is_session(head) for head in made.heads())
        return BackupResult(cursor_at(made, made.last_positions()), sessions, events, whole=True)


def _copied(source: CopySource, copy: BulkWriter | Tables, upto: int, on_progress: Progress | None) -> int:
    events = copy_commits(source, copy, upto, on_progress=on_progress)
    gone = [head for head in source.heads() if head.gone and copy.head(head.session) is None]
    copy.add([], {}, {}, {}, position=copy.position, gone=gone)
    return events
