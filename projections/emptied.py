"""Appends whose hash was kept while their content was taken out: whether an event says that it was to be.

Such an append cannot be hashed again, so whoever changes one could hide behind that.  An event that redacts one of its parts,
in its session or in another of the store (a redaction covers the family of forks), is in a hash tree itself, and stands for
it; without one it is a fault.  What else such an append says is covered by `eventlog/remains.py`.

Imported by `verify.py` only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from eventlog.blanking import NO_DIGEST, part_of
from eventlog.codec import spans_of
from eventlog.deltas import DeltaRun
from eventlog.events import CompactionStarted, PartRedacted, StepStarted
from eventlog.foreign import is_foreign
from eventlog.sealed import is_sealed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from eventlog.log.base import Commit
    from eventlog.store import Store

__all__ = ["unexplained"]


def unexplained(store: Store, commits: Iterable[Commit]) -> Commit | None:
    """The first of these emptied appends of sessions that are there that no redaction explains, or None."""
    redacted: set[str] | None = None
    for commit in commits:
        if is_sealed(commit.payload):
            continue  # nobody can say what it speaks of
        if redacted is None:
            redacted = _redacted(store)
        if redacted.isdisjoint(_parts(commit)) and not (redacted and _lost_a_digest(commit)):
            return commit
    return None


def _parts(commit: Commit) -> Iterable[str]:
    """The parts that an append still speaks of."""
    for span in spans_of(commit):
        if isinstance(span.item, DeltaRun):
            yield from (part for part, _ in span.item.keys)
        else:
            part = part_of(span.item) or getattr(span.item, "part", None)
            if isinstance(part, str):
                yield part


def _lost_a_digest(commit: Commit) -> bool:
    """Whether an append lost the digest of a view, which goes with what was redacted in that (`eventlog/blanking.py`)."""
    return any(
        (isinstance(span.item, StepStarted) and span.item.view_digest == NO_DIGEST)
        or (isinstance(span.item, CompactionStarted) and span.item.prompt_digest == NO_DIGEST)
        for span in spans_of(commit)
    )


def _redacted(store: Store) -> set[str]:
    """The parts that any session of the store has redacted."""
    return {
        span.item.part
        for head in store.log.heads()
        if not is_foreign(head)
        for commit in store.log.read(head.session)
        if not commit.emptied and not is_sealed(commit.payload)
        for span in spans_of(commit)
        if isinstance(span.item, PartRedacted)
    }
