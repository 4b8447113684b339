"""The window over time: tokens by kind at a few hundred versions, found a slice at a time.

A long session is sampled: at its prunes, compactions and rollbacks, just before and right after,
and at steps in between.  One forward pass visits the versions in order; each call goes on for a
fraction of a second, so that a page draws what is known while the rest is counted.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import partial
from operator import attrgetter
from time import monotonic
from typing import TYPE_CHECKING, Any

import msgspec

from projections.inspector.large_text import beginning
from projections.replay.checkpoints import Checkpoints
from projections.view.assembly import Assembly
from projections.view.followed_view import Shown
from projections.view.model_view import ModelView
from projections.view.offer import offer_of
from projections.view.options import DEFAULT
from projections.view.system_prompt import system_segments
from projections.view.targets import TargetFollower, addressed
from projections.view.token_count import ViewCounter, counter_of
from projections.window.policy.limits import usable
from projections.window.policy.policy import decode_policy
from projections.window.sizing.breakdown import RunningKinds

if TYPE_CHECKING:
    from eventlog import Session
    from eventlog.values import Content, Limits
    from projections.conversation.state import Conversation
    from projections.inspector.history import History

POINTS = 160
"""Versions that are looked at, at most."""
_SLICE = 0.4
"""Seconds of one call."""
_COUNTED = 4_000_000
"""Characters of a text that are counted: more fill any window."""
_SHRINKING = frozenset(("pruned", "compacted", "provider-compaction", "rolled-back", "restored", "compaction-undone"))


def sample(history: History, points: int = POINTS) -> list[int]:
    """Return the versions to look at: around what shrinks the view, and steps in between."""
    edges = [entry.version for entry in history.jumps if entry.kind in _SHRINKING]
    edges = _thinned(edges, points // 4)
    around = {version for edge in edges for version in (edge - 1, edge) if version > 0}
    steps = [step.view_version or step.version for step in history.steps] or history.messages
    between = _thinned(steps, points - len(around) - 1)
    return sorted({*around, *between, history.version})


def _thinned(versions: list[int], most: int) -> list[int]:
    """Return at most so many of the versions, evenly chosen, with the first and the last."""
    if len(versions) <= most:
        return versions
    return [versions[round(place * (len(versions) - 1) / (most - 1))] for place in range(most)]


def window_tokens(session: Session, state: Conversation, version: int) -> int:
    """Return the tokens of the window at a version, as the point of that version has them."""
    view = _view(
        session, state, version, Assembly(state, addressed(state, DEFAULT), partial(beginning, session, most=_COUNTED))
    )
    return counter_of(session.id, session.store.log, state.model).count(
        view.messages, view.system, view.tools, view.format
    )


def _view(session: Session, state: Conversation, version: int, assembly: Assembly) -> ModelView:
    text = partial(beginning, session, most=_COUNTED)
    system, offer = system_segments(state, text), offer_of(state, text)
    return ModelView(session, DEFAULT, Shown(version, assembly.view(), system, offer))


class WindowSeries:
    """The points of one session up to a version."""

    def __init__(self, session: Session, history: History) -> None:
        self.version: int = history.version
        self.points: list[dict[str, Any]] = []
        self._session = session
        self._waiting = sample(history)[::-1]
        self._calls = history.rows
        self._follower: TargetFollower | None = None
        self._state: Conversation | None = None
        self._assembly: Assembly | None = None
        self._counter: ViewCounter | None = None
        self._kinds = RunningKinds()

    @property
    def left(self) -> int:
        """Points that are not known yet."""
        return len(self._waiting)

    def go_on(self) -> None:
        """Look at more versions, for a fraction of a second."""
        end = monotonic() + _SLICE
        while self._waiting and monotonic() < end:
            self.points.append(self._point(self._waiting.pop()))
        if not self._waiting:
            self._follower = self._assembly = self._counter = None
            self._kinds = RunningKinds()

    def _point(self, version: int) -> dict[str, Any]:
        if self._follower is None:
            checkpoints = Checkpoints(self._session.store.log)
            self._follower = TargetFollower(self._session.reader, checkpoints)
        before, state = self._state, self._follower.advance(DEFAULT, version)
        self._state = state
        if self._assembly is None or state is not before:
            self._assembly = Assembly(state, addressed(state, DEFAULT), self._text)
        if self._counter is None:
            self._counter = counter_of(self._session.id, self._session.store.log, state.model)
        view = _view(self._session, state, version, self._assembly)
        calls = bisect_right(self._calls, version, key=attrgetter("version"))
        kinds = self._kinds.of(state, view, DEFAULT, self._text, self._counter)
        return {
            "version": version,
            "calls": calls,
            "messages": len(view.messages),
            "kinds": msgspec.to_builtins(kinds),
            "total": kinds.total,
            "usable": usable(self._limits(state, calls), decode_policy(state.policy).overflow),
        }

    def _limits(self, state: Conversation, calls: int) -> Limits | None:
        """Return the recorded limits, else those that the catalogue has for the model."""
        models = self._session.store.host.models
        named = state.model or (self._calls[calls - 1].model if calls else "")
        return state.limits or (models.limits(named) if named in models else None)

    def _text(self, content: Content) -> str:
        return beginning(self._session, content, _COUNTED)
