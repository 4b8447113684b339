"""Read a log from a position on: history first, then live, without a gap or a duplicate.

The cursor is a position. The log is asked for a bounded number of commits at a time, so a slow
reader slows no writer and holds little. Works across threads and processes. With `provisional`,
events that handles of this store have accepted come before they are committed, and again
afterwards.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, cast

from eventlog.append.own_appends import uncommitted
from eventlog.codec.decoded import Recorded, events_of
from eventlog.codec.payload import is_encrypted, is_foreign
from eventlog.errors import CallError, brief
from eventlog.events import Base, SessionErased
from eventlog.history.catalog import entry_of
from eventlog.log.contract import Log
from eventlog.validation import require_or_none, require_wait

if TYPE_CHECKING:
    from eventlog.append.writer import SessionWriter

__all__ = ["Subscription", "subscribe"]

BATCH = 256
"""Commits asked for at a time."""
LOOK = 1.0
"""Longest wait in seconds between two looks at the log."""
LOOK_AHEAD = 0.01
"""Longest wait in seconds between two looks at accepted events."""


class Subscription:
    """The position of a reader, and the events there are for it now.  Waiting is the caller's."""

    def __init__(
        self,
        log: Log,
        after: int,
        *,
        session: str | None,
        kinds: Sequence[type[Base]] | None,
        ahead: Callable[[], Iterable[SessionWriter]] | None = None,
    ) -> None:
        self.log = log
        self.position = after
        """Events up to this position are delivered."""
        self.behind = True
        """Whether the last look found commits: the next may find more."""
        self.stirred = False
        """Whether the last look found any event."""
        self._session = session
        self._kinds = kinds_of(kinds)
        self._ahead = ahead
        self._delivered: dict[str, int] = {}
        require_or_none(str, session, "a session is named by its id, a str")
        if type(after) is not int:
            raise CallError(f"a position is a whole number, not a {type(after).__name__}")

    @property
    def longest(self) -> float:
        """Longest wait in seconds between two looks."""
        return LOOK if self._ahead is None else LOOK_AHEAD

    def look(self) -> Iterator[Recorded]:
        """Events there are now: of at most `BATCH` commits, then accepted ones."""
        commits = self.log.commits_after(self.position, BATCH)
        self.behind = self.stirred = bool(commits)
        session = self._session
        erased = _erased(self.log, {commit.session for commit in commits if session in {None, commit.session}})
        for commit in commits:
            # A reader of all sessions skips commits whose key is gone.
            readable = not is_encrypted(commit.payload) if session is None else commit.session == session
            if readable and not is_foreign(commit):
                start = commit.first + max(self.position - commit.position + 1, 0)
                for recorded in events_of(commit, start - 1):
                    if commit.session in erased and not isinstance(recorded.event, SessionErased):
                        continue
                    if self._kinds is None or isinstance(recorded.event, self._kinds):
                        yield recorded
            self.position = commit.last_position
        if self._ahead is not None and len(commits) < BATCH:
            for recorded in _provisional(self._ahead(), session, self._delivered):
                self.stirred = True
                if self._kinds is None or isinstance(recorded.event, self._kinds):
                    yield recorded

    def may_find(self) -> bool:
        """Whether a look may find an event.  Takes microseconds, so an event loop may ask."""
        if self.log.wait_after(self.position, 0.0):
            return True
        return self._ahead is not None and any(
            writer.is_ahead for writer in self._ahead() if self._session in {None, writer.session}
        )


def subscribe(subscription: Subscription, timeout: float | None) -> Iterator[Recorded]:
    """Yield events until nothing new came for `timeout` seconds; see `Store.subscribe`."""
    if timeout is not None:
        require_wait(timeout)
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        yield from subscription.look()
        if subscription.stirred:
            deadline = None if timeout is None else time.monotonic() + timeout
        if subscription.behind:
            continue
        longest = subscription.longest
        wait = longest if deadline is None else min(longest, deadline - time.monotonic())
        if wait <= 0:
            return
        subscription.log.wait_after(subscription.position, wait)


def kinds_of(kinds: object) -> tuple[type[Base], ...] | None:
    """Check the event classes asked for; `CallError` unless they are event classes in a list."""
    if kinds is None:
        return None
    asked = kinds
    if isinstance(asked, Iterable):
        items = tuple(cast("Iterable[object]", asked))
        classes = tuple(kind for kind in items if isinstance(kind, type) and issubclass(kind, Base))
        if len(classes) == len(items):
            return classes
    raise CallError(f"kinds are event classes in a list, such as [events.PartDelta], not {brief(kinds)}")


def _provisional(
    writers: Iterable[SessionWriter], session: str | None, delivered: dict[str, int]
) -> Iterator[Recorded]:
    """Accepted events not delivered yet; `delivered` has the last version by session."""
    for writer in writers:
        name = writer.session
        if session is not None and name != session:
            continue
        for span in uncommitted(writer, max(delivered.get(name, 0), writer.committed.certain)):
            delivered[name] = span.last
            for recorded in span.events():
                yield Recorded(name, recorded.version, 0, recorded.time, recorded.epoch, recorded.event)


def _erased(log: Log, sessions: Iterable[str]) -> set[str]:
    """The erased sessions among these: only their erasure is delivered."""
    heads = [head for name in sessions if (head := log.head(name)) is not None]
    return {head.session for head in heads if head.entry and not is_foreign(head) and entry_of(head).erased}
