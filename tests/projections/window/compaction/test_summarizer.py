"""Any callable may write summaries: sync or async, whole or in pieces."""

from __future__ import annotations

import asyncio
import gc
import signal
import threading
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest

from eventlog.errors import CallError
from eventlog.values import Tokens, Usage
from projections.window.compaction.request import SummaryRequest
from projections.window.compaction.summarizer import Piece, Summarizer, ToolCalled, pieces

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


@pytest.mark.parametrize("summarizer", ALL, ids=lambda found: getattr(found, "__name__", "object"))
def test_every_kind_gives_the_same(summarizer: Any) -> None:
    """Pieces, usage and tool calls come in order from every kind of callable."""
    assert list(pieces(summarizer, REQUEST)) == WHOLE


def test_text_is_one_piece() -> None:
    """A plain text is the whole summary, not a sequence of letters."""

    async def later(request: SummaryRequest) -> str:
        del request
        return "all"

    assert list(pieces(lambda _: "all", REQUEST)) == list(pieces(later, REQUEST)) == ["all"]


def test_works_under_a_running_loop() -> None:
    """Blocking code inside a running loop may drive an async summariser."""

    async def outer() -> list[Piece]:
        return list(pieces(async_streamed, REQUEST))

    assert asyncio.run(outer()) == WHOLE


def test_a_summariser_drives_another() -> None:
    """An async summariser may wait for another one: each has a loop that is free."""

    async def outer(request: SummaryRequest) -> list[Piece]:
        return [*pieces(awaited, request)]

    assert [*pieces(outer, REQUEST)] == WHOLE


def test_threads_do_not_meet() -> None:
    """Threads may drive one async summariser at once."""
    found: list[list[Piece]] = []
    threads = [threading.Thread(target=lambda: found.append(list(pieces(async_streamed, REQUEST)))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [WHOLE] * 4


def test_errors_come_through() -> None:
    """An error of a summariser is raised where its pieces are read."""

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
            list(pieces(cast("Summarizer", summarizer), REQUEST))
    with pytest.raises(CallError, match="int"):
        list(pieces(cast("Summarizer", numbers), REQUEST))


def test_stopping_closes_the_summariser() -> None:
    """A caller who stops reading closes the summariser, sync or async."""
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
        try:
            while True:
                yield "x"
        finally:
            await asyncio.sleep(0)
            closed.append("async")

    for summarizer in (endless, async_endless):
        found = pieces(summarizer, REQUEST)
        assert next(found) == "x"
        found.close()
    assert closed == ["sync", "async"]


@contextmanager
def ending_loop() -> Generator[asyncio.AbstractEventLoop]:
    """An event loop of another thread that is about to end, as at the end of `asyncio.run`."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    asyncio.run_coroutine_threadsafe(loop.shutdown_asyncgens(), loop).result()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


class EndsOnceSeen(asyncio.SelectorEventLoop):
    """An event loop that runs for one look, and is closed before the first step."""

    looks = 0

    def is_running(self) -> bool:
        """Say yes once, and end."""
        if not self.looks:
            return False
        self.looks = 0
        self.close()
        return True


def test_an_event_loop_that_has_ended() -> None:
    """An answer that no loop begins is closed: Python warns of coroutines that are not."""
    home = EndsOnceSeen()
    home.looks = 1
    with pytest.raises(ConnectionError, match="has ended"):
        next(pieces(awaited, REQUEST, home))
    gc.collect()


@pytest.mark.parametrize("summarizer", [awaited, async_to_stream])
def test_an_event_loop_that_ends(summarizer: Any) -> None:
    """Async generators begin with a warning there, here an error: the summariser's own alone."""
    with ending_loop() as home:
        if summarizer is awaited:
            assert [*pieces(summarizer, REQUEST, home)] == WHOLE
        else:
            with pytest.raises(ResourceWarning):
                list(pieces(summarizer, REQUEST, home))


def test_an_interrupted_step_in_a_thread() -> None:
    """Ctrl-C comes through while an iterator blocks."""
    standing, let_go = threading.Event(), threading.Event()

    def blocking() -> Iterator[Piece]:
        standing.set()
        let_go.wait(30)
        yield "too late"

    async def summarizer(_request: SummaryRequest) -> Iterator[Piece]:
        return blocking()

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    def interrupt() -> None:
        standing.wait(30)
        signal.pthread_kill(main, signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, interrupted)
    main = threading.get_ident()
    threading.Thread(target=interrupt).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            list(pieces(summarizer, REQUEST))
    finally:
        let_go.set()
        signal.signal(signal.SIGUSR1, before)
