"""`AsyncSubscription`: a subscription that waits in the event loop.

`eventlog/subscription.py` says which events come, and in which order. Worker threads of the loop
read and decode, a bounded piece at a time. While nothing comes the subscription sleeps in the loop
until the store's follower rings it (`following/`). So an idle subscription needs no thread, and a
dropped one leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Self

from eventlog.bell import LoopBell
from eventlog.codec.decoded import Recorded
from eventlog.events import Base
from eventlog.following.follower import Watch
from eventlog.store import Store
from eventlog.subscription import LOOK_AHEAD, Subscription
from eventlog.validation import require, require_wait

PIECE = 256
"""Events decoded at a time: what a slow reader holds in memory."""


class AsyncSubscription:
    """A subscription for asyncio, with the same arguments; see `Store.subscribe`.

    `async for recorded in AsyncSubscription(store): …`, for one task at a time. A cancelled wait
    (`asyncio.timeout`) loses no event: the next one goes on where it was. Ends when nothing new
    came for `timeout` seconds (another `async for` goes on behind it), and with `ClosedError` when
    the store is closed.
    """

    def __init__(
        self,
        store: Store,
        after: str | int | None = None,
        *,
        session: str | None = None,
        kinds: Sequence[type[Base]] | None = None,
        timeout: float | None = None,
        provisional: bool = False,
    ) -> None:
        require(Store, store, "a subscription is to a Store")
        if timeout is not None:
            require_wait(timeout)
        store.host.require_open()
        ahead = store.registry.writers if provisional else None
        self._subscription = Subscription(store.log, after, session=session, kinds=kinds, ahead=ahead)
        self._follower = store.host.follower
        self._timeout = timeout
        self._bell: LoopBell | None = None
        self._watch: Watch | None = None
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
                loop = asyncio.get_running_loop()
                if self._bell is None or self._bell.loop is not loop:
                    self._bell, self._watch = LoopBell(), None
                self._reading = loop.run_in_executor(None, self._take, self._bell)
            else:
                raise StopAsyncIteration

    def _take(self, bell: LoopBell) -> None:
        """Read up to `PIECE` events, in a worker thread, one call at a time."""
        if self._watch is None:
            self._watch = self._subscription.watch(self._follower, bell.ring)
        self._watch.stirred = False
        self._due = True  # also after an error, which the next call meets again
        look, self._look = self._look, self._subscription.look()
        for recorded in islice(look, PIECE):
            self._ready.append(recorded)
        if len(self._ready) == PIECE:
            self._look = look
            return
        self._due = self._subscription.behind
        if self._subscription.stirred:
            self._deadline = self._later()

    async def _stirred(self) -> bool:
        """Sleep until there may be a new event; False when the timeout is over."""
        bell, watch = self._bell, self._watch
        while bell is not None and watch is not None:
            if watch.stirred:
                return True
            remaining = self._deadline - time.monotonic()
            if remaining <= 0:
                return False
            if self._subscription.is_ahead:
                await bell.wait(min(remaining, LOOK_AHEAD))
                return True
            await bell.wait(None if self._timeout is None else remaining)
        return True

    def _later(self) -> float:
        """When the subscription ends if no event comes from now on."""
        return float("inf") if self._timeout is None else time.monotonic() + self._timeout
