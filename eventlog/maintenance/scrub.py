"""Scrub: what was redacted, and what was erased, leaves every file of the store.

The store is written anew (`vacuum.py`).  An append that held something of a redacted part is written with that blanked,
with another salt, and with the hash its leaf had: the hash tree, every head that was kept, versions, positions and times stay what
they were, and nobody can try secrets against the hash.  Without its hash an append proves nothing: a redaction that only such an append
records is recorded anew.  Large texts go with the last append that names them.  Checkpoints of the sessions concerned and all counts of
tokens are dropped.  The files of the old store are overwritten before they are removed; a file system that does not write in place, or a
disk that moves blocks, may keep copies that no program can name.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from eventlog import events as ev
from eventlog.codec.batch import encode
from eventlog.codec.decoded import spans_of
from eventlog.codec.deltas import DeltaRun
from eventlog.codec.payload import is_foreign
from eventlog.codec.redaction import blank, part_of
from eventlog.errors import KeyMissingError
from eventlog.history.catalog import entry_of
from eventlog.history.lineage import END, Stream
from eventlog.history.streams import ancestry, stream_spans
from eventlog.maintenance.vacuum import Change, VacuumResult, emptied, rewrite
from eventlog.open_log import require_keys

if TYPE_CHECKING:
    from collections.abc import Collection

    from eventlog.codec.batch import Item
    from eventlog.log.contract import Commit
    from eventlog.session.session import Sessions

__all__ = ["scrub"]


def scrub(store: Sessions) -> VacuumResult:
    """Take what was redacted and erased out of the files of a store; `BusyError` if anybody else has it open.

    `KeyMissingError` for an encrypted store that was opened without keys: what was redacted cannot be found in it.
    """
    require_keys(store.log)
    changes: dict[str, Change] = {}
    for head in store.log.heads():
        if is_foreign(head) or head.gone:
            continue
        erased = entry_of(head).erased
        streams = [Stream(head.session, head.base + 1, head.version)] if erased else ancestry(store.log, head.session)
        parts = _of_heirs(store, head.session) if erased else set[str]()
        for stream in streams:
            above = store.log.head(stream.session)
            parts.update(() if above is None else entry_of(above).redacted)
        if parts:
            try:
                first = _first(store, streams, parts)
            except KeyMissingError:
                continue  # nobody can read what is in it, and so nobody can take something out
            changes[head.session] = partial(_blanked, parts=frozenset(parts), first=first)
    for session, change in changes.items():
        _record_anew(store, session, change)
    return rewrite(store.log, changes, shred=True, time=store.host.clock())


def _record_anew(store: Sessions, session: str, change: Change) -> None:
    """Record the redactions of a session anew that only appends without their hash tell of: of those nobody can say whether they were made."""
    head = store.log.head(session)
    if head is None or entry_of(head).erased or not entry_of(head).redacted:
        return
    unsure: dict[str, ev.PartRedacted] = {}
    sure: set[str] = set()
    for commit in store.log.read(session):
        items = (span.item for span in spans_of(commit)) if commit.payload else ()
        told = {item.part: item for item in items if isinstance(item, ev.PartRedacted)}
        if commit.emptied or (told and change(commit) is not commit):
            unsure = {**told, **unsure}
        else:
            sure.update(told)
    again = [event for part, event in unsure.items() if part not in sure]
    if again:
        store.session(session).executor.command(again)


def _of_heirs(store: Sessions, erased: str) -> set[str]:
    """What the sessions that inherited from an erased one redacted, of that too."""
    found: set[str] = set()
    for info in store.sessions():
        if info.fork_of is not None:
            names = [stream.session for stream in ancestry(store.log, info.id)]
            for head in [store.log.head(name) for name in names] if erased in names else ():
                found.update(() if head is None else entry_of(head).redacted)
    return found


def _first(store: Sessions, streams: list[Stream], parts: Collection[str]) -> int:
    """The first version that speaks of one of the parts: no view before it has anything of them."""
    for stream in streams:
        for span in stream_spans(store.log, stream.session, stream.first - 1, stream.last):
            if not isinstance(span.item, DeltaRun) and part_of(span.item) in parts:
                return span.first
    return END


def _blanked(commit: Commit, parts: Collection[str], first: int) -> Commit:
    """The commit without what it holds of these parts; itself if that is nothing."""
    if not commit.payload:
        return commit
    items: list[Item] = []
    changed = False
    start = None
    for span in spans_of(commit):
        item = blank(span.item, parts, digests=span.first > first)
        changed = changed or item is not span.item
        start = span.time if start is None else start
        items.append(replace(item, start=span.time - start) if isinstance(item, DeltaRun) else (span.time, item))
    return emptied(commit, encode(items, start or 0)) if changed else commit
