"""Following a store in asyncio: an iterator that waits without a thread and without blocking the loop.

    async for recorded in AsyncSubscription(store, after, session="s", provisional=True):
        await socket.send_text(...)

Not another subscription: what comes, and in what order, is `subscription.py`.  Reading and decoding are done in the loop's worker threads, a
bounded piece at a time; while nothing comes the follower sleeps in the loop and asks for the log's position, which costs
microseconds.  So any number of followers needs no thread, and one that is dropped, wherever it stands, leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Self

from eventlog.codec import Recorded
from eventlog.events import Base

if TYPE_CHECKING:
    from eventlog.store import Store

__all__ = ["AsyncSubscription"]

PIECE = 256
"""Events decoded in one go: what a follower holds that reads slowly."""
SHORTEST = 0.001
"""Seconds of the first sleep after something came; each next one is longer."""
LONGEST = 0.05
"""Longest sleep, and so about the longest delay of an event after a pause."""
LONGER = 1.5
"""What a sleep is longer than the one before."""


class AsyncSubscription:
    """`Store.subscribe` for asyncio, with its arguments: `async for recorded in AsyncSubscription(store): …`.

    For one task at a time.  A cancelled wait (`asyncio.timeout`) loses nothing: the next one goes on where it was.  Ends when
    nothing new came for `timeout` seconds (another `async for` goes on behind it), with `ClosedError` when the store is closed.
    What is committed comes within `LONGEST` seconds, what is provisional sooner, as `Store.subscribe` says.
    """

    def __init__(
        self,
        store: Store,
        after: int = 0,
        *,
        session: str | None = None,
        kinds: Sequence[type[Base]] | None = None,
        timeout: float | None = None,
        provisional: bool = False,
    ) -> None:
        self._subscription = store.subscription(after, session=session, kinds=kinds, provisional=provisional)
        self._timeout = timeout
        self._longest = min(LONGEST, self._subscription.longest)
        self._pause = SHORTEST
        self._next = 0.0
        """When to ask again, on the monotonic clock: a wait that was cancelled goes on, it does not begin anew."""
        self._deadline = self._later()
        self._look = self._subscription.look()
        self._ready: deque[Recorded] = deque()
        self._due = True
        """Whether there may be something to read."""
        self._reading: asyncio.Future[None] | None = None

    def __aiter__(self) -> Self:
        self._due = True
        self._deadline = self._later()
        return self

    async def __anext__(self) -> Recorded:
        while True:
            reading = self._reading
            if reading is not None and not reading.done():
                await asyncio.wait([reading])  # cancelled, it leaves the reading to the next wait
            elif self._ready:
                return self._ready.popleft()
            elif reading is not None:
                self._reading = None
                reading.result()  # raises what the reading met, behind all that came before it
            elif self._due or await self._stirred():
                self._reading = asyncio.get_running_loop().run_in_executor(None, self._take)
            else:
                raise StopAsyncIteration

    def _take(self) -> None:
        """Read a piece of what there is, in a worker thread: one at a time, for it is waited for."""
        self._due = False
        for recorded in islice(self._look, PIECE):
            self._ready.append(recorded)
        if len(self._ready) == PIECE:
            self._due = True
            return
        self._due = self._subscription.behind
        self._look = self._subscription.look()
        self._next = time.monotonic() + SHORTEST
        if self._subscription.stirred:
            self._pause = SHORTEST
            self._deadline = self._later()

    async def _stirred(self) -> bool:
        """Sleep until there may be something new; False when the time is over."""
        while True:
            now = time.monotonic()
            if now >= self._next:
                self._next = now + self._pause
                self._pause = min(self._pause * LONGER, self._longest)
                if self._subscription.may_find():
                    return True
            if now >= self._deadline:
                return False
            await asyncio.sleep(min(self._next, self._deadline) - now)

    def _later(self) -> float:
        """When it is over if nothing comes from now on."""
        return float("inf") if self._timeout is None else time.monotonic() + self._timeout
