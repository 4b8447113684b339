"""The least that a commit by another thread costs: a queue, a thread, a lock or future.

A limit like those in `limits.py`: it decides nothing, orders no sessions and reports no errors.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Lock, Thread

__all__ = ["HandOff"]


class HandOff:
    """A thread that commits records in batches of all that wait."""

    def __init__(self, commit: Callable[[list[bytes]], object]) -> None:
        self._commit = commit
        self._queue: deque[tuple[Lock | asyncio.Future[None], bytes]] = deque()
        self._bell = Lock()
        self._open = True
        self._thread = Thread(target=self._run, name="hand-off", daemon=True)
        self._thread.start()

    def wait(self, record: bytes) -> None:
        """Commit a record and block until it is committed."""
        lock = Lock()
        lock.acquire()
        self._put(lock, record)
        lock.acquire()

    async def waited(self, record: bytes) -> None:
        """Commit a record and await it."""
        future = asyncio.get_running_loop().create_future()
        self._put(future, record)
        await future

    def close(self) -> None:
        """End the thread."""
        self._open = False
        self._ring()
        self._thread.join()

    def _put(self, waiter: Lock | asyncio.Future[None], record: bytes) -> None:
        self._queue.append((waiter, record))
        self._ring()

    def _ring(self) -> None:
        with suppress(RuntimeError):  # it rings already
            self._bell.release()

    def _run(self) -> None:
        while self._open:
            self._bell.acquire()
            batch = [self._queue.popleft() for _ in range(len(self._queue))]
            if not batch:
                continue
            self._commit([record for _, record in batch])
            futures = [waiter for waiter, _ in batch if isinstance(waiter, asyncio.Future)]
            for waiter, _ in batch:
                if not isinstance(waiter, asyncio.Future):
                    waiter.release()
            if futures:
                futures[0].get_loop().call_soon_threadsafe(_done, futures)


def _done(futures: Sequence[asyncio.Future[None]]) -> None:
    for future in futures:
        future.set_result(None)
