"""What others committed since a decision was made, and whether the decision may still stand.

Called by the log inside the commit, so it looks only at the events themselves: two appends commute unless they introduce
the same id, or one of them needs the lease and the other came without it, or both replace the session's catalog entry.
"""

from __future__ import annotations

from collections.abc import Sequence

from eventlog import events as ev
from eventlog.codec.decoded import spans_of
from eventlog.codec.deltas import DeltaRun
from eventlog.errors import AlreadyExistsError, ConflictError, ErasedError
from eventlog.history.catalog import CATALOG_EVENTS
from eventlog.log.contract import Commit
from eventlog.state.rules import LEASE_FREE, new_ids

__all__ = ["ConflictCheck"]


class ConflictCheck:
    """The check of one append.

    `leased`: it needs the lease, or may.  `entry`: it replaces the session's catalog entry.
    """

    __slots__ = ("_entry", "_events", "_leased", "_seen", "_session")

    def __init__(self, session: str, seen: int, events: Sequence[ev.Event], *, leased: bool, entry: bool) -> None:
        self._session = session
        self._seen = seen
        self._events = events
        self._leased = leased
        self._entry = entry

    def __call__(self, others: Sequence[Commit]) -> None:
        """Raise if the append may not go in behind these commits."""
        ids = {name for event in self._events for name in new_ids(event)} if others else ()
        for commit in others:
            users: set[str] = set()
            for span in spans_of(commit):
                event = span.item
                if isinstance(event, DeltaRun):
                    if self._leased:
                        raise ConflictError(self._session, self._seen, commit.last)
                    continue
                for name in new_ids(event):
                    if name in ids:
                        kind, _, plain = name.partition(" ")
                        raise AlreadyExistsError(kind, plain, session=self._session)
                if isinstance(event, ev.SessionErased):
                    raise ErasedError(self._session)
                if self._entry and type(event) in CATALOG_EVENTS:
                    raise ConflictError(self._session, self._seen, commit.last)
                if isinstance(event, ev.UserMessageAdded):
                    users.add(event.message)
                if not self._leased or type(event) in LEASE_FREE:
                    continue
                if not (isinstance(event, ev.PartStarted) and event.message in users):
                    raise ConflictError(self._session, self._seen, commit.last)
