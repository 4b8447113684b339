"""Rebuild a projection's state: the newest checkpoint that fits, plus the events after it.

Reading now, catching up, time travel and forks all use this loop. It writes no event.

`Follower.advance` is the forward loop. A projection cannot un-apply an event, so three kinds of
event make it give up: `RolledBack`, `RecordForgotten`, and the undoing of a compaction whose
covered messages the state has evicted (`NeedsReplay`). It then applies the effective history from
an older checkpoint, with the undone compaction as one that hid nothing.

A long replay leaves checkpoints on its way, so that a later one, of any version, is short.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

from msgspec.structs import replace

from eventlog.codec.decoded import Span
from eventlog.events import CompactionCompleted, CompactionFailed, CompactionUndone, PartRedacted, PartStarted
from eventlog.history.effective_history import END
from eventlog.history.ranges import Range, clipped, meets
from eventlog.session.reader import SessionReader
from eventlog.session.session import Session
from eventlog.values import Snapshot
from projections.replay.checkpoints import Checkpoint, Checkpoints, is_as_of
from projections.replay.projection import NeedsReplay, Projection, apply_span

S = TypeVar("S")

APART = 2_000
"""Replayed events between two checkpoints that a replay leaves."""
_BYTES_AN_EVENT = 128
"""Bytes of a checkpoint that cost less than an event to apply, by far."""


class StateAtVersion(NamedTuple, Generic[S]):
    """A projection's state and the version of the newest event in it."""

    state: S
    version: int


def replay(
    projection: Projection[S], source: SessionReader, at: int | None = None, checkpoints: Checkpoints | None = None
) -> StateAtVersion[S]:
    """Return the state right after version `at` (now by default).

    Starts from the newest checkpoint that fits. Raises `NotFoundError` for a version that does not
    exist.
    """
    follower = Follower(projection, source, checkpoints, at=at)
    return StateAtVersion(follower.state, follower.version)


def redact_parts(projection: Projection[S], state: S, parts: tuple[str, ...], source: SessionReader, version: int) -> S:
    """Redact parts of a state by no event of its own: a parent's, or what came later."""
    for part in parts:
        state = apply_span(projection, state, Span(source.id, version, 0, 0, 0, PartRedacted(part)))
    return state


def state_at(
    session: Session, projection: Projection[S], at: int | None = None, *, uses_checkpoints: bool = True
) -> StateAtVersion[S]:
    """Return the state right after a version, with later redactions in it."""
    checkpoints = Checkpoints(session.store.log) if uses_checkpoints else None
    state, version = replay(projection, session.reader, at, checkpoints)
    if at is not None:
        state = redact_parts(projection, state, session.reader.redactions(version), session.reader, version)
    return StateAtVersion(state, version)


