"""Scrub: removes redacted, freed and erased content from every file of the store.

The store is written anew (`vacuum.py`). An append that held something of a redacted part, or a
value that no session has any more (`freed.py`), is written with that content blanked, with another
salt, and with the hash of its old leaf. So the hash tree, every saved head, versions, positions and
times stay what they were, and an attacker cannot test guesses of a secret against the hash. An
emptied append no longer proves anything: a redaction that only such an append records is recorded
again. Large texts go with the last append that names them. Checkpoints of the sessions concerned
and all token counts are dropped.

The files of the old store are overwritten before they are removed.  A file system that does not
write in place, or a disk that moves blocks, may keep copies that no program can name.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from eventlog import events as ev
from eventlog.codec.batch import decode, encode
from eventlog.codec.decoded import spans_of
from eventlog.codec.deltas import DeltaRun
from eventlog.codec.payload import is_foreign
from eventlog.codec.redaction import blank, free, part_of
from eventlog.errors import KeyMissingError
from eventlog.history.catalog import entry_of
from eventlog.history.lineage import END, StreamRange
from eventlog.history.streams import ancestry, stream_spans
from eventlog.maintenance.freed import freed_versions
from eventlog.maintenance.vacuum import Change, VacuumResult, emptied, rewrite

if TYPE_CHECKING:
    from collections.abc import Collection

    from eventlog.codec.batch import Item
    from eventlog.log.contract import Commit
    from eventlog.session.session import Sessions

__all__ = ["scrub"]


def scrub(store: Sessions) -> VacuumResult:
    """Remove redacted, freed and erased content from the files of a store.

    `BusyError` if another process or handle has it open.

    `KeyMissingError` for an encrypted store that was opened without keys: what was redacted cannot
    be found in it.
    """
    store.log.require_keys()
    changes: dict[str, Change] = {}
    freed = freed_versions(store.log)
    for head in store.log.heads():
        if is_foreign(head) or head.gone:
            continue
        erased = entry_of(head).erased
        streams = (
            [StreamRange(head.session, head.base + 1, head.version)] if erased else ancestry(store.log, head.session)
        )
        parts = _redacted_by_heirs(store, head.session) if erased else set[str]()
        for stream in streams:
            above = store.log.head(stream.session)
            parts.update(() if above is None else entry_of(above).redacted)
        if parts or head.session in freed:
            try:
                first = _first(store, streams, parts) if parts else END
            except KeyMissingError:
                continue  # unreadable without the key, so nothing can be removed
            versions = freed.get(head.session, set[int]())
            changes[head.session] = partial(_blanked, parts=frozenset(parts), first=first, freed=versions)
    for session, change in changes.items():
        _record_again(store, session, change)
    return rewrite(store.log, changes, shred=True, time=store.host.clock())


def _record_again(store: Sessions, session: str, change: Change) -> None:
    """Record again the redactions of a session that only emptied appends record.

    An emptied append has lost its hash, so it proves nothing.
    """
    head = store.log.head(session)
    if head is None or entry_of(head).erased or not entry_of(head).redacted:
        return
    unsure: dict[str, ev.PartRedacted] = {}
    sure: set[str] = set()
    for commit in store.log.read(session):
        items = (span.item for span in spans_of(commit)) if commit.payload else ()
        redactions = {item.part: item for item in items if isinstance(item, ev.PartRedacted)}
        if commit.emptied or (redactions and change(commit) is not commit):
            unsure = {**redactions, **unsure}
        else:
            sure.update(redactions)
    again = [event for part, event in unsure.items() if part not in sure]
    if again:
        store.session(session).executor.command(again)


def _redacted_by_heirs(store: Sessions, erased: str) -> set[str]:
    """Return the parts that the heirs of an erased session have redacted."""
    found: set[str] = set()
    for info in store.sessions():
        if info.fork_of is not None:
            names = [stream.session for stream in ancestry(store.log, info.id)]
            for head in [store.log.head(name) for name in names] if erased in names else ():
                found.update(() if head is None else entry_of(head).redacted)
    return found


def _first(store: Sessions, streams: list[StreamRange], parts: Collection[str]) -> int:
    """Return the first version that mentions one of the parts; no earlier view shows them."""
    for stream in streams:
        for span in stream_spans(store.log, stream.session, stream.first - 1, stream.last):
            if not isinstance(span.item, DeltaRun) and part_of(span.item) in parts:
                return span.first
    return END


def _blanked(commit: Commit, parts: Collection[str], first: int, freed: Collection[int]) -> Commit:
    """Return the commit without its content of these parts and versions.

    The commit itself if it has none.
    """
    if not commit.payload:
        return commit
    items: list[Item] = []
    changed = False
    start = None
    for span in spans_of(commit):
        item = blank(span.item, parts, digests=span.first > first)
        item = free(item) if span.first in freed else item
        changed = changed or item is not span.item
        start = span.time if start is None else start
        items.append(replace(item, start=span.time - start) if isinstance(item, DeltaRun) else (span.time, item))
    return emptied(commit, encode(items, start or 0, decode(commit.payload).messages)) if changed else commit
