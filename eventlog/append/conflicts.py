"""Whether a decision may stand behind the events that others committed since.

The log calls the check inside the commit, so the check looks only at the events themselves. Two
appends commute unless they introduce the same id, or one of them needs the lease and the other came
without it, or both replace the session's catalog entry, or one rolls back what the other adds.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from eventlog import events as ev
from eventlog.codec.decoded import spans_of
from eventlog.codec.deltas import DeltaRun
from eventlog.errors import AlreadyExistsError, ConflictError, ErasedError
from eventlog.history.catalog import CATALOG_EVENTS
from eventlog.log.contract import Commit
from eventlog.state.rules import LEASE_FREE, new_ids

__all__ = ["ConflictCheck"]


class ConflictCheck(msgspec.Struct, frozen=True):
    """The check of one append, called inside its commit."""

    session: str
    seen: int
    """Version that the append was decided at."""
    events: Sequence[ev.Event]
    leased: bool
    """Whether the append needs the lease, or may."""
    entry: bool
    """Whether the append replaces the session's catalog entry."""

    def __call__(self, others: Sequence[Commit]) -> None:
        """Raise if the append may not go in behind these commits."""
        ids = {name for event in self.events for name in new_ids(event)} if others else ()
        goes_back = bool(others) and any(type(event) is ev.RolledBack for event in self.events)
        for commit in others:
            users: set[str] = set()
            for span in spans_of(commit):
                event = span.item
                if isinstance(event, DeltaRun):
                    if self.leased:
                        raise ConflictError(self.session, self.seen, commit.last)
                    continue
                for name in new_ids(event):
                    if name in ids:
                        kind, _, plain = name.partition(" ")
                        raise AlreadyExistsError(kind, plain, session=self.session)
                if isinstance(event, ev.SessionErased):
                    raise ErasedError(self.session)
                if self.entry and type(event) in CATALOG_EVENTS:
                    raise ConflictError(self.session, self.seen, commit.last)
                if isinstance(event, ev.UserMessageAdded):
                    if goes_back:  # it hides this message, too, and has not counted it
                        raise ConflictError(self.session, self.seen, commit.last)
                    users.add(event.message)
                if not self.leased or type(event) in LEASE_FREE:
                    continue
                if not (isinstance(event, ev.PartStarted) and event.message in users):
                    raise ConflictError(self.session, self.seen, commit.last)
