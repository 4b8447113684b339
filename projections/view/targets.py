"""The target of a view, and the state that shows it.

A compaction that only one target can read hides messages from that target alone: it has a state of
its own, every other target has the state for all.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from msgspec.structs import replace

from eventlog.history import checkpoint_store
from eventlog.values import target_of
from projections.conversation.projection import ConversationProjection
from projections.conversation.state import Conversation
from projections.replay.checkpoints import Checkpoints
from projections.replay.loop import Follower, StateAtVersion, state_at

if TYPE_CHECKING:
    from eventlog.log.contract import Log
    from eventlog.session.reader import SessionReader
    from eventlog.session.session import Session
    from projections.view.options import RenderOptions

_NOTE = "model-view target"
"""Kind of the derived row that says whose state was stored last."""


class ModelViewProjection(ConversationProjection):
    """The projection behind the view.  Its state evicts covered messages."""

    name: str = "model-view"
    whole = False

    def __init__(self, own: str | None = None) -> None:
        """`own` is the target whose opaque compactions count; None: none of them does."""
        self.own = own
        if own is not None:
            digest = blake2b(own.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
            self.name = f"model-view {digest}"

    def initial(self) -> Conversation:
        """An empty conversation."""
        return Conversation(whole=self.whole, own=self.own)


PROJECTION = ModelViewProjection()


def projection_of(own: str | None) -> ModelViewProjection:
    """Return the projection of a target with a state of its own, or that of all others."""
    return PROJECTION if own is None else ModelViewProjection(own)


def target_named(state: Conversation, options: RenderOptions) -> str:
    """Return the target of a view.

    The options' own; else that of the newest call that did not fail, if it asked the options'
    model; else the model.
    """
    if options.target or options.model is None:
        return options.target or state.target
    named = target_of(options.model)
    return state.target if state.target.startswith(f"{named} at ") else named


def addressed(state: Conversation, options: RenderOptions) -> RenderOptions:
    """Return options with the target, if it decides how the view's compaction is shown."""
    compaction = state.compaction_in_force
    if compaction is None or not compaction.is_provided or options.target:
        return options
    return replace(options, target=target_named(state, options))


def own_target(state: Conversation, options: RenderOptions) -> str | None:
    """Return the target of a view if it has a state of its own, else None."""
    if not state.boundaries:
        return None
    target = target_named(state, options)
    boundary = state.boundaries.get(target)
    return target if boundary is not None and boundary.place >= options.state_from else None


def state_for(session: Session, at: int | None, options: RenderOptions) -> StateAtVersion[Conversation]:
    """Return the state that shows the view right after a version, with later redactions in it."""
    own = None if at is not None else noted_own_target(session.store.log, session.reader)
    while True:
        found = state_at(session, projection_of(own), at)
        wanted = own_target(found.state, options)
        if wanted == own:
            return found
        own = wanted


class TargetFollower:
    """Follows a session by the state that shows the view of some options."""

    def __init__(self, source: SessionReader, checkpoints: Checkpoints | None = None) -> None:
        self._source = source
        self._checkpoints = checkpoints
        self._followers: dict[str | None, Follower[Conversation]] = {}
        """By the target that has the state of its own."""
        self._own: str | None = None

    @property
    def version(self) -> int:
        """Version of the newest event in the state that was given last."""
        return self._followers[self._own].version

    def advance(self, options: RenderOptions, to: int | None = None) -> Conversation:
        """Return the state right after version `to`, by default now."""
        while True:
            own, follower = self._own, self._followers.get(self._own)
            if follower is None:
                follower = self._followers[own] = Follower(projection_of(own), self._source, self._checkpoints, at=to)
            follower.advance(to)
            self._own = own_target(follower.state, options)
            if self._own == own:
                return follower.state


def note_own_target(log: Log, reader: SessionReader, version: int, own: str | None) -> None:
    """Store whose state was stored at a version, for the next process that opens the session."""
    if own is not None or checkpoint_store.versions(log, _NOTE, reader.id):
        data = b"" if own is None else b"t" + own.encode("utf-8", "surrogatepass")
        checkpoint_store.save(log, _NOTE, reader.id, version, data, surplus=checkpoint_store.newest(1))


def noted_own_target(log: Log, reader: SessionReader) -> str | None:
    """Return the target whose state was stored last, None for that of all.

    None on a server, where the look would be a round trip for each view that is opened.
    """
    if log.is_remote:
        return None
    for stream in reversed(reader.ancestry()):
        for _, data in checkpoint_store.valid(log, _NOTE, stream.session, stream.last):
            return data[1:].decode("utf-8", "surrogatepass") if data else None
    return None
