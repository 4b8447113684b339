"""Scrub: removes redacted, freed and erased content from every file of the store.

The store is written anew (`vacuum.py`). An append that held something of a redacted part, or a
value that no session has any more (`freed.py`), is written with that content blanked, with another
salt, and with the hash of its old leaf. So the hash tree, every saved head, versions, positions and
times stay what they were, and an attacker cannot test guesses of a secret against the hash. In an
encrypted store an append with a redacted title in its catalog entry is emptied of the title. An
emptied append no longer proves anything: a redaction that only such an append records is recorded
again. Large texts go with the last append that names them. Checkpoints of the sessions concerned
and all token counts are dropped.

The files of the old store are overwritten before they are removed.  A file system that does not
write in place, or a disk that moves blocks, may keep copies that no program can name.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from eventlog import events as ev
from eventlog.codec.batch import decode, encode
from eventlog.codec.decoded import spans_of
from eventlog.codec.deltas import DeltaRun
from eventlog.codec.payload import is_foreign
from eventlog.codec.redaction import blank, blank_all, free, part_of, untitled
from eventlog.errors import ErasedError, KeyMissingError
from eventlog.history.ancestry import ancestors, forked_from, stream_spans
from eventlog.history.catalog import TITLES, entry_of
from eventlog.history.effective_history import END, StreamRange
from eventlog.history.forgotten import forgotten_in, titles_redacted
from eventlog.history.ranges import Range, clipped, meets, merged, without
from eventlog.maintenance.emptied import Change, VacuumResult, before_repair, emptied
from eventlog.maintenance.freed import freed_versions
from eventlog.maintenance.vacuum import rewrite

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from eventlog.codec.batch import Item
    from eventlog.log.commit import Commit
    from eventlog.session.session import Sessions


def scrub(store: Sessions) -> VacuumResult:
    """Remove redacted, freed and erased content from the files of a store.

    `BusyError` if another process rewrites or copies it for a minute.

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
        inherited = [] if erased else ancestors(store.log, head.session)  # it may be erased by now
        streams = [*inherited, StreamRange(head.session, head.base + 1, END)]
        parts, ranges = _hidden_by_heirs(store, head.session) if erased else (set[str](), ())
        for above, _ in forked_from(store.log, head.session):
            parts.update(entry_of(above).redacted)
        ranges = merged((*ranges, *forgotten_in(store.log, head.session)))
        parts.discard(TITLES)
        if parts or ranges or head.session in freed or TITLES in entry_of(head).redacted:
            try:
                titled = titles_redacted(store.log, head.session)
                begun = frozenset(_begun_in(store, streams, ranges))
                first = _first(store, streams, parts, ranges) if parts or ranges else END
            except KeyMissingError:
                continue  # unreadable without the key, so nothing can be removed
            versions = frozenset(freed.get(head.session, ()))
            hidden = _Hidden(frozenset(parts), ranges, begun, versions, titled, first)
            changes[head.session] = partial(_blanked, hidden=hidden)
    for session, change in changes.items():
        _record_again(store, session, change)
    return rewrite(store.log, changes, time=store.host.clock())


class _Hidden(NamedTuple):
    """Parts and versions that a session must not show any more."""

    parts: frozenset[str]
    """Redacted parts."""
    ranges: tuple[Range, ...]
    """Forgotten versions."""
    begun: frozenset[str]
    """Parts that forgotten versions begin; other records may have told their results."""
    freed: frozenset[int]
    """Versions whose values no living session has any more."""
    titled: int
    """The version before which titles are redacted."""
    first: int
    """The first version that has any of it, freed values and titles left out."""


