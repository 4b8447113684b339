"""Read a log from a cursor on: history first, then live, without a gap or a duplicate.

Each event comes once, and those of one partition in their order; so do those of one session. The
log is asked for a bounded number of commits at a time, so a slow reader slows no writer and holds
little. Works across threads and processes. With `provisional`, events that handles of this store
have accepted come before they are committed, and again afterwards.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from sys import maxsize
from typing import TYPE_CHECKING, cast

from eventlog.append.own_appends import uncommitted
from eventlog.codec.decoded import Recorded, events_of
from eventlog.codec.payload import is_encrypted, is_foreign
from eventlog.errors import CallError, CursorError, brief
from eventlog.events import Base, SessionErased
from eventlog.history.catalog import entry_of
from eventlog.history.cursor import Reached, StreamMark, reached_by, tag_of
from eventlog.log.contract import Commit, Log
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
    """Where a reader stands, and the events there are for it now.  Waiting is the caller's."""

    def __init__(
        self,
        log: Log,
        after: str | int | None,
        *,
        session: str | None,
        kinds: Sequence[type[Base]] | None,
        ahead: Callable[[], Iterable[SessionWriter]] | None = None,
    ) -> None:
        require_or_none(str, session, "a session is named by its id, a str")
        self.log = log
        self._reached = _start(log, after, session)
        """Where it stands in each partition."""
        own = None if session is None else log.partition_of(session)
        self._partitions = range(len(self._reached)) if own is None else (own,)
        self._store = b""
        self.behind = True
        """Whether the last look found commits: the next may find more."""
        self.stirred = False
        """Whether the last look found any event."""
        self._session = session
        self._kinds = kinds_of(kinds)
        self._ahead = ahead
        self._delivered: dict[str, int] = {}

    @property
    def longest(self) -> float:
        """Longest wait in seconds between two looks."""
        return LOOK if self._ahead is None else LOOK_AHEAD

    def look(self) -> Iterator[Recorded]:
        """Events there are now: of at most `BATCH` commits of a partition, then accepted ones."""
        self._store = self.log.identity
        self.behind = self.stirred = False
        is_full = False
        for partition in self._partitions:
            commits = self.log.commits_after(self._reached[partition][0], BATCH, partition=partition)
            if commits:
                self.behind = self.stirred = True
                is_full = is_full or len(commits) == BATCH
                yield from self._events(partition, commits)
        if self._ahead is not None and not is_full:
            for recorded in _provisional(self._ahead(), self._session, self._delivered):
                self.stirred = True
                if self._kinds is None or isinstance(recorded.event, self._kinds):
                    yield recorded

    def _events(self, partition: int, commits: Sequence[Commit]) -> Iterator[Recorded]:
        """Yield the events of commits, the next ones of a partition."""
        session, reached = self._session, self._reached
        erased = _erased(self.log, {commit.session for commit in commits if session in {None, commit.session}})
        for commit in commits:
            # A reader of all sessions skips commits whose key is gone.
            readable = not is_encrypted(commit.payload) if session is None else commit.session == session
            if readable and not is_foreign(commit):
                start = commit.first + max(reached[partition][0] - commit.position + 1, 0)
                mark = StreamMark(self._store, tuple(reached), partition, tag_of(commit))
                for recorded in events_of(commit, start - 1, mark=mark):
                    if commit.session in erased and not isinstance(recorded.event, SessionErased):
                        continue
                    if self._kinds is None or isinstance(recorded.event, self._kinds):
                        yield recorded
            reached[partition] = commit.last_position, tag_of(commit)

    def may_find(self) -> bool:
        """Whether a look may find an event.  Takes microseconds, so an event loop may ask."""
        if self.wait(0.0):
            return True
        return self._ahead is not None and any(
            writer.is_ahead for writer in self._ahead() if self._session in {None, writer.session}
        )

    def wait(self, timeout: float) -> bool:
        """Block until there may be an event; return False after `timeout` seconds."""
        positions = [maxsize] * len(self._reached)
        for partition in self._partitions:
            positions[partition] = self._reached[partition][0]
        return self.log.wait_after(positions, timeout)


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
        subscription.wait(wait)


def _start(log: Log, after: object, session: str | None) -> list[Reached]:
    """Return where a subscription begins: at a cursor, a version, or the beginning."""
    if after is None or after == "":
        return [(0, b"")] * log.partitions
    if type(after) is not int:
        return reached_by(cast("str", after), log)
    if session is None:
        raise CallError(f"an event is followed from a cursor, or from a version of a `session`, not from {after}")
    if after < 0:
        raise CallError(f"a version is 0 or more, not {after}")
    reached = [(0, b"")] * log.partitions
    head = log.head(session)
    if after > (0 if head is None else head.version):
        raise CursorError(f"the session has no version {after} yet: pass one that was read, or no version")
    if head is not None and after:
        following = next(log.read(session, after, after + 1), None)
        own = log.partition_of(session)
        if following is not None:
            reached[own] = following.position + after - following.first, b""
        elif after == head.version:
            reached[own] = head.position, b""
    return reached


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
