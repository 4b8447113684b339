"""Following a log: its history, then what comes, without a gap or a duplicate, at the reader's own speed.

The cursor is a position; the log is asked for a bounded number of commits at a time, so a slow reader slows nobody and
holds little.  Works across threads and across processes.  What this store's own handles have accepted and not committed is
told to those who ask for it, and again when it is committed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from eventlog.card import card_of
from eventlog.codec import Recorded, events_of
from eventlog.events import Base, SessionErased
from eventlog.foreign import is_foreign
from eventlog.log.base import Log

if TYPE_CHECKING:
    from eventlog.appender import Appender

__all__ = ["subscribe"]

BATCH = 256
"""Commits asked for at a time."""
LOOK = 1.0
"""Longest wait in seconds between two looks at the log."""
LOOK_AHEAD = 0.01
"""The same between two looks at what is accepted."""


def subscribe(
    log: Log,
    after: int,
    *,
    session: str | None,
    kinds: Sequence[type[Base]] | None,
    timeout: float | None,
    ahead: Callable[[], Iterable[Appender]] | None = None,
) -> Iterator[Recorded]:
    """Yield events after a position; see `Store.subscribe`.  `ahead`: whose accepted events are told before they are committed."""
    wanted = None if kinds is None else tuple(kinds)
    position = after
    told: dict[str, int] = {}
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        commits = log.follow(position, BATCH)
        erased = _erased(log, {commit.session for commit in commits if session in {None, commit.session}})
        for commit in commits:
            last = commit.position + commit.count - 1
            if not is_foreign(commit) and (session is None or commit.session == session):
                start = commit.first + max(position - commit.position + 1, 0)
                for recorded in events_of(commit, start - 1):
                    if commit.session in erased and not isinstance(recorded.event, SessionErased):
                        continue
                    if wanted is None or isinstance(recorded.event, wanted):
                        yield recorded
            position = last
        found = bool(commits)
        if ahead is not None and len(commits) < BATCH:
            for recorded in _provisional(ahead(), session, told):
                found = True
                if wanted is None or isinstance(recorded.event, wanted):
                    yield recorded
        if found:
            deadline = None if timeout is None else time.monotonic() + timeout
            if commits:
                continue
        longest = LOOK if ahead is None else LOOK_AHEAD
        left = longest if deadline is None else min(longest, deadline - time.monotonic())
        if left <= 0:
            return
        log.wait_beyond(position, left)


def _provisional(appenders: Iterable[Appender], session: str | None, told: dict[str, int]) -> Iterator[Recorded]:
    """What is accepted and was not told yet; `told` is the last version told of each session."""
    for appender in appenders:
        name = appender.session
        if session is not None and name != session:
            continue
        for span in appender.uncommitted(max(told.get(name, 0), appender.certain)):
            told[name] = span.last
            for recorded in span.events():
                yield recorded._replace(position=0)


def _erased(log: Log, sessions: Iterable[str]) -> set[str]:
    """Those of the sessions that were erased: of them only that is told."""
    heads = [head for name in sessions if (head := log.head(name)) is not None]
    return {head.session for head in heads if head.card and not is_foreign(head) and card_of(head).erased}
