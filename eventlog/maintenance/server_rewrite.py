"""Rewriting of a log on a server, in one transaction that keeps writers out.

The server keeps bytes of changed and deleted rows for a while, in dead rows, its own journal and
archives: content is gone for certain only where it was encrypted, and its key is destroyed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from eventlog.history.ancestry import ancestors
from eventlog.history.checkpoint_store import name_in_keys
from eventlog.history.relatives import heirs_of
from eventlog.integrity.scrub_ledger import ScrubLedger, new_record, read_ledger
from eventlog.log.digests import digests_in
from eventlog.log.merkle import SALT_BYTES
from eventlog.maintenance.emptied import Change, VacuumResult, emptied, inherited_versions, is_stale, rewritten

if TYPE_CHECKING:
    from eventlog.log.commit import Commit
    from eventlog.log.postgres.engine import PostgresLog

_PAGE = 1000


def rewrite_on_server(log: PostgresLog, changes: Mapping[str, Change], *, time: int) -> VacuumResult:
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
