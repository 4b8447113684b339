"""Any callable may summarise: sync or async, whole or in pieces, in either world."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, cast

import pytest

from eventlog.errors import CallError
from eventlog.values import Tokens, Usage
from projections.window.compaction.request import SummaryRequest
from projections.window.compaction.summarizer import Piece, Summarizer, ToolCalled, apieces, pieces

REQUEST = SummaryRequest("s", (), "p")
USAGE = Usage(Tokens(1, 2))
WHOLE: list[Piece] = ["one ", "two", USAGE, ToolCalled("bash")]


def whole(request: SummaryRequest) -> list[Piece]:
    """A list of pieces."""
    assert request is REQUEST
    return WHOLE


def streamed(request: SummaryRequest) -> Iterator[Piece]:
    """A generator; empty pieces mean nothing."""
    del request
    yield ""
    yield from WHOLE


async def awaited(request: SummaryRequest) -> list[Piece]:
    """A coroutine that returns a list."""
    await asyncio.sleep(0)
    return whole(request)


async def async_streamed(request: SummaryRequest) -> AsyncIterator[Piece]:
    """An async generator."""
    for piece in streamed(request):
        await asyncio.sleep(0)
        yield piece


async def async_to_stream(request: SummaryRequest) -> AsyncIterator[Piece]:
    """A coroutine that returns an async generator."""
    await asyncio.sleep(0)
    return async_streamed(request)


class Writer:
    """An object that is called."""

    async def __call__(self, request: SummaryRequest) -> list[Piece]:
        """A list of pieces."""
        return whole(request)


def late(request: SummaryRequest) -> object:
    """An ordinary function that returns a coroutine."""
    return awaited(request)


ALL = [whole, streamed, awaited, async_streamed, async_to_stream, Writer(), late]


def driven(summarizer: Summarizer) -> list[Piece]:
    """The pieces that blocking code gets."""
    return list(pieces(summarizer, REQUEST))


def collected(summarizer: Summarizer) -> list[Piece]:
    """The pieces that a coroutine gets."""

    async def collect() -> list[Piece]:
        return [piece async for piece in apieces(summarizer, REQUEST)]

    return asyncio.run(collect())


@pytest.mark.parametrize("summarizer", ALL, ids=lambda found: getattr(found, "__name__", "object"))
def test_every_kind_gives_the_same(summarizer: Any) -> None:
    """Every kind of callable gives pieces, usage and tool calls in the same order."""
    assert list(pieces(summarizer, REQUEST)) == WHOLE
    assert collected(summarizer) == WHOLE


def test_text_is_one_piece() -> None:
    """A plain text is the whole summary, not a sequence of letters."""

    async def later(request: SummaryRequest) -> str:
        del request
        return "all"

    assert list(pieces(lambda _: "all", REQUEST)) == list(pieces(later, REQUEST)) == ["all"]
    assert collected(lambda _: "all") == collected(later) == ["all"]


def test_works_under_a_running_loop() -> None:
    """Blocking code inside a running loop may drive an async summariser."""

    async def outer() -> list[Piece]:
        return list(pieces(async_streamed, REQUEST))

    assert asyncio.run(outer()) == WHOLE


def test_threads_do_not_meet() -> None:
    """Threads may drive one async summariser at once, each on its own loop."""
    found: list[list[Piece]] = []
    threads = [threading.Thread(target=lambda: found.append(list(pieces(async_streamed, REQUEST)))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [WHOLE] * 4


@pytest.mark.parametrize("drive", [driven, collected], ids=["code", "coroutine"])
def test_errors_come_through(drive: Callable[[Summarizer], object]) -> None:
    """A summariser's error is raised where it is read, and nothing is left running."""

    def breaks(request: SummaryRequest) -> Iterator[Piece]:
        del request
        yield "a"
        raise ZeroDivisionError

    async def breaks_later(request: SummaryRequest) -> AsyncIterator[Piece]:
        del request
        yield "a"
        raise ZeroDivisionError

    def numbers(request: SummaryRequest) -> list[int]:
        del request
        return [1]

    for summarizer in (breaks, breaks_later):
        with pytest.raises(ZeroDivisionError):
            drive(cast("Summarizer", summarizer))
    with pytest.raises(CallError, match="int"):
        drive(cast("Summarizer", numbers))
    assert "summarizer" not in {thread.name for thread in threading.enumerate()}


def test_stopping_closes_the_summariser() -> None:
    """Closing the iterator ends the summariser, its clean-up and its tasks."""
    closed: list[str] = []

    def endless(request: SummaryRequest) -> Iterator[Piece]:
        del request
        try:
            while True:
                yield "x"
        finally:
            closed.append("sync")

    async def async_endless(request: SummaryRequest) -> AsyncIterator[Piece]:
        del request
        task = asyncio.ensure_future(asyncio.Event().wait())
        try:
            while True:
                yield "x"
        finally:
            await asyncio.sleep(0)
            closed.append("async")
            assert not task.done()
            task.add_done_callback(lambda _: closed.append("task"))

    for summarizer in (endless, async_endless):
        found = pieces(summarizer, REQUEST)
        assert next(found) == "x"
        found.close()
    assert closed == ["sync", "async", "task"]


def test_cancelled_coroutine_closes_the_summariser() -> None:
    """A cancelled await closes the summariser."""
    closed: list[str] = []

    async def slow(request: SummaryRequest) -> AsyncIterator[Piece]:
        del request
        try:
            yield "x"
            await asyncio.Event().wait()
        finally:
            closed.append("closed")

    async def outer() -> None:
        begun = asyncio.Event()

        async def read() -> None:
            async for _ in apieces(slow, REQUEST):
                begun.set()

        task = asyncio.create_task(read())
        await begun.wait()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(outer())
    assert closed == ["closed"]
