"""Read a log from a cursor on: history first, then live, without a gap or a duplicate.

Each event comes once, and those of one partition in their order; so do those of one session. The
log is asked for a bounded number of commits at a time, so a slow reader slows no writer and holds
little; a subscription of one session reads no other. Works across threads and processes. While
nothing comes a subscription sleeps until the store's follower rings it (`following/`). With
`provisional`, events that handles of this store have accepted come before they are committed, and
again afterwards.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, cast

from eventlog.append.own_appends import uncommitted
from eventlog.bell import Bell
from eventlog.codec.decoded import Recorded, events_of
from eventlog.codec.payload import is_encrypted, is_foreign
from eventlog.errors import CallError, CursorError
from eventlog.errors.base import brief
from eventlog.events import Base, SessionErased
from eventlog.following.follower import Follower, Watch
from eventlog.history.catalog import entry_of
from eventlog.history.cursor import StreamMark, reached_by, tag_of
from eventlog.log.commit import Commit, Head
from eventlog.log.contract import Log
from eventlog.validation import each, require_or_none, require_wait

if TYPE_CHECKING:
    from eventlog.append.writer import SessionWriter

BATCH = 256
"""Commits asked for at a time."""
LOOK_AHEAD = 0.01
"""Seconds between two looks at what is accepted, while something is."""


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
        if session is None and isinstance(after, int):
            raise CallError(f"an event is followed from a cursor, or from a version of a `session`, not from {after}")
        self.log = log
        begins = after is None or after == "" or isinstance(after, int)
        self._reached = [(0, b"")] * log.partitions if begins else reached_by(cast("str", after), log)
        """Where it stands in each partition."""
        self._own = 0 if session is None else log.partition_of(session)
        self._version = 0 if session is None else _version_behind(log, session, after, self._reached[self._own][0])
        """Where it stands in its session, of which alone it then reads the stream."""
        self._store = b""
        self.behind: bool = True
        """Whether the last look found commits: the next may find more."""
        self.stirred: bool = False
        """Whether the last look found any event."""
        self._session = session
        self._kinds = kinds_of(kinds)
        self._ahead = ahead
        self._delivered: dict[str, int] = {}

    def look(self) -> Iterator[Recorded]:
        """Events there are now: of at most `BATCH` commits of a partition, then accepted ones."""
        self._store = self.log.identity
        self.behind = self.stirred = False
        session = self._session
        is_full = yield from self._everything() if session is None else self._stream(session)
        if self._ahead is not None and not is_full:
            for recorded in _provisional(self._ahead(), session, self._delivered):
                self.stirred = True
                if self._kinds is None or isinstance(recorded.event, self._kinds):
                    yield recorded

    def _everything(self) -> Generator[Recorded, None, bool]:
        """Yield the next events of all partitions; return whether there may be more already."""
        is_full = False
        last = self.log.last_positions()
        for partition, (position, _) in enumerate(self._reached):
            if last[partition] <= position:  # a read costs more than to know that there is nothing
                continue
            commits = self.log.commits_after(position, BATCH, partition=partition)
            if commits:
                self.behind = True
                self.stirred = True
                is_full = is_full or len(commits) == BATCH
            heads = (self.log.head(name) for name in {commit.session for commit in commits})
            erased = {head.session for head in heads if head is not None and _is_erased(head)}
            for commit in commits:
                done = self._reached[partition][0]
                if not is_encrypted(commit.payload):  # a commit whose key is gone is left out
                    after = commit.first - 1 + max(done - commit.position + 1, 0)
                    yield from self._events(partition, commit, after, erased=commit.session in erased)
                self._reached[partition] = commit.last_position, tag_of(commit)
        return is_full

    def _stream(self, session: str) -> Generator[Recorded, None, bool]:
        """Yield the next events of a session, from its own stream."""
        head = self.log.head(session)
        if head is None or head.version <= self._version:
            return False
        erased = _is_erased(head)
        for commit in self.log.read(session, self._version):
            self.behind = True
            self.stirred = True
            yield from self._events(self._own, commit, self._version, erased=erased)
            self._version = commit.last
            self._reached[self._own] = commit.last_position, tag_of(commit)
        self._version = max(self._version, head.version)  # an erased session may have no events left
        return False

    def _events(self, partition: int, commit: Commit, after: int, *, erased: bool) -> Iterator[Recorded]:
        """Yield the events of a commit behind a version; of an erased session the erasure only."""
        if is_foreign(commit):
            return
        mark = StreamMark(self._store, tuple(self._reached), partition, tag_of(commit))
        for recorded in events_of(commit, after, mark=mark):
            if erased and not isinstance(recorded.event, SessionErased):
                continue
            if self._kinds is None or isinstance(recorded.event, self._kinds):
                yield recorded

    @property
    def is_ahead(self) -> bool:
        """Whether something is accepted that it gives: more may come without a ring."""
        return self._ahead is not None and any(
            writer.is_ahead for writer in self._ahead() if self._session in {None, writer.session}
        )

    def watch(self, follower: Follower, ring: Callable[[], None]) -> Watch:
        """Have `ring` called when there may be an event, from now on: look once more."""
        watch = Watch(ring, provisional=self._ahead is not None)
        follower.add(watch, [self._session])
        return watch


def subscribe(subscription: Subscription, follower: Follower, timeout: float | None) -> Iterator[Recorded]:
    """Yield events until nothing new came for `timeout` seconds; see `Store.subscribe`."""
    if timeout is not None:
        require_wait(timeout)
    deadline = None if timeout is None else time.monotonic() + timeout
    bell, watch = Bell(), None
    while True:
        if watch is not None:
            watch.stirred = False
        yield from subscription.look()
        if subscription.stirred:
            deadline = None if timeout is None else time.monotonic() + timeout
        if subscription.behind:
            continue
        remaining = None if deadline is None else deadline - time.monotonic()
        if remaining is not None and remaining <= 0:
            return
        if watch is None:
            watch = subscription.watch(follower, bell.ring)
            continue
        if subscription.is_ahead:
            remaining = LOOK_AHEAD if remaining is None else min(remaining, LOOK_AHEAD)
        bell.wait(remaining)


def _version_behind(log: Log, session: str, after: object, position: int) -> int:
    """Return the version of a session that a subscription begins behind."""
    head = log.head(session)
    if isinstance(after, int):
        if isinstance(after, bool) or after < 0:
            raise CallError(f"a version is a whole number from 0, not {after}")
        if after > (0 if head is None else head.version):
            raise CursorError(f"the session has no version {after} yet: pass one that was read, or no version")
        return after
    if head is None or not position:
        return 0
    if head.position <= position:
        return head.version
    low, high = head.base, head.version
    while low < high:  # the versions of a session are in the order of their positions
        middle = (low + high + 1) // 2
        commit = next(log.read(session, middle - 1, middle), None)
        if commit is not None and commit.position + middle - commit.first > position:
            high = middle - 1
        else:
            low = middle
    return low


def kinds_of(kinds: object) -> tuple[type[Base], ...] | None:
    """Check the event classes asked for; `CallError` unless they are event classes in a list."""
    if kinds is None:
        return None
    rule = "kinds are event classes in a list, such as [events.PartDelta]"
    given = each(cast("Iterable[object]", kinds), rule)
    classes = tuple(kind for kind in given if isinstance(kind, type) and issubclass(kind, Base))
    if len(classes) < len(given):
        raise CallError(f"{rule}, not {brief(kinds)}")
    return classes


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


def _is_erased(head: Head) -> bool:
    """Whether a session is erased: then only its erasure is delivered."""
    return bool(head.entry) and not is_foreign(head) and entry_of(head).erased
