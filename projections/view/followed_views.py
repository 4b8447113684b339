"""Followed views of a session: one for all targets, and one for each with its own state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from projections.view.followed_view import FollowedView
from projections.view.targets import noted_own_target, own_target

if TYPE_CHECKING:
    from eventlog.session.host import Host
    from eventlog.session.reader import SessionReader
    from projections.view.options import RenderOptions

__all__ = ["TargetViews"]

_MOST = 4
"""Views that are followed: those looked at last."""


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
