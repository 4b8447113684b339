"""Rewrites a store in its place without erased and redacted content, for vacuum and scrub.

The new files are written beside the old while other programs use the store, and take their place in
one step (`log/embedded/rewriting.py`). Heads, positions, versions and leases stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from time import time_ns
from typing import TYPE_CHECKING

from msgspec.structs import replace

from eventlog.errors import CallError
from eventlog.history.checkpoint_store import name_in_keys
from eventlog.integrity.scrub_ledger import ScrubLedger, write_record
from eventlog.log.contract import Log
from eventlog.log.embedded.directory import bytes_on_disk
from eventlog.log.merkle import SALT_BYTES
from eventlog.maintenance.copy_commits import copy_commits, storage_errors
from eventlog.maintenance.emptied import Change, VacuumResult, inherited_versions, is_stale, rewritten
from eventlog.maintenance.gathered import waiting
from eventlog.open_log import server_log

if TYPE_CHECKING:
    from eventlog.log.commit import Commit, Head
    from eventlog.log.embedded.bulk_writer import BulkWriter
    from eventlog.log.embedded.engine import EmbeddedLog


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
        from eventlog.maintenance.server_rewrite import rewrite_on_server

        result = rewrite_on_server(on_server, through, time=now)
        log.forget_keys()
        return result
    if not isinstance(engine, EmbeddedLog):
        raise CallError("only a store in a directory, or on a server, can be written anew")
    with storage_errors(engine.path):
        done = _rewrite(engine, through, now)
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
