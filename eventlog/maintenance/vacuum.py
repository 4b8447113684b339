"""Rewrites a store in its place without erased and redacted content, for vacuum and scrub.

The new files are written beside the old while other programs use the store, and take their place in
one step (`log/embedded/rewriting.py`). Heads, positions, versions and leases stay as they are.

A log on a server is rewritten in one transaction that keeps writers out. The server keeps bytes of
changed and deleted rows for a while, in dead rows, its own journal and archives: content is gone
for certain only where it was encrypted, and its key is destroyed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from time import time_ns
from typing import TYPE_CHECKING

from msgspec.structs import replace

from eventlog.errors import CallError
from eventlog.history.ancestry import ancestors
from eventlog.history.checkpoint_store import name_in_keys
from eventlog.history.relatives import heirs_of
from eventlog.integrity.scrub_ledger import ScrubLedger, new_record, read_ledger, write_record
from eventlog.log.contract import Log
from eventlog.log.digests import digests_in
from eventlog.log.embedded.directory import bytes_on_disk
from eventlog.log.merkle import SALT_BYTES
from eventlog.maintenance.copy_commits import copy_commits, storage_errors
from eventlog.maintenance.emptied import Change, VacuumResult, emptied, inherited_versions, is_stale, rewritten
from eventlog.maintenance.gathered import waiting
from eventlog.open_log import server_log

if TYPE_CHECKING:
    from eventlog.log.commit import Commit, Head
    from eventlog.log.embedded.bulk_writer import BulkWriter
    from eventlog.log.embedded.engine import EmbeddedLog
    from eventlog.log.postgres.engine import PostgresLog


def rewrite(log: Log, changes: Mapping[str, Change] | None = None, *, time: int | None = None) -> VacuumResult:
    """Write the store anew without the events of erased sessions.

    The commits of the sessions in `changes` go through their change, and what was derived from them
    is dropped. What is left of appends that lost something is recorded
    (`integrity/scrub_ledger.py`), at `time` (UTC milliseconds, now by default). `BusyError` if
    another process rewrites or copies it for a minute, `CallError` for a store that is not in a
    directory.
    """
    from eventlog.log.embedded.engine import EmbeddedLog

    engine = log.engine
    through = log.stored_changes(changes or {})
    now = time_ns() // 1_000_000 if time is None else time
    on_server = server_log(log)
    if on_server is not None:
        done = _rewrite_on_server(on_server, through, now)
    elif isinstance(engine, EmbeddedLog):
        with storage_errors(engine.path):
            done = _rewrite(engine, through, now)
    else:
        raise CallError("only a store in a directory, or on a server, can be written anew")
    log.forget_keys()
    return done


def _rewrite(log: EmbeddedLog, changes: Mapping[str, Change], time: int) -> VacuumResult:
    from eventlog.log.embedded import generations
    from eventlog.log.embedded.rewriting import make_next, sweep

    path, options = log.path, log.options
    with generations.rewriting(path):
        generations.sweep(path, options.io)
        before, gathered = bytes_on_disk(path), waiting(log)
        rewriter = _Rewriter(log, changes, time)
        make_next(log, rewriter.copy_to, rewriter.copy_folded, rewriter.copy_last)
        for each in gathered:
            each.unlink(missing_ok=True)
    pending = sweep(log.partition)  # unlocked, so that others may rewrite it meanwhile
    return VacuumResult(before, bytes_on_disk(path), rewriter.gone, rewriter.emptied, pending)


class _Rewriter:
    """Content of the next generation of a store."""

    def __init__(self, log: EmbeddedLog, changes: Mapping[str, Change], time: int) -> None:
        self._log = log
        self._changes = changes
        self._time = time
        self._needed = inherited_versions(log)
        self._ledger = ScrubLedger()
        self.gone = self.emptied = 0

    def copy_to(self, copy: BulkWriter, position: int) -> None:
        """Copy the commits up to a position; the copy has it, even if the last commits are gone."""
        copy_commits(self._log, copy, position, change=self._changed, heads=lambda _before, _commit, now: now)
        if copy.position < position:
            copy.add([], {}, {}, {}, position=position)

    def _changed(self, commit: Commit) -> Commit | None:
        """Return what the next generation has of a commit, None for nothing."""
        changed = rewritten(commit, self._needed.get(commit.session), self._changes)
        if changed is not None and changed.emptied:
            self.emptied += not commit.emptied
            self._ledger.add(changed)
        return changed

    def copy_folded(self, copy: BulkWriter) -> None:
        """Copy derived values, and heads that changed without a commit."""
        segments = self._log.partition.tail.segments
        heads = self._log.heads()  # the newest: a stale one would stay in a free page
        self._copy_heads(copy, (head for head in heads if head.position <= copy.position))  # others are in memory yet
        dropped = {name_in_keys(session) for session in (*self._needed, *self._changes)}
        values = segments.scan_derived(b"")
        copy.add_derived((key, value) for key, value in values.items() if not is_stale(key, dropped))

    def _copy_heads(self, copy: BulkWriter, heads: Iterable[Head]) -> None:
        """Copy heads that changed without a commit, or lost all commits."""
        changed: dict[str, Head] = {}
        gone: list[Head] = []
        for head in heads:
            copied = copy.head(head.session)
            if copied is None or copied.gone:
                self.gone += copied is None
                gone.append(replace(head, gone=True))
            elif copied != head:
                changed[head.session] = head
        if changed or gone:
            copy.add([], changed, {}, {}, position=copy.position, gone=gone)

    def copy_last(self, copy: BulkWriter, heads: Iterable[Head]) -> None:
        """Copy the heads in memory, and record what is left of emptied appends."""
        self._copy_heads(copy, heads)
        write_record(copy, self._ledger, self._time, self._log.options.io.random(SALT_BYTES))


_PAGE = 1000


def _rewrite_on_server(log: PostgresLog, changes: Mapping[str, Change], time: int) -> VacuumResult:
    """Remove the events of erased sessions, and change those of others, in one transaction.

    Bodies that no commit names any more go, and what was derived from the sessions that changed.
    """
    before = log.bytes_stored()
    with log.held() as tables:
        needed = inherited_versions(log)
        ledger = ScrubLedger()
        left = [name for name, last in needed.items() if last == 0]
        counted = 0
        for commit in _all_commits(log):
            changed = rewritten(commit, needed.get(commit.session), changes)
            if changed is None:
                tables.remove([commit])
                continue
            counted += changed.emptied and not commit.emptied
            if changed is not commit:
                tables.replace(changed)
            if changed.emptied:
                ledger.add(changed)
            tables.name_bodies(digests_in(changed.payload))
        for name in left:
            tables.tombstone(name)
        tables.remove_unnamed()
        record = new_record(log, ledger, 0, time, os.urandom(SALT_BYTES))
        if record is not None:
            commit, head = record
            tables.add([commit], {head.session: head}, {}, {}, position=0)
    dropped = {name_in_keys(session) for session in (*needed, *changes)}
    log.put_derived([(key, None) for key in log.derived_keys(b"") if is_stale(key, dropped)])
    log.reclaim()
    return VacuumResult(before, log.bytes_stored(), len(left), counted)


def empty_rows(log: PostgresLog, session: str) -> None:
    """Take out of the rows of an erased session what no fork inherits, while others write.

    The commits stay, emptied, until a rewriting deletes them; so do large texts, and a session of
    which a scrub has emptied something, which it has recorded. The last commit tells followers of
    the erasure.
    """
    heirs = (stream for heir in heirs_of(log, session) for stream in ancestors(log, heir))
    last = max((stream.last for stream in heirs if stream.session == session), default=0)
    head = log.head(session)
    if head is not None and session not in read_ledger(log):
        going = (each for each in log.read(session, last, head.version - 1) if each.first > last)
        log.take_out(session, list(map(emptied, going)))


def _all_commits(log: PostgresLog) -> Iterator[Commit]:
    """Yield all commits, partition by partition."""
    for partition, last in enumerate(log.last_positions()):
        after = 0
        while after < last:
            found = log.commits_after(after, _PAGE, partition=partition)
            if not found:
                break
            yield from found
            after = found[-1].last_position
