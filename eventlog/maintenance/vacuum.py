"""Rewrites a store in its place without erased and redacted content, for vacuum and scrub.

No other process or handle may have the store open.  The new store is written beside the old, and
takes its place in one step; after a crash the next program that opens the store finishes it
(`log/embedded/swap.py`).  Heads, positions, versions and leases stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from time import time_ns
from typing import TYPE_CHECKING

from msgspec.structs import replace

from eventlog.codec.payload import DESTROYED
from eventlog.errors import CallError
from eventlog.history.checkpoint_store import PREFIX, name_in_keys
from eventlog.history.value_index import PREFIX as VALUES
from eventlog.integrity.scrub_ledger import ScrubLedger, write_record
from eventlog.log.commit import Commit
from eventlog.log.contract import Log
from eventlog.log.embedded.directory import bytes_on_disk
from eventlog.log.merkle import SALT_BYTES
from eventlog.maintenance.copy_commits import copy_commits, storage_errors
from eventlog.maintenance.emptied import Change, VacuumResult, emptied, inherited_versions
from eventlog.open_log import server_log

if TYPE_CHECKING:
    from pathlib import Path

    from eventlog.log.embedded.options import Options

__all__ = ["rewrite"]


def rewrite(
    log: Log, changes: Mapping[str, Change] | None = None, *, shred: bool, time: int | None = None
) -> VacuumResult:
    """Write the store anew without the events of erased sessions.

    The commits of the sessions in `changes` go through their change.

    `shred`: the files of the old store are overwritten, and what was derived from the sessions that
    changed is dropped. What is left of appends that lost something is recorded
    (`integrity/scrub_ledger.py`), at `time` (UTC milliseconds, now by default). `BusyError` if
    another process or handle has it open, `CallError` for a store that is not in a directory.
    """
    from eventlog.log.embedded.engine import EmbeddedLog

    engine = log.engine
    through = log.stored_changes(changes or {})
    on_server = server_log(log)
    if on_server is not None:
        from eventlog.maintenance.server_rewrite import rewrite_on_server

        now = time_ns() // 1_000_000 if time is None else time
        result = rewrite_on_server(on_server, through, time=now)
        log.forget_keys()
        return result
    if not isinstance(engine, EmbeddedLog):
        raise CallError("only a store in a directory, or on a server, can be written anew")
    with storage_errors(engine.path):
        now = time_ns() // 1_000_000 if time is None else time
        done = engine.exclusively(partial(_rewrite, changes=through, shred=shred, time=now))
    log.forget_keys()
    return done


def _rewrite(path: Path, options: Options, *, changes: Mapping[str, Change], shred: bool, time: int) -> VacuumResult:
    from eventlog.log.embedded import swap
    from eventlog.log.embedded.bulk_writer import BulkWriter
    from eventlog.log.embedded.segments.segments import Segments

    swap.finish(path, options.io)
    before = bytes_on_disk(path)
    following = swap.fresh(path)
    try:
        segments = Segments(path / "lmdb", read_only=True, map_bytes=options.map_bytes)
        try:
            copy = BulkWriter(following, options)
            try:
                needed = inherited_versions(segments)
                counted = {"emptied": 0}
                ledger = ScrubLedger()

                def change(commit: Commit) -> Commit | None:
                    last = needed.get(commit.session)
                    if last == 0:
                        return None
                    if last is not None and commit.first > last:
                        changed = emptied(commit)
                    else:
                        changed = commit if commit.session not in changes else changes[commit.session](commit)
                    if changed.emptied:
                        counted["emptied"] += not commit.emptied
                        if not changed.salt:
                            changed = emptied(changed, changed.payload)
                        elif commit.emptied and changed.payload == commit.payload:
                            changed = commit
                        ledger.add(changed)
                    return changed

                position = segments.folded().position
                copy_commits(segments, copy, position, change=change, heads=lambda _before, _commit, now: now)
                gone = [replace(head, gone=True) for head in segments.heads("") if copy.head(head.session) is None]
                copy.add([], {}, {}, {}, position=position, gone=gone)
                write_record(copy, ledger, time, options.io.random(SALT_BYTES))
                dropped = {name_in_keys(session) for session in (*needed, *changes)}
                copy.add_derived(
                    (key, value)
                    for key, value in segments.scan_derived(b"").items()
                    if not dropped
                    or key.startswith(DESTROYED)
                    or (key.startswith((PREFIX, VALUES)) and not any(name in key for name in dropped))
                )
                swap.write_file(following / "edition", options.io.random(16).hex())
                copy.finish(None)
            finally:
                copy.close()
        finally:
            segments.close()
    except BaseException:
        swap.discard(path)
        raise
    swap.commit(path, shred=shred)
    swap.finish(path, options.io)
    return VacuumResult(before, bytes_on_disk(path), len(gone), counted["emptied"])
