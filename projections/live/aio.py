"""Live pages for asyncio: `async for update in AsyncLive(store, session, after)`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from eventlog.store import Store
from projections.live.live_session import LIMIT, LONGEST, LiveSession
from projections.live.patches import Update

__all__ = ["AsyncLive"]

PAUSE = 0.01


class AsyncLive:
    """The updates of a page, as they happen; ends when the session is erased.

    A caller that is slow to take the next update holds nothing back: what came meanwhile is one
    update, or a reset. `NotFoundError` if there is no such session.
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
        self._live = LiveSession(store, session, after, limit=limit, longest=longest, provisional=provisional)

    async def __aiter__(self) -> AsyncIterator[Update]:
        while not self._live.gone:
            update = await asyncio.to_thread(self._live.advance)
            if update is None:
                await asyncio.sleep(PAUSE)
            else:
                yield update
