"""A log whose appends fail, wait, or meet another writer's commit, as a test says."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any

from eventlog.errors import BusyError, EventlogError
from eventlog.log.contract import Append, Committed, Ticket
from eventlog.log.memory import MemoryLog
from eventlog.log.ticket import QueuedTicket, wake
from eventlog.session.session import Session

__all__ = ["FaultyLog", "together"]


class Acting(QueuedTicket[Append, Committed]):
    """An outcome that others act on before the caller who waits for it does."""

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
        super().__init__()
        self.refuse = 0
        """How many of the next submissions are turned away: the queue is full."""
        self.fail = 0
        """How many of the next appends fail after they were handed over …"""
        self.error: EventlogError = BusyError("full")
        """… and of what: the disk is full."""
        self.before_telling: list[Callable[[], object]] = []
        """What others do before the caller hears of such a failure."""
        self.meanwhile: list[Callable[[], object]] = []
        """What others do between a decision and its commit."""
        self.held: list[QueuedTicket[Append, Committed]] | None = None
        """Appends that wait, if they are held."""

    def close(self) -> None:
        """Other stores go on."""

    def submit(self, append: Append) -> Ticket:
        """Append, unless something goes wrong."""
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

    def settle(self, ticket: QueuedTicket[Any, Any], timeout: float | None) -> None:
        """Wait until what is held is let go."""
        bell = Lock()
        bell.acquire()
        ticket.waiters.append(bell)
        if not ticket.done():
            bell.acquire(timeout=-1 if timeout is None else timeout)

    def hasten(self) -> None:
        """Leave held appends held: a test releases them itself."""

    def let_go(self) -> None:
        """Commit what is held, in order."""
        held, self.held = self.held or [], None
        for ticket in held:
            assert ticket.request is not None
            done = super().submit(ticket.request)
            try:
                ticket.succeed(done.wait())
            except Exception as error:  # noqa: BLE001 - the outcome, an error of any type
                ticket.fail(error)
        wake(held)


def together(session: Session, *commands: Callable[[], object]) -> None:
    """Give some commands in one pipeline."""
    with session.pipeline():
        for command in commands:
            command()
