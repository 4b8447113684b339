"""Check that a redaction, a newer value or a repair explains what an append lost.

A scrub removes content from an append and keeps its hash. The append cannot be hashed again, so a
forger could pass off any change as a scrub. Therefore a redaction of one of its parts must be
recorded, in its session or in an ancestor, and nothing of that part may be left. The redaction
itself is in a hash tree. Or the append gave a title that a later event of its session redacts; in
an encrypted store, or had it in its catalog entry. Or it has a freed value, and its stream has a
later one of the same key, or dropped it. `eventlog/integrity/scrub_ledger.py` covers what else the
append says.
A repair leaves in the append what was committed, which has the hash still: all but the lost texts
must be the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from eventlog.codec.decoded import spans_of
from eventlog.codec.deltas import DeltaRun
from eventlog.codec.payload import decode_encrypted_payload, is_encrypted
from eventlog.codec.redaction import NO_DIGEST, TITLED, blank, blank_all, is_freed, part_of, without_bodies
from eventlog.events import (
    CompactionStarted,
    PartRedacted,
    PartStarted,
    RecordForgotten,
    StepStarted,
    ValueDropped,
    ValuePut,
)
from eventlog.history.ancestry import forked_from, stream_spans
from eventlog.history.catalog import entry_of
from eventlog.history.effective_history import END
from eventlog.history.forgotten import titles_redacted
from eventlog.history.ranges import Range, clipped, covers, merged
from eventlog.log.merkle import leaf_data, leaf_hash
from eventlog.maintenance.emptied import before_repair, left_out

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from eventlog.codec.decoded import Span
    from eventlog.log.commit import Commit
    from eventlog.store import Store


def unexplained(store: Store, session: str, commits: Iterable[Commit]) -> Commit | None:
    """Return the first emptied append that nothing recorded explains, or None.

    The session is not erased.
    """
    hidden: tuple[set[str], tuple[Range, ...]] | None = None
    newest: dict[str, int] | None = None
    untitled: tuple[Range, ...] | None = None
    commits = list(commits)
    titled = titles_redacted(store.log, session) if commits else 0
    for commit in commits:
        if is_encrypted(commit.payload):
            continue  # without the key its parts are not known
        if _is_repaired(commit):
            continue
        spans = spans_of(commit)
        freed = [
            (span.first, span.item.key) for span in spans if isinstance(span.item, ValuePut) and is_freed(span.item)
        ]
        if freed and newest is None:
            newest = _newest_changes(store, session)
        if newest is not None and any(newest.get(key, 0) > version for version, key in freed):
            continue
        if any(span.first < titled and _is_untitled(span) for span in spans):
            continue
        if hidden is None:
            hidden = _hidden(store, session)
        if _explained(spans, *hidden):
            continue
        if not commit.stored or decode_encrypted_payload(commit.stored).entry is None:
            return commit
        if untitled is None:
            untitled = _untitled(store, session, titled, hidden[0])
        if not covers(untitled, commit.last):
            return commit
    return None


def _untitled(store: Store, session: str, titled: int, parts: set[str]) -> tuple[Range, ...]:
    """Return the versions after which the session had a title that is redacted.

    Titles before version `titled` are, and those that quote one of the parts.
    """
    given = [span for span in stream_spans(store.log, session) if isinstance(span.item, TITLED)]
    ends = [*(span.first - 1 for span in given), END][1:]
    return tuple(
        (span.first, last)
        for span, last in zip(given, ends, strict=True)
        if _is_untitled(span) and (span.first < titled or getattr(span.item, "part", None) in parts)
    )


def _is_untitled(span: Span) -> bool:
    """Return whether an item has no title, and could give one."""
    return isinstance(span.item, TITLED) and not span.item.title


def _is_repaired(commit: Commit) -> bool:
    """Return whether a commit is what was committed, but for the texts that a repair left out."""
    before = before_repair(commit)
    if before is None or leaf_hash(leaf_data(before)) != commit.leaf:
        return False
    lost = left_out(commit)
    was = [
        span.item if isinstance(span.item, DeltaRun) else without_bodies(span.item, lost) for span in spans_of(before)
    ]
    return was == [span.item for span in spans_of(commit)]


def _newest_changes(store: Store, session: str) -> dict[str, int]:
    """Return the newest version that put or dropped each key in a session's own stream."""
    return {
        span.item.key: span.first
        for span in stream_spans(store.log, session)
        if isinstance(span.item, (ValuePut, ValueDropped))
    }


def _explained(spans: list[Span], redacted: set[str], forgotten: Sequence[Range]) -> bool:
    """Return whether a redaction, or a forgotten record, explains a scrubbed append.

    It does if nothing is left of one redacted part or forgotten version of it, or if the digest of
    a view is gone. One is enough: another may have been redacted after the last scrub, and is
    still there.
    """
    if (redacted or forgotten) and any(_lost_its_digest(span) for span in spans):
        return True
    if any(covers(forgotten, span.first) and blank_all(span.item) is span.item for span in spans):
        return True
    parts = {part for span in spans for part in _parts(span)}
    return any(
        all(blank(span.item, (part,), digests=False) == span.item for span in spans) for part in parts & redacted
    )


def _parts(span: Span) -> Iterable[str]:
    """Return the parts whose content an item has, or had before a scrub."""
    if isinstance(span.item, DeltaRun):
        return [part for part, _ in span.item.keys]
    part = part_of(span.item)
    return [] if part is None else [part]


def _lost_its_digest(span: Span) -> bool:
    """Return whether an item lost the digest of a view; a scrub removes it with the part."""
    match span.item:
        case StepStarted(view_digest=digest) | CompactionStarted(prompt_digest=digest):
            return digest == NO_DIGEST
        case _:
            return False


def _hidden(store: Store, session: str) -> tuple[set[str], tuple[Range, ...]]:
    """Return the parts and versions that the session and its ancestors redacted, or forgot.

    For an erased session the tombstone has them. The parts that forgotten versions begin are
    among them.
    """
    parts: set[str] = set()
    ranges: list[Range] = []
    begun: list[tuple[int, str]] = []
    for head, last in forked_from(store.log, session):
        if (entry := entry_of(head)).erased:
            parts.update(entry.redacted)
            ranges += clipped(entry.forgotten, 1, last)
        for commit in store.log.read(head.session):
            if is_encrypted(commit.payload):
                continue
            for span in spans_of(commit):
                item = span.item
                if isinstance(item, PartStarted) and span.first <= last:
                    begun.append((span.first, item.part))
                elif isinstance(item, PartRedacted) and not commit.emptied:
                    parts.add(item.part)
                elif isinstance(item, RecordForgotten) and not commit.emptied:
                    ranges += clipped(item.ranges, 1, last)
    forgotten = merged(ranges)
    parts.update(part for version, part in begun if covers(forgotten, version))
    return parts, forgotten
