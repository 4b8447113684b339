"""The one replay loop: a checkpoint and later events give a state.

Live reading, catching up, time travel and forks all use it.  Not a projection, and it never writes.  A fold cannot un-apply, so two
kinds of event send the loop back: `RolledBack`, after which the session's effective history is folded again, and the undoing of a
compaction whose covered messages the state has let go (`NeedsReplay`); from the checkpoint before it the compaction is then folded as
one that hid nothing.

`Walk` goes through many versions in order and folds each state from the one before.  It uses no checkpoint, so its states depend on
events alone.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

from eventlog.codec.decoded import Span
from eventlog.errors import NotFoundError
from eventlog.events import CompactionCompleted, CompactionFailed, CompactionUndone, PartRedacted
from eventlog.session.reader import SessionReader
from eventlog.session.session import Session
from eventlog.validation import require_version
from projections.replay.checkpoints import Checkpoints
from projections.replay.projection import NeedsReplay, Projection, Source, fold

__all__ = ["Follower", "Replayed", "Walk", "go_on", "hide_inherited", "replay", "state_at"]

S = TypeVar("S")


class Replayed(NamedTuple, Generic[S]):
    """A state and its version."""

    state: S
    version: int


def replay(
    projection: Projection[S], source: Source, at: int | None = None, checkpoints: Checkpoints | None = None
) -> Replayed[S]:
    """The state right after version `at` (now by default), from the newest usable checkpoint; `NotFoundError` for one that is not there."""
    version = source.version
    if at is not None:
        require_version(at)
        if not 1 <= at <= version:
            raise NotFoundError("version", str(at), session=source.id)
        version = at
    straight = _straight(projection, source, version, checkpoints)
    if straight is not None:
        return straight
    undone: set[str] = set()
    limit = version
    while True:
        start, state = 0, None
        if checkpoints is not None:
            start, state = next(checkpoints.valid(projection, source, limit, version), (0, None))
        folded = projection.initial() if state is None else state
        try:
            for span in source.history(version, start):
                folded = fold(projection, folded, _as_undone(span, undone))
        except NeedsReplay as back:
            if back.part in undone:
                limit = start - 1
            else:  # with all others that are undone by then, so that many cost no more than one
                undone |= {back.part} | _undone(source, version, start)
            continue
        return Replayed(hide_inherited(projection, folded, source, version), version)


def _straight(
    projection: Projection[S], source: Source, version: int, checkpoints: Checkpoints | None
) -> Replayed[S] | None:
    """The same where no rollback comes after the newest checkpoint: then what is effective need not be known.  None elsewhere."""
    start, state = 0, None
    if checkpoints is not None:
        start, state = next(checkpoints.sound(projection, source, version), (0, None))
    found = go_on(projection, source, projection.initial() if state is None else state, start, version)
    return None if found is None else Replayed(hide_inherited(projection, found.state, source, version), version)


def go_on(
    projection: Projection[S], source: Source, state: S, after: int, upto: int | None = None
) -> Replayed[S] | None:
    """The state after the events of versions `after + 1 .. upto`, folded onto `state`; None where a fold cannot go on.

    It cannot un-apply: a rollback, or the undoing of a compaction whose messages were let go, needs a replay.
    """
    version = after
    try:
        for stretch in source.stretches(after, upto):
            state, following = projection.apply_batch(state, stretch.batch, stretch.first)
            if following <= stretch.last:  # a rollback
                return None
            version = stretch.last
    except NeedsReplay:
        return None
    return Replayed(state, version)


def hide_inherited(projection: Projection[S], state: S, source: Source, version: int) -> S:
    """The state of a fork without what was redacted where it was made: the fork has no event of that."""
    for part in _hidden(source):
        state = fold(projection, state, Span(source.id, version, 0, 0, 0, PartRedacted(part)))
    return state


def state_at(session: Session, projection: Projection[S], at: int | None = None) -> Replayed[S]:
    """The state right after a version, as it is to be shown: what was redacted later is redacted in it, too."""
    state, version = replay(projection, session.reader, at, Checkpoints(session.store.log))
    if at is not None:
        for span in session.reader.spans(version):
            if isinstance(span.item, PartRedacted):
                state = fold(projection, state, span)
    return Replayed(state, version)


def _hidden(source: Source) -> tuple[str, ...]:
    return source.inherited_redactions() if isinstance(source, SessionReader) else ()


def _undone(source: Source, version: int, after: int) -> set[str]:
    """The compactions that events after `after` undid, in the history as of `version`."""
    items = (span.item for span in source.history(version, after))
    return {item.part for item in items if isinstance(item, CompactionUndone)}


def _as_undone(span: Span, undone: set[str]) -> Span:
    """A compaction that is undone later never hid anything."""
    item = span.item
    if undone and isinstance(item, CompactionCompleted) and item.part in undone:
        return span._replace(item=CompactionFailed(item.part, "undone", item.summary))
    return span


class Follower(Generic[S]):
    """A live state: it takes in what the session got since the last look."""

    def __init__(self, projection: Projection[S], source: Source, checkpoints: Checkpoints | None = None) -> None:
        self._projection = projection
        self._source = source
        self._checkpoints = checkpoints
        self.state, self.version = replay(projection, source, None, checkpoints)
        self._inherits = isinstance(source, SessionReader) and len(source.ancestry()) > 1
        self._hidden = _hidden(source)
        self.renewed = True
        """Whether `state` is another object than at the last look."""
        self._broken = False
        """Whether a look broke off, so that nobody knows what the state has taken in."""

    def advance(self) -> bool:
        """Take in new events; True if there were any.  Each costs O(1), but a rollback or undo folds again."""
        if self._broken:
            return self._again()
        try:
            found = go_on(self._projection, self._source, self.state, self.version)
        except BaseException:
            self._broken = True
            raise
        if found is None:
            return self._again()
        state, version = found
        changed = version > self.version
        if self._inherits and (hidden := _hidden(self._source)) != self._hidden:
            state = hide_inherited(self._projection, state, self._source, version)
            self._hidden, changed = hidden, True
        self.state, self.version = state, version
        return changed

    def save(self) -> None:
        """Keep a checkpoint of the state; for whoever may write."""
        if self._checkpoints is not None and not self._broken:
            self._checkpoints.save(self._projection, self._source, self.version, self.state)

    def _again(self) -> bool:
        self._broken = True
        self.state, self.version = replay(self._projection, self._source, None, self._checkpoints)
        self._broken = False
        self.renewed = True
        return True


class Walk(Generic[S]):
    """The state right after a version; going on costs the events in between, going back a whole replay."""

    def __init__(self, projection: Projection[S], source: Source) -> None:
        self._projection = projection
        self._source = source
        self.state = projection.initial()
        self.version = 0

    def to(self, version: int) -> S:
        """The state right after `version`, as it was then; it is changed by the next call."""
        found = None
        if version >= self.version:
            found = go_on(self._projection, self._source, self.state, self.version, version)
        if found is None:
            found = replay(self._projection, self._source, version)
        self.state, self.version = found
        return self.state