def _record_again(store: Sessions, session: str, change: Change) -> None:
    """Record again what only emptied appends record of a session's redacted parts and records.

    An emptied append has lost its hash, so it proves nothing.
    """
    head = store.log.head(session)
    if head is None or (entry := entry_of(head)).erased or not (entry.redacted or entry.forgotten):
        return
    unsure: dict[str, ev.PartRedacted] = {}
    sure: set[str] = set()
    proven: list[Range] = []
    stored_change = store.log.stored_changes({session: change})[session]
    going = {stored.first for stored in store.log.engine.read(session) if stored_change(stored) is not stored}
    for commit in store.log.read(session):
        items = (span.item for span in spans_of(commit)) if commit.payload else ()
        found = [item for item in items if isinstance(item, (ev.PartRedacted, ev.RecordForgotten))]
        redactions = {item.part: item for item in found if isinstance(item, ev.PartRedacted)}
        if commit.emptied or commit.first in going:
            unsure = {**redactions, **unsure}
        else:
            sure.update(redactions)
            proven += [one for item in found if isinstance(item, ev.RecordForgotten) for one in item.ranges]
    again: list[ev.Event] = [event for part, event in unsure.items() if part not in sure]
    lacking = without(entry.forgotten, merged(proven))
    again += [ev.RecordForgotten(tuple(lacking))] if lacking else []
    if again:
        with suppress(ErasedError):  # meanwhile
            store.session(session).executor.command(again)


def _hidden_by_heirs(store: Sessions, erased: str) -> tuple[set[str], tuple[Range, ...]]:
    """Return the parts and versions that the heirs of an erased session have hidden."""
    found: set[str] = set()
    ranges: list[Range] = []
    for info in store.sessions():
        if info.fork_of is not None:
            heads = list(forked_from(store.log, info.id))
            last = next((last for head, last in heads if head.session == erased), 0)
            for head, _ in heads if last else ():
                found.update(entry_of(head).redacted)
                ranges += clipped(entry_of(head).forgotten, 1, last)
    return found, merged(ranges)


def _begun_in(store: Sessions, streams: list[StreamRange], ranges: tuple[Range, ...]) -> Iterator[str]:
    """Yield the parts that forgotten versions begin."""
    for stream in streams:
        for first, last in clipped(ranges, stream.first, stream.last):
            for span in stream_spans(store.log, stream.session, first - 1, last):
                if isinstance(span.item, ev.PartStarted):
                    yield span.item.part


def _first(store: Sessions, streams: list[StreamRange], parts: Collection[str], ranges: tuple[Range, ...]) -> int:
    """Return the first version that has any of it; no earlier view shows it."""
    forgotten = ranges[0][0] if ranges else END
    for stream in streams:
        for span in stream_spans(store.log, stream.session, stream.first - 1, stream.last):
            if span.first >= forgotten:
                return forgotten
            if not isinstance(span.item, DeltaRun) and part_of(span.item) in parts:
                return span.first
    return forgotten


def _blanked(commit: Commit, hidden: _Hidden) -> Commit:
    """Return the commit without what its session hides; itself if it has none of it.

    A record that has something of a redacted part goes as a whole.
    """
    if not commit.payload:
        return commit
    parts, ranges, begun, freed, titled, first = hidden
    spans = spans_of(commit)
    ends = ((span.first, span.item.events) for span in spans if isinstance(span.item, ev.RecordKept))
    told = {version for end, events in ends for version in range(end - events, end)}
    items: list[Item] = []
    before = before_repair(commit)
    changed = before is not None and _blanked(before, hidden) is not before
    start = None
    newest = -1
    """Index of the newest event with content of a redacted part."""
    for span in spans:
        item = blank(span.item, parts, digests=span.first > first)
        if not isinstance(item, DeltaRun) and part_of(item) in parts:
            newest = len(items)
        elif isinstance(item, ev.RecordKept) and newest >= (place := len(items) - item.events):
            item = blank_all(item)
            items[place:] = [_without_text(one) for one in items[place:]]
        if meets(ranges, span.first, span.last):
            item = blank_all(item)
        elif span.first not in told:
            item = blank(item, begun, digests=False)
        item = free(item) if span.first in freed else item
        item = untitled(item) if span.first < titled else item
        changed = changed or item is not span.item
        start = span.time if start is None else start
        items.append(replace(item, start=span.time - start) if isinstance(item, DeltaRun) else (span.time, item))
    return emptied(commit, encode(items, start or 0, decode(commit.payload).messages)) if changed else commit


def _without_text(item: Item) -> Item:
    """Return an item of a record without a large text that only the record has."""
    if isinstance(item, DeltaRun) or not isinstance(item[1], ev.ForeignKept):
        return item
    return item[0], replace(item[1], data="")
