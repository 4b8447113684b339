"""Backup and restore of a log on a PostgreSQL server.

A backup is a store directory, as that of any store; each is written anew. A restore fills the
tables of an empty log, in transactions of whole commits; while it is being written, or after it
broke off, the log does not open. Heads are equal in both directions; positions are those of the
copy, so a cursor does not go on there.
"""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from eventlog.errors import CallError
from eventlog.history.ancestry import continued
from eventlog.history.cursor import cursor_at
from eventlog.log.embedded import generations
from eventlog.log.embedded.directory import encryption_of, identity_of, unfinished
from eventlog.log.embedded.options import Options
from eventlog.maintenance.copy_commits import copy_commits, storage_errors
from eventlog.maintenance.destination import BackupResult, Progress, copy_at, destination, result_of
from eventlog.open_log import directory_of, is_server

if TYPE_CHECKING:
    from eventlog.log.append_checks import RequestResult
    from eventlog.log.commit import Commit, Head
    from eventlog.log.embedded.bulk_writer import BulkWriter
    from eventlog.log.embedded.engine import EmbeddedLog
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
        return result_of(made, cursor_at(made, made.last_positions()), events, whole=True)


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
        return result_of(made, cursor_at(made, made.last_positions()), events, whole=True)


def _copied(
    source: MergedLog | EmbeddedLog, copy: BulkWriter | Tables, upto: int, on_progress: Progress | None
) -> Counter[str]:
    events = copy_commits(source, copy, upto, on_progress=on_progress)
    gone = [head for head in source.heads() if head.gone and copy.head(head.session) is None]
    copy.add([], {}, {}, {}, position=copy.position, gone=gone)
    return events


_BASES = 65_536
"""Sessions of which the number of inherited versions is remembered."""


class MergedLog:
    """A server's log as of now in one order, read once from its beginning (`CopySource`).

    A session's commits keep their order, and a fork comes behind the version that it continues. The
    other commits of two partitions have no order, so any will do.
    """

    def __init__(self, log: PostgresLog) -> None:
        self._log = log
        self._last = log.last_positions()
        self._read = [0] * len(self._last)
        """Position up to which each partition was read from the server."""
        self._given = [0] * len(self._last)
        """Position up to which its commits were returned."""
        self._waiting: list[deque[Commit]] = [deque() for _ in self._last]
        """Commits that were read and not returned."""
        self._turn = 0
        self._position = 0
        self._base = lru_cache(_BASES)(self._base_of)

    @property
    def end(self) -> int:
        """Position of the last event."""
        return sum(self._last)

    def commits_after(self, after: int, limit: int) -> list[Commit]:
        """Return the following commits, those behind the last that were returned."""
        assert after == self._position, "commits are read once, in their order"
        for _ in self._last:
            found = list(self._ready(self._turn, limit))
            if found:
                return found
            self._turn = (self._turn + 1) % len(self._last)
        return []

    def _ready(self, partition: int, limit: int) -> Iterator[Commit]:
        """Yield at most `limit` commits of a partition, up to a fork that has to wait."""
        waiting, last = self._waiting[partition], self._last[partition]
        if not waiting and self._read[partition] < last:
            found = self._log.commits_after(self._read[partition], limit, partition=partition)
            waiting += [commit for commit in found if commit.last_position <= last]
            self._read[partition] = waiting[-1].last_position if waiting else last
        while waiting and self._follows(waiting[0]):
            commit = waiting.popleft()
            self._given[partition] = commit.last_position
            yield replace(commit, position=self._position + 1)
            self._position += commit.count

    def _follows(self, commit: Commit) -> bool:
        """Return whether the version that a commit continues was returned before it."""
        base = self._base(commit.session)
        if commit.first != base + 1 or not base:
            return True
        head = self._log.head(commit.session)
        parent = None if head is None else continued(self._log, head)
        if parent is None:
            return True
        position = next((found.last_position for found in self._log.read(parent.session, base - 1, base)), 0)
        return position <= self._given[self._log.partition_of(parent.session)]

    def _base_of(self, session: str) -> int:
        head = self._log.head(session)
        return 0 if head is None else head.base

    def head(self, session: str) -> Head | None:
        """See `log.contract.Log`."""
        return self._log.head(session)

    def heads(self) -> Iterator[Head]:
        """See `log.contract.Log`."""
        return self._log.heads()

    def body(self, digest: bytes) -> bytes | None:
        """See `log.contract.Log`."""
        return self._log.body(digest)

    def request_result(self, session: str, request: str) -> RequestResult | None:
        """Return the result of a request id, with the digest of its content."""
        return self._log.request_result(session, request)
