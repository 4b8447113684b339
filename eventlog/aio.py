"""The same handles for asyncio: accepted at once, and durability awaited instead of blocked for.

    chat = AsyncSession(session)
    await chat.user("Fix the tests")
    async with chat.assistant(model="anthropic/claude") as reply:
        text = reply.text()
        text.append(token)                     # accepted, as ever
        await reply.end(text)                  # durable

A command is decided in the calling task, in order, and only its durability is awaited; what may wait for others or for the disk
(taking a lease, `do`, `append`, a request id) runs in a thread.  A command that raises is not committed, and will not be.
A cancelled await leaves the append to its fate: it is committed whole or not at all, and a retry under the same request id
tells which.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from threading import Lock, Thread
from types import TracebackType
from typing import ParamSpec, Self, TypeVar

from eventlog import events as ev
from eventlog.errors import LeaseHeldError
from eventlog.log.base import Committed
from eventlog.reply import Call, Reply
from eventlog.session import Session
from eventlog.stream import Stream
from eventlog.values import Json, MessageError, PartKind, Usage

__all__ = ["AsyncReply", "AsyncSession"]

PATIENCE = 0.25
"""Seconds between two looks whether a lease is still wanted."""

P = ParamSpec("P")
R = TypeVar("R")


async def _awaited(session: Session, command: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a command that does not block but for durability, and await that."""
    with session.collecting() as pipeline:
        result = command(*args, **kwargs)
    await pipeline.settled()
    return result


class _Taking:
    """A lease being taken in a thread: given back there if nobody awaits it any more."""

    def __init__(self, session: Session, wait: float) -> None:
        self._session = session
        self._deadline = time.monotonic() + wait
        self._lock = Lock()
        self._taken = False
        self._abandoned = False

    def take(self) -> int:
        """Take the lease, looking every now and then whether it is still wanted."""
        while True:
            left = self._deadline - time.monotonic()
            try:
                epoch = self._session.acquire(wait=max(min(left, PATIENCE), 0.0))
            except LeaseHeldError:
                if left <= 0 or self._abandoned:
                    raise
                continue
            with self._lock:
                self._taken = True
                wanted = not self._abandoned
            if not wanted:
                self._session.release()
            return epoch

    def abandon(self) -> None:
        """The await was cancelled."""
        with self._lock:
            self._abandoned = True
            taken = self._taken
        if taken:
            Thread(target=self._session.release, name="eventlog-release").start()


async def _acquired(session: Session, wait: float) -> int:
    """Take the lease in a thread; a cancelled await does not leave it held."""
    taking = _Taking(session, wait)
    try:
        return await asyncio.to_thread(taking.take)
    except asyncio.CancelledError:
        taking.abandon()
        raise


class AsyncSession:
    """A session for asyncio; `sync` is the handle below it, whose reading methods may be used as they are."""

    def __init__(self, session: Session) -> None:
        self.sync = session
        self.id = session.id

    async def do(self, command: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Await any command of the handle: `await chat.do(chat.sync.rename, "New title")`.

        Runs in a thread, so those of several tasks come in any order.
        """
        return await asyncio.to_thread(command, *args, **kwargs)

    async def user(self, text: str | Sequence[PartKind] = "", *, request_id: str | None = None) -> str:
        """Add a user message; durable when it returns its id.  For more fields: `do(chat.sync.user, …)`."""
        if request_id is not None:  # has an append of its own, which is waited for at once
            return await asyncio.to_thread(self.sync.user, text, request_id=request_id)
        return await _awaited(self.sync, self.sync.user, text)

    async def append(self, items: Sequence[tuple[int, ev.Event]], *, expected_version: int | None = None) -> Committed:
        """Append events as they are; see `Session.append`."""
        return await asyncio.to_thread(self.sync.append, items, expected_version=expected_version)

    async def flush(self) -> None:
        """Make everything accepted so far durable."""
        await self.sync.appender.settled()

    @asynccontextmanager
    async def lease(self, *, wait: float = 0.0) -> AsyncGenerator[int]:
        """Hold the right to run this session; see `Session.lease`."""
        epoch = await _acquired(self.sync, wait)
        try:
            yield epoch
        finally:
            await asyncio.shield(asyncio.to_thread(self.sync.release))

    def assistant(self, model: str | None = None, *, agent: str = "", mode: str = "", wait: float = 0.0) -> AsyncReply:
        """Begin an assistant message, to be filled in an `async with` block."""
        return AsyncReply(self.sync, self.sync.assistant(model, agent=agent, mode=mode), wait)


class AsyncReply:
    """An assistant message being filled, for asyncio."""

    def __init__(self, session: Session, reply: Reply, wait: float) -> None:
        self.sync = reply
        self.id = reply.id
        self._session = session
        self._wait = wait

    async def __aenter__(self) -> Self:
        await _acquired(self._session, self._wait)
        try:
            self.sync.begin()
        except BaseException:
            await asyncio.shield(asyncio.to_thread(self._session.release))
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.shield(asyncio.to_thread(self.sync.__exit__, kind, error, trace))

    def text(self) -> Stream:
        """Begin a text part; its `append` accepts without waiting, and `await reply.end(stream)` ends it."""
        return self.sync.text()

    def reasoning(self) -> Stream:
        """Begin a reasoning part."""
        return self.sync.reasoning()

    async def end(self, stream: Stream, metadata: Json | None = None) -> None:
        """The part is complete; durable when it returns."""
        await _awaited(self._session, stream.end, metadata)

    async def tool(self, tool: str, *, call_id: str, input: Json | dict[str, object] | None = None) -> Call:
        """Begin a tool call; with `input` its running is durable when this returns."""
        return await _awaited(self._session, self.sync.tool, tool, call_id=call_id, input=input)

    async def run(self, call: Call, input: Json | dict[str, object]) -> None:
        """The arguments are complete: the tool may run once this returns."""
        await _awaited(self._session, call.run, input)

    async def succeed(self, call: Call, output: str) -> None:
        """Record the tool's output; durable when it returns."""
        await _awaited(self._session, call.succeed, output)

    async def fail(self, call: Call, error: str) -> None:
        """Record that the tool failed; durable when it returns."""
        await _awaited(self._session, call.fail, error)

    async def finish(self, reason: str = "stop", *, usage: Usage | None = None) -> None:
        """Close the message; durable when it returns."""
        await _awaited(self._session, self.sync.finish, reason, usage=usage)

    async def abort(self, error: MessageError | None = None) -> None:
        """Close the message as it stands."""
        await _awaited(self._session, self.sync.abort, error)
