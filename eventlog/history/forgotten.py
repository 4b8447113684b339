"""Forgotten versions of a session: events that no view of any version shows.

A session's catalog entry has the ranges that were forgotten there, in versions of its ancestry.
Forks read those of their parents, up to where they were forked, so they forget with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from eventlog import events as ev
from eventlog.codec.decoded import DecodedCommit, Span
from eventlog.codec.deltas import DeltaRun
from eventlog.codec.redaction import blank_batch
from eventlog.history.ancestry import forked_from, stream_spans
from eventlog.history.catalog import TITLES, entry_of
from eventlog.history.effective_history import StreamRange
from eventlog.history.ranges import Range, clipped, covers, meets, merged
from eventlog.log.contract import HeadReader, Log


def forgotten_in(log: HeadReader, session: str) -> tuple[Range, ...]:
    """Return the forgotten versions of a session, inherited ones included."""
    found: list[Range] = []
    for head, last in forked_from(log, session):
        if ranges := entry_of(head).forgotten:
            found += clipped(ranges, 1, last)
    return merged(found) if found else ()


def titles_redacted(log: Log, session: str) -> int:
    """Return the version before which a session's own titles are redacted; 0 if none is."""
    head = log.head(session)
    if head is None or TITLES not in entry_of(head).redacted:
        return 0
    found = (span for span in stream_spans(log, session) if isinstance(span.item, ev.SessionRenamed))
    return max((span.first for span in found if getattr(span.item, "part", None) == TITLES), default=0)


def untitled_ranges(log: Log, streams: Iterable[StreamRange]) -> list[Range]:
    """Return the versions of a session's streams whose titles are redacted."""
    titled = ((stream, titles_redacted(log, stream.session)) for stream in streams)
    return [(stream.first, min(before - 1, stream.last)) for stream, before in titled if before > stream.first]


def blanked_commits(commits: Iterator[DecodedCommit], ranges: Sequence[Range]) -> Iterator[DecodedCommit]:
    """Yield the commits, the events of forgotten versions without content."""
    for decoded in commits:
        if meets(ranges, decoded.first, decoded.last):
            batch = blank_batch(decoded.batch, decoded.first, lambda version: covers(ranges, version))
            yield DecodedCommit(decoded.session, decoded.first, decoded.last, decoded.position, decoded.epoch, batch)
        else:
            yield decoded


def without_content(spans: Iterator[Span], ranges: Sequence[Range]) -> Iterator[Span]:
    """Yield the effective history without the rests of forgotten records.

    Its ranges have none of them; events that no rollback undoes are in it all the same.
    """
    kept = (ev.RecordKept, ev.ForeignKept)
    for span in spans:
        if isinstance(span.item, DeltaRun) or not (isinstance(span.item, kept) and covers(ranges, span.first)):
            yield span
