"""A log whose appends fail, wait, or meet another writer's commit, as a test says."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Any

from eventlog.errors import BusyError, EventlogError
from eventlog.history.session_lists import lists_of
from eventlog.log.commit import Append, Committed, Ticket
from eventlog.log.memory import MemoryLog
from eventlog.log.ticket import QueuedTicket, wake
from eventlog.session.session import Session

if TYPE_CHECKING:
    import pytest


class Acting(QueuedTicket[Append, Committed]):
    """A ticket on whose outcome others act before its waiter does."""

    def __init__(self, append: Append, acts: list[Callable[[], object]]) -> None:
        super().__init__(append)
        self._acts = acts

    def wait(self, timeout: float | None = None) -> Committed:
        """Let the others act, once."""
        while self._acts:
            self._acts.pop(0)()
        return super().wait(timeout)


class FaultyLog(MemoryLog):
    """A memory log whose next appends fail, or come after another writer's commit."""

    def __init__(self) -> None:
        super().__init__(lists_of)
        self.refuse = 0
        """Number of next submissions to refuse, as a full queue does."""
        self.fail = 0
        """Number of next appends to fail after submission …"""
        self.error: EventlogError = BusyError("full")
        """… with this error: the disk is full."""
        self.before_telling: list[Callable[[], object]] = []
        """Actions before the caller learns of such a failure."""
        self.meanwhile: list[Callable[[], object]] = []
        """Actions between a decision and its commit."""
        self.held: list[QueuedTicket[Append, Committed]] | None = None
        """Held appends, if appends are held."""

    def close(self) -> None:
        """Do nothing, as other stores use the log."""

    def submit(self, append: Append) -> Ticket:
        """Append, unless a fault is set."""
        while self.meanwhile:
            self.meanwhile.pop(0)()
        if self.refuse:
            self.refuse -= 1
            raise BusyError("full")
        if self.fail:
            self.fail -= 1
            ticket: QueuedTicket[Append, Committed] = Acting(append, self.before_telling)
            ticket.fail(self.error)
            return ticket
        if self.held is not None:
            ticket = QueuedTicket(append, 0, self)
            self.held.append(ticket)
            return ticket
        return super().submit(append)

    def resolve(self, ticket: QueuedTicket[Any, Any], timeout: float | None) -> None:
        """Wait until the held appends are committed."""
        bell = Lock()
        bell.acquire()
        ticket.waiters.append(bell)
        if not ticket.done():
            bell.acquire(timeout=-1 if timeout is None else timeout)

    def hasten(self) -> None:
        """Leave held appends held: a test releases them itself."""

    def let_go(self) -> None:
        """Commit the held appends, in order."""
        held, self.held = self.held or [], None
        for ticket in held:
            assert ticket.request is not None
            done = super().submit(ticket.request)
            try:
                ticket.succeed(done.wait())
            except Exception as error:  # noqa: BLE001 - the outcome, an error of any type
                ticket.fail(error)
        wake(held)


def bound_runs(patch: pytest.MonkeyPatch, characters: int) -> None:
    """Bound the characters of deltas that wait together."""
    for module in ("queue", "writer"):
        patch.setattr(f"eventlog.append.{module}.MAX_RUN", characters)


def together(session: Session, *commands: Callable[[], object]) -> None:
    """Run some commands in one pipeline."""
    with session.pipeline():
        for command in commands:
            command()
