"""Appends whose hash was kept while their content was taken out: whether an event says that it was to be.

Such an append cannot be hashed again, so whoever changes one could hide behind that.  An event that redacts one of its parts,
in its session or in one that this was forked from (`eventlog/maintenance/scrub.py` blanks what these redacted), is in a hash tree itself, and
stands for it, if nothing of that part is left in it; without one it is a fault.  What else such an append says is covered by
`eventlog/integrity/scrub_ledger.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from eventlog.codec.decoded import spans_of
from eventlog.codec.deltas import DeltaRun
from eventlog.codec.payload import is_encrypted
from eventlog.codec.redaction import NO_DIGEST, blank, part_of
from eventlog.events import CompactionStarted, PartRedacted, StepStarted
from eventlog.history.catalog import entry_of
from eventlog.history.streams import ancestry

if TYPE_CHECKING:
    from collections.abc import Iterable

    from eventlog.codec.decoded import Span
    from eventlog.log.contract import Commit
    from eventlog.store import Store

__all__ = ["unexplained"]


def unexplained(store: Store, session: str, commits: Iterable[Commit]) -> Commit | None:
    """The first of a session's emptied appends that no redaction explains, or None; the session is not erased."""
    redacted: set[str] | None = None
    for commit in commits:
        if is_encrypted(commit.payload):
            continue  # nobody can say what it speaks of
        if redacted is None:
            redacted = _redacted(store, session)
        if not _explained(spans_of(commit), redacted):
            return commit
    return None


def _explained(spans: list[Span], redacted: set[str]) -> bool:
    """Whether nothing is left of a redacted part that an append speaks of, or it lost the digest of a view for one.

    One part is enough: another part of the append may have been redacted after the last scrub, and is still there.
    """
    if redacted and any(_lost_its_digest(span) for span in spans):
        return True
    spoken = {part for span in spans for part in _parts(span)}
    return any(
        all(blank(span.item, (part,), digests=False) == span.item for span in spans) for part in spoken & redacted
    )


def _parts(span: Span) -> Iterable[str]:
    """The parts of which an item may hold content, or held it."""
    if isinstance(span.item, DeltaRun):
        return [part for part, _ in span.item.keys]
    part = part_of(span.item)
    return [] if part is None else [part]


def _lost_its_digest(span: Span) -> bool:
    """Whether an item lost the digest of a view, which goes with what was redacted in that (`eventlog/codec/redaction.py`)."""
    match span.item:
        case StepStarted(view_digest=digest) | CompactionStarted(prompt_digest=digest):
            return digest == NO_DIGEST
        case _:
            return False


def _redacted(store: Store, session: str) -> set[str]:
    """The parts that the session, and those it was forked from, have redacted; of an erased one its tombstone says it."""
    found: set[str] = set()
    for stream in ancestry(store.log, session):
        head = store.log.head(stream.session)
        if head is not None and (entry := entry_of(head)).erased:
            found.update(entry.redacted)
        for commit in store.log.read(stream.session):
            if not commit.emptied and not is_encrypted(commit.payload):
                items = (span.item for span in spans_of(commit))
                found.update(item.part for item in items if isinstance(item, PartRedacted))
    return found
