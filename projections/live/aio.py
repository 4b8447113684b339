"""Live pages for asyncio: `async for update in AsyncLive(store, session, after)`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from eventlog.bell import LoopBell
from eventlog.following.follower import Watch
from eventlog.history.ancestry import forked_from
from eventlog.store import Store
from projections.live.live_session import LIMIT, LONGEST, LiveSession
from projections.live.patches import Update

LOOK_AHEAD = 0.05
"""Seconds between two looks at what is accepted, while something is."""


class AsyncLive:
    """The updates of a page, as they happen; ends when the session is erased.

    The first one comes at once; it has no patches if the page lacks nothing.
    A caller that is slow to take the next update holds nothing back: what came meanwhile is one
    update, or a reset. `NotFoundError` if there is no such session, `ClosedError` when the store is
    closed.
    """

    def __init__(
        self,
        store: Store,
        session: str,
        after: str | None = None,
        *,
        limit: int = LIMIT,
        longest: int = LONGEST,
        provisional: bool = True,
    ) -> None:
        self._store = store
        self._live = LiveSession(store, session, after, limit=limit, longest=longest, provisional=provisional)
        self._provisional = provisional

    async def __aiter__(self) -> AsyncGenerator[Update]:
        bell = LoopBell()
        watch = Watch(bell.ring, provisional=self._provisional)
        await asyncio.to_thread(self._follow, watch)
        try:
            first: Update | None = Update.of(None, [])
            while not self._live.gone:
                watch.stirred = False
                update = await asyncio.to_thread(self._live.advance) or first
                first = None
                if update is not None:
                    yield update
                elif not watch.stirred:
                    await bell.wait(LOOK_AHEAD if self._live.is_ahead else None)
        finally:
            self._store.host.follower.remove(watch)

    def _follow(self, watch: Watch) -> None:
        """Have the watch rung for the session, and for those whose redactions it shows."""
        session = self._live.session
        names = [head.session for head, _ in forked_from(self._store.log, session)]
        self._store.host.follower.add(watch, names)
