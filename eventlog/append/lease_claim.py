"""A session's lease, as its writer knows it.

CLAIMED   taken on what is known in memory; the next append writes the record, or finds it beaten
HELD      the log has the record
RETURNED  the log has the record that gives the lease back
LOST      another owner's record was written first: nothing is written under the claim
"""

from __future__ import annotations

from enum import Enum, auto

import msgspec

from eventlog.errors import FencedError, LeaseHeldError, RefusedError
from eventlog.log.commit import LeaseState


class LeaseStatus(Enum):
    """How far the log knows of a lease."""

    CLAIMED = auto()
    HELD = auto()
    RETURNED = auto()
    LOST = auto()


class LeaseClaim(msgspec.Struct, eq=False):
    """One lease of one owner: its record, and how far the log knows of it."""

    state: LeaseState
    """The record, as its owner wrote it last or is to write it."""
    replaces: LeaseState | None = None
    """The record that a claim takes the place of."""
    status: LeaseStatus = LeaseStatus.HELD
    is_returning: bool = False
    """Whether the last append under the lease gives it back."""
    is_over: bool = False
    """Whether its block has ended: then it is given back also if its last command is refused."""
    deltas: int = 0
    """Deltas that were accepted under it and will not be written, and their characters."""
    characters: int = 0

    def lose(self, deltas: int, characters: int) -> None:
        """Count deltas that were accepted under it and will not be written."""
        self.deltas += deltas
        self.characters += characters

    def fenced(self, session: str, current: int) -> FencedError:
        """Return the error of its owner, once the session's lease has another epoch."""
        return FencedError(session, self.state.epoch, current, self.deltas, self.characters)

    def keep(self) -> bool:
        """Note that the append that was to return the lease is refused; whether it is over so."""
        if self.is_over and self.status is LeaseStatus.CLAIMED:
            self.status = LeaseStatus.RETURNED  # the log never knew of it
            return True
        self.is_returning = self.is_returning and self.is_over
        return False


def lease_over(session: str) -> RefusedError:
    """Return the error of a command that was accepted under a lease and not written."""
    return RefusedError("the lease was over before this was written", expected="the lease", session=session)


def lease_lost(session: str) -> LeaseHeldError:
    """Return the error of a command under a claim that another owner's record has beaten."""
    return LeaseHeldError(session, "another owner", 0)
