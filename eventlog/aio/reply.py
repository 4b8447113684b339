"""`AsyncReply`: an assistant message being filled, whose durability is awaited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable
from functools import partial
from inspect import isawaitable
from types import TracebackType
from typing import Any, Self, TypeVar, cast

from eventlog.aio.awaiting import Twin, acquired, durable, left, of_another, of_sync, passed_on, released
from eventlog.session.filling import LOOK_SECONDS, Filled, Filling, is_whole_answer
from eventlog.session.held_lease import Lease
from eventlog.session.reply import Reply
from eventlog.session.reply_commands import ReplyCommands
from eventlog.session.session import Session
from eventlog.session.text_stream import TextStream
from eventlog.session.tool_call import ToolCall
from eventlog.streams.answer import API
from eventlog.validation import require, require_wait
from eventlog.values import Usage

T = TypeVar("T")


def _reads_input(input: object = None, **_: Any) -> bool:
    """Whether a call starts with the arguments that streamed, and waits for them."""
    return input is None


def _reads_file(output: object, **_: Any) -> bool:
    return not isinstance(output, str)


def _always(*_: Any, **__: Any) -> bool:
    return True


class AsyncReply(Twin[Reply]):
    """An assistant message being filled, for asyncio.

    What `Reply` waits for is awaited; what it accepts without waiting is a plain call here, too.
    `end`, `start`, `succeed` and `fail` await the methods of a text or a tool call, so that
    `await reply.end(stream)` ends what `stream_text` began.
    """

    def __init__(self, session: Session, reply: Reply) -> None:
        super().__init__(reply, session.executor)
        require_wait(reply.lease_wait)
        self.id: str = reply.id

    async def __aenter__(self) -> Self:
        lease = await acquired(self._executor, self.sync.lease_wait, lazily=True)
        try:
            self.sync.begin(lease)
        except BaseException:
            await released(self._executor, lease)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await left(self.sync, self.lease, kind, error, trace)

    lease: Lease | None = of_sync("lease")
    target: str = of_sync("target")
    api: str = of_sync("api")
    is_open: bool = of_sync("is_open")
    interrupt_requested: bool = of_sync("interrupt_requested")
    in_step: bool = of_sync("in_step")

    # -- parts ---------------------------------------------------------------------------------

    stream_text = passed_on(Reply.stream_text)
    stream_reasoning = passed_on(Reply.stream_reasoning)
    add_text = durable(Reply.add_text)
    part = passed_on(Reply.part)
    tool = durable(Reply.tool)
    call = passed_on(Reply.call)

    end = of_another("stream", TextStream, "`stream_text` or `stream_reasoning`", TextStream.end)
    start = of_another("call", ToolCall, "`tool`", ToolCall.start, _reads_input)
    ask = of_another("call", ToolCall, "`tool`", ToolCall.ask, _always)
    succeed = of_another("call", ToolCall, "`tool`", ToolCall.succeed, _reads_file)
    fail = of_another("call", ToolCall, "`tool`", ToolCall.fail)

    # -- steps ---------------------------------------------------------------------------------

    step = passed_on(Reply.step)
    end_step = passed_on(Reply.end_step)
    retry = passed_on(Reply.retry)

    async def fill(self, answer: object, *, api: API | None = None) -> Filled:
        """Fill the reply from a provider's answer, as it streams or whole; see `Reply.fill`.

        `answer` is an async iterable of chunks, or one whole answer. Text is accepted at once;
        steps that wait for the disk run in a thread.
        """
        return await fill_from(Filling(self.sync, api), answer)

    # -- the end -------------------------------------------------------------------------------

    async def finish(
        self, reason: str = "stop", *, usage: Usage | None = None, catalogue: str = "", snapshot: str | None = None
    ) -> None:
        """Close the message; durable when it returns.  See `Reply.finish`."""
        finish = partial(self.sync.finish, reason, usage=usage, catalogue=catalogue, snapshot=snapshot)
        if self.sync.looks_back(reason):  # waits for the disk, and reads
            await asyncio.to_thread(finish)
        else:
            await self._awaited(finish)

    abort = durable(Reply.abort)


async def fill_from(filling: Filling, answer: object) -> Filled:
    """Fill a reply with the chunks of an answer; an error leaves it open."""
    if is_whole_answer(answer):
        await asyncio.to_thread(lambda: filling.carry_out(filling.read(answer)))
        return await asyncio.to_thread(filling.end)
    require(AsyncIterable, answer, "an answer is an async iterable of chunks, or a whole one")
    chunks = cast("AsyncIterable[Any]", answer)
    filled = await heard(filling.reply, _filled(filling, chunks), lambda: filling.is_silent)
    return filled or await _stopped(filling, chunks)


async def _filled(filling: Filling, chunks: AsyncIterable[Any]) -> Filled:
    async for chunk in chunks:
        filling.is_silent = False
        steps = filling.read(chunk)
        if filling.waits(steps):
            await asyncio.to_thread(filling.carry_out, steps)
        else:
            filling.carry_out(steps)
        if filling.looks() and await asyncio.to_thread(lambda: filling.reply.interrupt_requested):
            return await _stopped(filling, chunks)
        filling.is_silent = True
    filling.is_silent = False
    return await asyncio.to_thread(filling.end)


async def _stopped(filling: Filling, chunks: AsyncIterable[Any]) -> Filled:
    close = getattr(chunks, "aclose", None) or getattr(chunks, "close", None)  # providers' packages have either
    if close is not None and isawaitable(closed := close()):
        await closed
    return await asyncio.to_thread(filling.stop)


async def heard(reply: ReplyCommands, answer: Awaitable[T], is_silent: Callable[[], bool] = lambda: True) -> T | None:
    """Await what a provider says; None if a user asks for a stop while the provider is silent."""
    task = asyncio.ensure_future(answer)
    try:
        while not (await asyncio.wait({task}, timeout=LOOK_SECONDS))[0]:
            requested = await asyncio.to_thread(lambda: reply.interrupt_requested)
            if requested and is_silent() and not task.done():
                return None
        return task.result()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
