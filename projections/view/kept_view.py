"""A session's view as its store keeps it: each caller pays for new events only.

One lock a session: callers of one session wait for each other, callers of others do not. What is
handed out never changes. After an error nothing is kept, and the next caller reads again.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from typing import TYPE_CHECKING, TypeVar

from eventlog.session.session import Session
from projections.view.followed_view import FollowedView, Shown, TargetViews
from projections.view.options import DEFAULT

if TYPE_CHECKING:
    from eventlog.session.host import Host
    from eventlog.session.reader import SessionReader
    from eventlog.values import Model
    from projections.view.options import RenderOptions

T = TypeVar("T")


def kept_view(session: Session) -> KeptView:
    """Return the view that the session's store keeps; errors of a closed store."""
    host = session.store.host
    host.require_open()
    name = session.id
    return host.kept.get(name, lambda: KeptView(name, host))


def leave_checkpoint(reader: SessionReader, host: Host) -> None:
    """Store a checkpoint of the view: a compaction was just completed."""
    kept = host.kept.find(reader.id)
    if isinstance(kept, KeptView):
        kept.catch_up(reader)  # which leaves one
    elif not host.log.read_only:
        TargetViews(reader, host).of(reader, DEFAULT).save()


class KeptView:
    """The view of one session.  Safe across threads."""

    def __init__(self, session: str, host: Host) -> None:
        self.size: int = 0
        self._id = session
        self._host = host
        self._lock = RLock()
        self._inside = False
        """Whether it is being changed: a signal handler of the same thread may come between."""
        self._views: TargetViews | None = None
        self._streams: tuple[str, ...] = (session,)

    def rests_on(self, session: str) -> bool:
        """See `eventlog.session.kept.Reading`."""
        return session in self._streams

    def shown(self, reader: SessionReader, options: RenderOptions, excluding: str | None) -> Shown:
        """Return what the view shows now."""
        return self._now(reader, lambda followed: followed.shown(options, excluding), options)

    def catch_up(self, reader: SessionReader) -> None:
        """Read what is new."""
        self._now(reader, lambda _: None)

    def models(self, reader: SessionReader) -> list[Model]:
        """Return the models that the messages or the settings name now, sorted by name."""

        def named(followed: FollowedView) -> list[Model]:
            state = followed.state
            models = {state.model, *(message.model for message in state.messages.values())}
            return sorted((model for model in models if model is not None), key=str)

        return self._now(reader, named)

    def _now(self, reader: SessionReader, read: Callable[[FollowedView], T], options: RenderOptions = DEFAULT) -> T:
        """Read the view once it is up to date."""
        with self._lock, reader.at_once():
            if self._inside:
                return read(TargetViews(reader, self._host).of(reader, options))
            self._inside = True
            try:
                views = self._views
                if views is None:
                    self._streams = tuple(stream.session for stream in reader.ancestry())
                    views = TargetViews(reader, self._host)
                found = read(views.of(reader, options))
            except BaseException:
                self._views = None
                self._host.kept.drop(self._id, self)
                raise
            finally:
                self._inside = False
            self._views = views
            size = views.size
        if size != self.size:
            self.size = size
            self._host.kept.trim()
        return found
