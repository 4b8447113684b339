"""Following a log: its history, then what comes, without a gap or a duplicate, at the reader's own speed.

The cursor is a position; the log is asked for a bounded number of commits at a time, so a slow reader slows nobody and
holds little.  Works across threads and across processes.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence

from eventlog.card import card_of
from eventlog.codec import Recorded, events_of
from eventlog.events import Base, SessionErased
from eventlog.foreign import is_foreign
from eventlog.log.base import Log

__all__ = ["subscribe"]

BATCH = 256
"""Commits asked for at a time."""
LOOK = 1.0
"""Longest wait in seconds between two looks at the log."""


def subscribe(
    log: Log,
    after: int,
    *,
    session: str | None,
    kinds: Sequence[type[Base]] | None,
    timeout: float | None,
) -> Iterator[Recorded]:
    """Yield events after a position; see `Store.subscribe`."""
    wanted = None if kinds is None else tuple(kinds)
    position = after
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
        if commits:
            deadline = None if timeout is None else time.monotonic() + timeout
            continue
        left = LOOK if deadline is None else min(LOOK, deadline - time.monotonic())
        if left <= 0:
            return
        log.wait_beyond(position, left)


def _erased(log: Log, sessions: Iterable[str]) -> set[str]:
    """Those of the sessions that were erased: of them only that is told."""
    heads = [head for name in sessions if (head := log.head(name)) is not None]
    return {head.session for head in heads if head.card and not is_foreign(head) and card_of(head).erased}
