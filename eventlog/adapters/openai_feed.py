"""Feed of an OpenAI Agents session: its items, and the newest that its reader knows."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

from eventlog.adapters.framework_feed import FrameworkFeed, Showing
from eventlog.errors import ConflictError, NotFoundError
from eventlog.importers.openai.responses import OpenAIResponsesMapping
from eventlog.records.unseen import Seen
from eventlog.session.session import Session


class Run:
    """Items that a run's model was sent: those it read, and those it added since."""

    def __init__(self, owner: object, upto: int) -> None:
        self.owner = owner
        """The handle by which it read."""
        self.upto = upto
        self.own: set[int] = set()


RUN: ContextVar[Run | None] = ContextVar("the run of this task", default=None)
"""The run that read items last in this task, or in the one that began it."""


class ItemFeed(FrameworkFeed):
    """The items of a session."""

    def __init__(self, session: Session, owner: object = None) -> None:
        super().__init__(session, Showing(OpenAIResponsesMapping()))
        self._owner = owner or self
        self._seen = 0
        """The newest item when items were last read, or of own ones told right behind it."""
        self._own: dict[int, int] = {}
        """The last item of each own append that is not seen yet, by the item before it."""
        self._run: Run | None = None
        """The run that read items last, for tasks of which none is known."""

    def items(self, limit: int | None) -> tuple[list[Any], Run]:
        """Return the newest items, all without a limit, oldest first, and the run that begins."""
        numbers = self.path(newest=limit)
        if limit != 0:
            self._see(numbers[-1] if numbers else 0)
        run = self._run = Run(self._owner, numbers[-1] if numbers else 0)
        return [item for _, item in self.shown(numbers)], run

    def seen(self, after: int) -> Seen | None:
        """Return what the model of the run was sent; without a run all records."""
        run = self._running()
        return Seen(after) if run is None else Seen(run.upto, run.own)

    def _running(self) -> Run | None:
        run = RUN.get()
        return run if run is not None and run.owner is self._owner else self._run

    def tell(self, items: Sequence[Any], *, wait: float) -> None:
        """Add items in one append."""
        numbers = self.add(items, wait=wait)
        if (run := self._running()) is not None:
            run.own.update(numbers)
        with suppress(NotFoundError), self._lock:  # cleared elsewhere, once they were stored
            self._own[self._newest(numbers[0] - 1)] = numbers[-1]
            while self._seen in self._own:  # no other worker wrote between them
                self._seen = self._own.pop(self._seen)

    def take_back(self, *, wait: float) -> Any | None:
        """Take away the newest item by a rollback, and return it; None if there is none."""
        while newest := self.path(newest=2):
            found = self.shown(newest[-1:])
            before = newest[0] if len(newest) > 1 else 0
            with suppress(ConflictError):  # another writer's item is the newest by now
                self.add([], after=before, expected=newest[-1], wait=wait)
                with self._lock:
                    if self._seen == newest[-1]:
                        self._see(before)
                if found:
                    return found[0][1]
        return None

    def make(self, items: list[Any], *, wait: float) -> None:
        """Make the items these; `ConflictError` if there are others than were read or told here."""
        numbers = self.replace(items, expected=self._seen, wait=wait)
        self._see(numbers[-1] if numbers else 0)

    def _see(self, number: int) -> None:
        with self._lock:
            self._seen = number
            self._own.clear()