class Follower(Generic[S]):
    """A state that follows a session: `advance` applies the events that came since."""

    def __init__(
        self,
        projection: Projection[S],
        source: SessionReader,
        checkpoints: Checkpoints | None = None,
        *,
        at: int | None = None,
    ) -> None:
        """Begin with the state right after version `at` (now by default)."""
        self._projection = projection
        self.source = source
        """Reads the session; another handle of it may take its place."""
        self._checkpoints = checkpoints
        self.saved: int = 0
        """Version of the checkpoint that the state came from, or was stored as; 0 without one."""
        self.left: int = 0
        """Version of the newest checkpoint that it left on its way."""
        self._inherits = len(source.ancestry()) > 1
        self._restart(at)

    def _restart(self, at: int | None) -> None:
        """Begin again from the newest checkpoint that fits, else from version 0."""
        self._broken = True
        """Whether an exception broke off `advance`, so that `state` may have half an append."""
        version, source = self.source.resolve(at), self.source
        forgotten = source.forgotten()  # before what leaves them out: of later ones nothing is known
        begin = self._begin(version, at)
        self.version: int = begin.version
        self.state: S = begin.state
        self.saved = self.version
        self._redacted: tuple[str, ...] = ()
        self._forgotten = clipped(forgotten, 1, self.version)
        """Forgotten versions, which the state leaves out."""
        if at is None:  # the newest version costs no command state, which has the ranges
            self._advance(version, None, is_forward=self._reads_on(None))  # it may begin in another history
        else:
            first, last = next(reversed(source.effective_ranges(version)), (0, 0))
            is_forward = first <= self.version + 1 and last == version
            self._advance(version, None if is_forward else begin, is_forward=is_forward)
        self.version = version
        self.renewed: bool = True
        """Whether `state` was replaced by another object; readers reset it."""

    def advance(self, to: int | None = None) -> bool:
        """Apply later events up to version `to` (now by default); return whether anything changed.

        Each event costs O(1). A rollback, an undone compaction and an earlier version cost a
        replay.
        """
        if self._broken or (to is not None and to < self.version):
            self._restart(to)
            return True
        return self._advance(to, None, is_forward=self._reads_on(to))

    def _advance(self, to: int | None, begin: Checkpoint[S] | None, *, is_forward: bool) -> bool:
        """Apply later events, or else the effective history after `begin` or a checkpoint."""
        version, state, projection, source = self.version, self.state, self._projection, self.source
        self._broken = True
        try:
            for decoded in source.decoded_commits(version, to) if is_forward else ():
                state, following = projection.apply_batch(state, decoded.batch, decoded.first)
                if following <= decoded.last:  # a rollback, or something was forgotten
                    is_forward = False
                    break
                version = decoded.last
                if version > self._due:
                    self._leave(version, state, self._forgotten)
                    self.left = version
        except NeedsReplay:
            is_forward = False
        if not is_forward:
            version, forgotten = source.resolve(to), source.forgotten()
            state, self.saved = self._replay_effective(version, begin, forgotten)
            self._count_from(version)
            self._redacted, self.renewed = (), True
            self._forgotten = clipped(forgotten, 1, version)
        changed = version > self.version or not is_forward
        if self._inherits:
            redacted = source.inherited_redactions()
            if redacted and (changed or redacted != self._redacted):  # a new pin may name a redacted part
                state = redact_parts(projection, state, redacted, source, version)
                changed = True
            self._redacted = redacted
        self.state = state
        self.version = version
        self._broken = False
        return changed

    def save(self) -> None:
        """Store a checkpoint of the state; the caller must be allowed to write."""
        if self._checkpoints is not None and not self._broken:
            size = self._checkpoints.save(self._projection, self.source, self.version, self.state, self._forgotten)
            self._count_from(self.version, size)
            self.saved = self.version if size else self.saved

    # -- helpers -------------------------------------------------------------------------------

    def _reads_on(self, to: int | None) -> bool:
        """Whether nothing was forgotten that is in the state, or in the versions up to `to`."""
        forgotten, after = self.source.forgotten(), self.version + 1
        return not forgotten or (
            clipped(forgotten, 1, self.version) == self._forgotten
            and not meets(forgotten, after, END if to is None else to)
        )

    def _count_from(self, version: int, size: int = 0) -> None:
        """Count events from a version on, at which a checkpoint of `size` bytes may be."""
        own = self.source.ancestry()[-1].first if self._inherits else 0
        after = max(version + max(APART, size // _BYTES_AN_EVENT), own)
        self._due: int = END if self._checkpoints is None else after
        """Version after which a replay leaves a checkpoint; a fork leaves none of its parent's."""

    def _leave(self, version: int, state: S, forgotten: Sequence[Range]) -> None:
        """Leave a checkpoint on the way."""
        assert self._checkpoints is not None
        self._count_from(version, self._checkpoints.leave(self._projection, self.source, version, state, forgotten))

    def _begin(self, upto: int, at: int | None) -> Checkpoint[S]:
        """Return the newest checkpoint up to version `upto` that fits the history at `at`."""
        begin = Checkpoint(0, self._projection.initial(), 0)
        if self._checkpoints is not None:
            begin = next(self._checkpoints.valid(self._projection, self.source, upto, at), begin)
        self._count_from(begin.version, begin.size)
        return begin

    def _replay_effective(self, version: int, begin: Checkpoint[S] | None, forgotten: Sequence[Range]) -> tuple[S, int]:
        """Apply the effective history from a checkpoint; return the version as well.

        Goes back to an older checkpoint as long as the state has evicted what has to come back.
        """
        projection, source = self._projection, self.source
        ranges = source.effective_ranges(version)
        undone: set[str] = set()
        limit = version
        while True:
            start, state, _ = begin or self._begin(limit, version)
            begin = None
            try:
                for span in source.history(version, start):
                    state = apply_span(projection, state, _without_effect(span, undone))
                    if span.last > self._due and not undone and is_as_of(source, ranges, span.last):
                        self._leave(span.last, state, forgotten)
            except NeedsReplay as needed:
                if needed.part in undone:
                    limit = start - 1
                else:  # together with all others undone by then: many undone compactions cost one more replay
                    undone |= {needed.part} | _undone_compactions(source, version, start)
                continue
            return state, start


def _undone_compactions(source: SessionReader, version: int, after: int) -> set[str]:
    """Return the compactions that events after `after` undid, in the history as of `version`."""
    items = (span.item for span in source.history(version, after))
    return {item.part for item in items if isinstance(item, CompactionUndone)}


def _without_effect(span: Span, undone: set[str]) -> Span:
    """Turn the completion of a compaction that is undone later into a failure.

    One of the provider's, which is taken out later, becomes a part that says nothing.
    """
    item = span.item
    if undone and isinstance(item, CompactionCompleted) and item.part in undone:
        return span._replace(item=CompactionFailed(item.part, "undone", item.summary))
    if undone and isinstance(item, PartStarted) and item.part in undone:
        return span._replace(item=replace(item, kind=Snapshot("")))
    return span
