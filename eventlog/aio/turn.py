"""`AsyncTurn`: a turn whose wait for other tasks is in the event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Self, TypeVar

from eventlog.aio.awaiting import Taking, of_sync, unless_held
from eventlog.session.held_lease import POLL, Lease
from eventlog.session.turn import Turn, TurnState
from eventlog.validation import require
from eventlog.values import MessageError

T = TypeVar("T")


class AsyncTurn:
    """A user message that is answered once, for asyncio: its attributes are those of `Turn`."""

    def __init__(self, turn: Turn) -> None:
        require(Turn, turn, "an AsyncTurn is that of a Turn")
        self.sync = turn
        self._lease: Lease | None = None

    message: str = of_sync("message")
    state: TurnState = of_sync("state")
    answer: tuple[str, ...] = of_sync("answer")
    error: MessageError | None = of_sync("error")
    lease: Lease | None = of_sync("lease")
    mine: bool = of_sync("mine")

    async def __aenter__(self) -> Self:
        until = await self._taken(self.sync.begin)
        while until is not None:
            await asyncio.sleep(POLL)
            is_last = time.monotonic() >= until
            if await self._taken(partial(self.sync.decide, is_last=is_last)) or is_last:
                break
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        lease, self._lease = self._lease, None
        try:
            await asyncio.shield(asyncio.to_thread(self.sync.__exit__, kind, error, trace))
        finally:
            if lease is not None:
                lease.leave_turn()
                lease.unshare()

    async def retry(self) -> None:
        """Begin a failed turn again; see `Turn.retry`."""
        patience = await asyncio.to_thread(self.sync.patience)
        await unless_held(partial(self._taken, self.sync.begin_again), patience)

    async def _taken(self, take: Callable[[], T]) -> T:
        """Call what may take the lease in a thread, for the running task."""
        results: list[T] = []

        def taking() -> Lease | None:
            results.append(take())
            return self.sync.lease

        self._lease = await Taking(taking, lambda _: self.sync.release()).taken()
        if self._lease is not None:
            self._lease.share_turn(self.sync.message)  # the thread had a context of its own
        return results[0]
