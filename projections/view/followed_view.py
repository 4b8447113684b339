"""Views of a session that follow its events: one for all targets, and one for some alone.

The view leaves checkpoints behind: after a compaction, and after many replayed events. So a fresh
process reads the messages of the view and few events, in each program. A read-only store and an
erased session get no checkpoint.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from eventlog.errors import EventlogError
from eventlog.values import Content
from projections.conversation.state import Conversation
from projections.replay.checkpoints import Checkpoints
from projections.replay.loop import Follower
from projections.view.assembly import Assembly
from projections.view.digest import RunningDigest
from projections.view.messages import Messages
from projections.view.offer import Offer, OfferReader
from projections.view.options import RenderOptions
from projections.view.system_prompt import SystemPrompt
from projections.view.targets import (
    addressed,
    note_own_target,
    noted_own_target,
    own_target,
    projection_of,
    target_named,
)

if TYPE_CHECKING:
    from eventlog.session.host import Host
    from eventlog.session.reader import SessionReader
    from projections.view.token_count import ViewCounter

REPLAYED = 2_000
"""Replayed events after which a reader leaves a checkpoint."""
_MOST = 4
"""Views that are followed: those looked at last."""
_PER_MESSAGE = 50
"""Followed events per message of the view after which a reader leaves a checkpoint."""
_RENDERINGS = 4
"""Sets of options by which a state stays rendered."""
_OBJECT = 1_000
"""Bytes of a message of the state with its parts, beside the texts that are rendered."""


class Shown(NamedTuple):
    """Content of a view."""

    version: int
    messages: Messages
    system: tuple[str, ...]
    """As recorded, before any hook."""
    offer: Offer
    target: str = ""
    boundary: str | None = None
    """Part of the compaction in force."""
    counting: Counting | None = None
    """Shared with other views; None: its own."""


class _Rendering(NamedTuple):
    assembly: Assembly
    counting: Counting


class FollowedView:
    """Follows a session: each new event costs O(1), each view a small tail.  For one thread."""

    def __init__(self, reader: SessionReader, host: Host, own: str | None = None) -> None:
        """`own` is the target whose opaque compactions count; None: none of them does."""
        self.own = own
        self._id = reader.id
        self._host = host
        self._checkpoints = Checkpoints(host.log)
        self._projection = projection_of(own)
        self._follower = Follower(self._projection, reader, self._checkpoints)
        self._renderings: dict[RenderOptions, _Rendering] = {}
        """By options, the least recently used first."""
        self._system = SystemPrompt(self._text)
        self._offer = OfferReader(self._text)
        began = self._follower.saved
        self._in_force = self.state.in_force if began else None
        """The compaction in force at the newest checkpoint."""
        self._keep_if_due(began)
        self._follower.renewed = False

    @property
    def version(self) -> int:
        """Version of the newest event that was applied."""
        return self._follower.version

    @property
    def state(self) -> Conversation:
        """The conversation as of the last `advance`."""
        return self._follower.state

    @property
    def size(self) -> int:
        """About how many bytes are in memory."""
        rendered = sum([rendering.assembly.size for rendering in self._renderings.values()])
        return rendered + _OBJECT * len(self._follower.state.messages)

    def advance(self, reader: SessionReader) -> bool:
        """Apply the events that came since; return whether there were any."""
        follower = self._follower
        follower.source = reader
        before = follower.version
        changed = follower.advance()
        if follower.renewed:
            for rendering in self._renderings.values():
                rendering.assembly.replace_state(follower.state)
        if changed:
            self._keep_if_due(before)
        follower.renewed = False
        return changed

    def note(self) -> None:
        """Bring what is rendered up to date, so that the state records only later changes."""
        if (changes := self._follower.state.take_changes()) is not None:
            for rendering in self._renderings.values():
                rendering.assembly.apply(changes)

    def shown(self, options: RenderOptions, excluding: str | None = None, last_words: str | None = None) -> Shown:
        """Return what the view shows, as of the last `advance`, without the message `excluding`."""
        self.note()
        state = self._follower.state
        target, options = target_named(state, options), addressed(state, options)
        rendering = self._renderings.get(options) or self._rendered_by(options)
        return Shown(
            self._follower.version,
            rendering.assembly.view(excluding, last_words),
            self._system.of(state),
            self._offer.of(state),
            target,
            state.in_force,
            rendering.counting,
        )

    def render_only(self, options: RenderOptions) -> None:
        """Render with these options from here on, and with no others."""
        self.note()
        self._renderings.clear()
        self._rendered_by(options)

    def save(self) -> None:
        """Store a checkpoint; the caller must be allowed to write."""
        self._in_force, self._follower.saved = self.state.in_force, self.version
        self._follower.save()
        note_own_target(self._host.log, self._follower.source, self.version, self.own)

    # -- helpers -------------------------------------------------------------------------------

    def _rendered_by(self, options: RenderOptions) -> _Rendering:
        """Render the state by other options; what was used least recently goes."""
        state = self._follower.state
        made = _Rendering(Assembly(state, options, self._text), Counting(self._host, self._id, options))
        if (changes := state.take_changes()) is not None:
            made.assembly.apply(changes)
        while len(self._renderings) >= _RENDERINGS:
            del self._renderings[next(iter(self._renderings))]
        self._renderings[options] = made
        return made

    def _text(self, content: Content) -> str:
        return content if isinstance(content, str) else self._host.text(content, self._id)

    def _keep_if_due(self, before: int) -> None:
        """Store a checkpoint if one is due, and none was stored since version `before`."""
        follower = self._follower
        behind = follower.version - follower.saved
        if follower.state.in_force == self._in_force and (
            behind <= REPLAYED or not (follower.renewed or behind > _PER_MESSAGE * len(follower.state.messages))
        ):
            return
        log = self._host.log
        if log.read_only:
            return
        self._in_force = follower.state.in_force
        with suppress(EventlogError):  # the next reader replays as much
            stored = max(self._checkpoints.versions(self._projection, self._follower.source), default=0)
            if max(before, follower.left) < stored <= follower.version:
                follower.saved = stored
            else:
                self.save()


class Counting:
    """Counter and digest that views of one session share; the counter is made when first used."""

    def __init__(self, host: Host, session: str, options: RenderOptions) -> None:
        self._host = host
        self._id = session
        self._options = options
        self._counter: ViewCounter | None = None
        self.digest: RunningDigest = RunningDigest()

    def counter(self) -> ViewCounter:
        """The counter."""
        if self._counter is None:
            from projections.view.token_count import counter_of

            self._counter = counter_of(self._id, self._host.log, self._options.model)
        return self._counter


class TargetViews:
    """Gives the view that options show, up to date.  For one thread."""

    def __init__(self, reader: SessionReader, host: Host) -> None:
        self._host = host
        self._views: dict[str | None, FollowedView] = {}
        """By the target that has the state of its own, the least recently used first."""
        self.newest: FollowedView = self._follow(noted_own_target(host.log, reader), reader)
        """The view that was given last."""

    @property
    def size(self) -> int:
        """About how many bytes are in memory."""
        return sum([view.size for view in self._views.values()])

    def of(self, reader: SessionReader, options: RenderOptions) -> FollowedView:
        """Return the view of these options, with all events of the session in it."""
        view = self.newest
        view.advance(reader)
        while (own := own_target(view.state, options)) != view.own:
            if own in self._views:
                view = self._views[own] = self._views.pop(own)
                view.advance(reader)
            else:
                view = self._follow(own, reader)
            self.newest = view
            while len(self._views) > _MOST:
                del self._views[next(iter(self._views))]
        return view

    def _follow(self, own: str | None, reader: SessionReader) -> FollowedView:
        view = self._views[own] = FollowedView(reader, self._host, own)
        return view
