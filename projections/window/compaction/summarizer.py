"""Summarisers: any callable, sync or async, that answers with a text or with its pieces.

`pieces` drives every one of them from ordinary code. `offline.py` ships;
`summarize_with` of `projections.loop` makes one of the loop's callable.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
)
from concurrent.futures import wait
from contextlib import suppress
from contextvars import ContextVar
from functools import cache
from inspect import CORO_CREATED, getcoroutinestate, iscoroutine
from typing import Any, TypeAlias, TypeVar

import msgspec

from eventlog.errors import CallError, SummarizerRefusedError
from eventlog.values import Usage
from projections.window.compaction.request import SummaryRequest

T = TypeVar("T")

LONGEST_SUMMARY = 2_000_000
"""Characters of a summary at most: several times what any model writes in one answer."""
MOST_PIECES = 1_000_000
"""Pieces of a summary at most, empty ones counted."""
HOME: ContextVar[asyncio.AbstractEventLoop | None] = ContextVar("the program's event loop", default=None)
"""Loop whose client an async summariser shares: connections belong to one loop."""
_here = threading.local()
_starting = threading.Lock()
os.register_at_fork(before=_starting.acquire, after_in_parent=_starting.release, after_in_child=_starting.release)


class ToolCalled(msgspec.Struct, frozen=True):
    """The summariser called a tool though none was offered: its summary has failed."""

    tool: str = ""


class FailedCall(msgspec.Struct, frozen=True):
    """A failed model call before another attempt of a summariser; `usage` is its cost."""

    usage: Usage


Piece: TypeAlias = str | Usage | FailedCall | ToolCalled
"""A piece of the summary's text, its cost, or a call that failed or was not allowed."""

Summary: TypeAlias = Iterable[Piece] | AsyncIterable[Piece] | Awaitable[Iterable[Piece] | AsyncIterable[Piece]]
"""Answers of a summariser; a `str` is the whole text, as an iterable of pieces is."""

Summarizer: TypeAlias = Callable[[SummaryRequest], Summary]
"""Caller's function that answers a request for a summary."""


def pieces(
    summarizer: Summarizer, request: SummaryRequest, home: asyncio.AbstractEventLoop | None = None
) -> Generator[Piece]:
    """Yield the pieces of a summariser's answer, as they come; empty pieces are left out.

    `SummarizerRefusedError` for an answer that is over `LONGEST_SUMMARY` or `MOST_PIECES`, and may
    have no end. An async summariser runs on the loop `home` while that runs in another thread, else
    on one that all others of the process share, in a thread of its own: this works wherever it is
    called from, a running loop included (which then waits). Closing the iterator early closes the
    summariser's, so a request on its way is given up.
    """
    answer = summarizer(request)
    if isinstance(answer, (AsyncIterable, Awaitable)):
        yield from driven(answer, home)
    else:
        yield from _plain(answer)


def _plain(answer: Iterable[Piece]) -> Generator[Piece]:
    if isinstance(answer, str):
        answer = (answer,)
    room = _Limits()
    try:
        for piece in answer:
            yield from room.taken(piece)
    finally:
        close = getattr(answer, "close", None)
        if close is not None:
            close()


class _Answer:
    """Answer of any kind, read piece by piece in an event loop.

    No async generator of its own: an event loop that ends closes each generator, in use or not, and
    begins no other. A sync iterator is stepped in a worker thread.
    """

    def __init__(self, answer: Summary) -> None:
        self._answer = answer
        self._steps: AsyncIterator[Piece] | Generator[Piece] | None = None
        self._room = _Limits()

    async def step(self) -> Piece | None:
        """Return the next piece, or None at the end."""
        if self._steps is None:
            if isinstance(self._answer, Awaitable):
                self._answer = await self._answer
            self._steps = aiter(self._answer) if isinstance(self._answer, AsyncIterable) else _plain(self._answer)
        if isinstance(self._steps, Generator):
            return await asyncio.to_thread(next, self._steps, None)
        async for piece in self._steps:
            for found in self._room.taken(piece):
                return found
        return None

    async def close(self) -> None:
        """Close the caller's iterator, which gives up a request on its way."""
        if isinstance(self._steps, Generator):
            with suppress(ValueError):  # an interrupted step still runs in its thread
                await asyncio.to_thread(self._steps.close)
        elif (close := getattr(self._answer, "aclose", None)) is not None:
            await close()


def driven(answer: Summary, home: asyncio.AbstractEventLoop | None) -> Iterator[Piece]:
    """Yield the pieces of an async answer; see `pieces`."""
    loop = home
    if loop is None or not loop.is_running() or loop is _running():
        with _starting:
            loop = _shared_loop(os.getpid(), getattr(_here, "depth", 0))
    reading = _Answer(answer)
    taking: list[asyncio.Task[Any]] = []

    def run(work: Coroutine[Any, Any, T]) -> T:
        future = None
        with suppress(RuntimeError):  # the loop is closed
            future = asyncio.run_coroutine_threadsafe(work, loop)
        while future is not None and not wait([future], 1).done:
            future = None if loop.is_closed() else future
        if future is None:
            work.close()
            raise ConnectionError("the event loop of the program has ended")
        return future.result()

    try:
        while (piece := run(_step(reading, taking))) is not None:
            yield piece
    finally:
        try:
            with suppress(ConnectionError):  # the end of the loop has closed the answer
                run(_shut(reading, taking))
        finally:
            if iscoroutine(answer) and getcoroutinestate(answer) == CORO_CREATED:  # no loop was there to begin it
                answer.close()


@cache
def _shared_loop(_process: int, depth: int) -> asyncio.AbstractEventLoop:
    """Return an event loop that never ends: a client's connections belong to one loop.

    At a `depth` are those that a summariser drives from within the loop of the depth before.
    """
    loop = asyncio.new_event_loop()

    def run() -> None:
        _here.depth = depth + 1
        loop.run_forever()

    threading.Thread(target=run, name="summarizer", daemon=True).start()
    return loop


def _running() -> asyncio.AbstractEventLoop | None:
    with suppress(RuntimeError):
        return asyncio.get_running_loop()
    return None


async def _step(reading: _Answer, taking: list[asyncio.Task[Any]]) -> Piece | None:
    task = asyncio.current_task()
    assert task is not None
    taking[:] = [task]
    return await reading.step()


async def _shut(reading: _Answer, taking: list[asyncio.Task[Any]]) -> None:
    """Close the answer; cancel an interrupted step."""
    given_up = [task for task in taking if not task.done()]
    for task in given_up:
        task.cancel()
    await asyncio.gather(*given_up, return_exceptions=True)
    await reading.close()


class _Limits:
    """The pieces and characters that a summary may still have."""

    def __init__(self) -> None:
        self._pieces = MOST_PIECES
        self._characters = LONGEST_SUMMARY

    def taken(self, piece: object) -> Iterator[Piece]:
        """Yield a piece, unless it is empty; `CallError` for other types.

        Raises `SummarizerRefusedError` if the summary gets too long.
        """
        if not isinstance(piece, (str, Usage, FailedCall, ToolCalled)):
            raise CallError(f"a summariser gave a {type(piece).__name__}; expected text, Usage or ToolCalled")
        self._pieces -= 1
        self._characters -= len(piece) if isinstance(piece, str) else 0
        if self._pieces < 0 or self._characters < 0:
            raise SummarizerRefusedError(
                f"the summary has more than {LONGEST_SUMMARY} characters, or {MOST_PIECES} pieces: it may have no end"
            )
        if piece != "":
            yield piece
