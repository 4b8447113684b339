"""Sessions, replies and subscriptions for asyncio: awaited where others block.

    chat = AsyncSession(session)
    await chat.user("Fix the tests")
    async with chat.assistant(model="anthropic/claude") as reply:
        text = reply.stream_text()
        text.append(token)                     # accepted, as ever
        await reply.end(text)                  # durable

A command is decided in the calling task, in order, and only its durability is awaited. What may
wait for other owners or for the disk (taking a lease, `do`, `append`, a request id) runs in a
thread. A command that raises is not committed, and will not be. After a cancelled await the append
is committed whole or not at all; a retry with the same request id tells which.

    async for recorded in AsyncSubscription(store, after, session="s", provisional=True):
        await socket.send_text(...)

`subscription.py` says which events come, and in which order. Worker threads of the loop read and
decode, a bounded piece at a time. While nothing comes the subscription sleeps in the loop until the
store's follower rings it (`following/`). So an idle subscription needs no thread, and a dropped one
leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import islice
from threading import Lock, Thread
from types import TracebackType
from typing import ParamSpec, Self, TypeVar, cast

from eventlog import events as ev
from eventlog.codec.decoded import Recorded
from eventlog.errors import LeaseHeldError
from eventlog.events import Base
from eventlog.following.follower import Watch
from eventlog.following.loop_bell import LoopBell
from eventlog.log.contract import Committed
from eventlog.session.lease import POLL, Lease
from eventlog.session.reply import Reply
from eventlog.session.session import Sent, Session
from eventlog.session.text_stream import TextStream
from eventlog.session.tool_call import ToolCall
from eventlog.session.turn import Turn, TurnState
from eventlog.store import Store
from eventlog.subscription import LOOK_AHEAD, Subscription
from eventlog.validation import require, require_function, require_wait
from eventlog.values import Json, MessageError, PartKind, Usage

__all__ = ["AsyncReply", "AsyncSession", "AsyncSubscription", "AsyncTurn"]

_A_CALL = "a call is what `tool` returned"

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


async def _awaited(session: Session, command: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a command that blocks only for durability, and await that."""
    with session.executor.collecting() as pipeline:
        result = command(*args, **kwargs)
    await pipeline.committed()
    return result


class _Taking:
    """A lease being taken in a thread, which releases it if its task was cancelled."""

    def __init__(self, take: Callable[[], Lease | None], release: Callable[[Lease], None]) -> None:
        self._take = take
        self._release = release
        self._lock = Lock()
        self._taken: Lease | None = None
        self._abandoned = False

    async def taken(self) -> Lease | None:
        """Take the lease in a thread, for the running task; cancelling the await releases it."""
        try:
            lease = await asyncio.to_thread(self._run)
        except asyncio.CancelledError:
            self._abandon()
            raise
        if lease is not None:
            lease.share()  # the thread had a context of its own
        return lease

    def _run(self) -> Lease | None:
        lease = self._take()
        with self._lock:
            self._taken = lease
            is_awaited = not self._abandoned
        if lease is not None and not is_awaited:
            self._release(lease)
        return lease

    def _abandon(self) -> None:
        """Release the lease, now or once it is taken: the await was cancelled."""
        with self._lock:
            self._abandoned = True
            taken = self._taken
        if taken is not None:
            Thread(target=self._release, args=(taken,), name="eventlog-release").start()


async def _unless_held(work: Callable[[], Awaitable[T]], wait: float) -> T:
    """Do what another's lease may forbid; try again until `wait` seconds are over.

    The wait is in the loop: threads are few, and the holder's task needs one to release the lease.
    """
    require_wait(wait)
    deadline = time.monotonic() + wait
    while True:
        try:
            return await work()
        except LeaseHeldError:
            if time.monotonic() >= deadline:
                raise
        await asyncio.sleep(POLL)


async def _acquired(session: Session, wait: float, *, lazily: bool = False, take_over: bool = False) -> Lease:
    """Take the lease for the running task."""
    executor = session.executor

    async def take(*, take_over: bool = False) -> Lease:
        acquire = partial(executor.acquire, lazily=lazily and not wait, take_over=take_over)
        lease = await _Taking(acquire, executor.release).taken()
        assert lease is not None
        return lease

    try:
        return await _unless_held(take, wait)
    except LeaseHeldError:
        if not take_over:
            raise
    return await take(take_over=True)


async def _released(session: Session, lease: Lease) -> None:
    """Release what `_acquired` returned, in a thread."""
    try:
        await asyncio.shield(asyncio.to_thread(session.executor.release, lease))
    finally:
        lease.unshare()


class AsyncSession:
    """A session for asyncio.

    `sync` is the blocking handle below it; its reading methods may be used directly.
    """

    def __init__(self, session: Session) -> None:
        require(Session, session, "an AsyncSession is that of a Session")
        self.sync = session
        self.id = session.id

    async def do(self, command: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Await any command of the handle: `await chat.do(chat.sync.rename, "New title")`.

        Runs in a thread, so those of several tasks come in any order. The `wait` of a command for
        another's lease is spent in the event loop, and needs no thread.
        """
        require_function(command, "a command is a method of the handle")
        wait = cast("float", kwargs.pop("wait", 0.0))
        return await _unless_held(lambda: asyncio.to_thread(command, *args, **kwargs), wait)

    async def user(self, text: str | Sequence[PartKind] = "", *, request_id: str | None = None) -> str:
        """Add a user message; durable when it returns its id.

        For more fields: `do(chat.sync.user, …)`.
        """
        if request_id is not None:  # has an append of its own, which is waited for at once
            return await asyncio.to_thread(self.sync.user, text, request_id=request_id)
        return await _awaited(self.sync, self.sync.user, text)

    async def append(
        self, items: Sequence[tuple[int, ev.Event]], *, expected_version: int | None = None, wait: float = 0.0
    ) -> Committed:
        """Append events as they are; see `Session.append`."""
        append = partial(self.sync.append, items, expected_version=expected_version)
        return await _unless_held(lambda: asyncio.to_thread(append), wait)

    async def flush(self) -> None:
        """Make everything accepted so far durable."""
        await asyncio.to_thread(self.sync.flush)

    @asynccontextmanager
    async def lease(self, *, wait: float = 0.0, take_over: bool = False) -> AsyncGenerator[Lease]:
        """Hold the right to run this session; see `Session.lease`."""
        lease = await _acquired(self.sync, wait, take_over=take_over)
        try:
            yield lease
        finally:
            await _released(self.sync, lease)

    def turn(
        self,
        text: str | Sequence[PartKind] | None = None,
        request_id: str | None = None,
        *,
        wait: float = 0.0,
        take_over: bool = False,
    ) -> AsyncTurn:
        """Add a user message, or find it, to be answered once in an `async with` block.

        See `Session.turn`; for more fields: `AsyncTurn(chat.sync.turn(…))`.
        """
        return AsyncTurn(self.sync.turn(text, request_id, wait=wait, take_over=take_over))

    def assistant(
        self,
        model: str | None = None,
        *,
        agent: str = "",
        mode: str = "",
        wait: float = 0.0,
        view: Sent | int | None = None,
    ) -> AsyncReply:
        """Begin an assistant message, to be filled in an `async with` block.

        `view` is what the model is sent; see `Session.assistant`.
        """
        return AsyncReply(self.sync, self.sync.assistant(model, agent=agent, mode=mode, view=view), wait)


class AsyncReply:
    """An assistant message being filled, for asyncio."""

    def __init__(self, session: Session, reply: Reply, wait: float) -> None:
        require_wait(wait)
        self.sync = reply
        self.id = reply.id
        self._session = session
        self._wait = wait

    async def __aenter__(self) -> Self:
        lease = await _acquired(self._session, self._wait, lazily=True)
        try:
            self.sync.begin(lease)
        except BaseException:
            await _released(self._session, lease)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await asyncio.shield(asyncio.to_thread(self.sync.__exit__, kind, error, trace))
        finally:
            if self.sync.lease is not None:
                self.sync.lease.unshare()

    def stream_text(self) -> TextStream:
        """Begin a text part.

        The stream's `append` accepts without waiting; `await reply.end(stream)` ends the part.
        """
        return self.sync.stream_text()

    def stream_reasoning(self) -> TextStream:
        """Begin a reasoning part."""
        return self.sync.stream_reasoning()

    async def end(self, stream: TextStream, metadata: Json | None = None) -> None:
        """End the part; durable when it returns."""
        require(TextStream, stream, "a stream is what `stream_text` or `stream_reasoning` returned")
        await _awaited(self._session, stream.end, metadata)

    async def tool(self, tool: str, *, call_id: str, input: Json | dict[str, object] | None = None) -> ToolCall:
        """Begin a tool call; with `input` its running is durable when this returns."""
        return await _awaited(self._session, self.sync.tool, tool, call_id=call_id, input=input)

    async def start(self, call: ToolCall, input: Json | dict[str, object]) -> None:
        """Record that the arguments are complete and the tool runs; durable when it returns."""
        require(ToolCall, call, _A_CALL)
        await _awaited(self._session, call.start, input)

    async def succeed(self, call: ToolCall, output: str) -> None:
        """Record the tool's output; durable when it returns."""
        require(ToolCall, call, _A_CALL)
        await _awaited(self._session, call.succeed, output)

    async def fail(self, call: ToolCall, error: str) -> None:
        """Record that the tool failed; durable when it returns."""
        require(ToolCall, call, _A_CALL)
        await _awaited(self._session, call.fail, error)

    async def finish(self, reason: str = "stop", *, usage: Usage | None = None, catalogue: str = "") -> None:
        """Close the message; durable when it returns."""
        await _awaited(self._session, self.sync.finish, reason, usage=usage, catalogue=catalogue)

    async def abort(self, error: MessageError | None = None) -> None:
        """Close the message as it stands."""
        await _awaited(self._session, self.sync.abort, error)


class AsyncTurn:
    """A user message that is answered once, for asyncio; `sync` has its state and answer."""

    def __init__(self, turn: Turn) -> None:
        require(Turn, turn, "an AsyncTurn is that of a Turn")
        self.sync = turn
        self._lease: Lease | None = None

    @property
    def state(self) -> TurnState:
        """See `Turn`."""
        return self.sync.state

    @property
    def answer(self) -> tuple[str, ...]:
        """The replies so far, in order; the last one of a done turn ends its answer."""
        return self.sync.answer

    @property
    def mine(self) -> bool:
        """Whether the caller is to answer: it holds the lease."""
        return self.sync.mine

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.sync.ask)
        deadline = time.monotonic() + await asyncio.to_thread(self.sync.patience)
        while True:
            is_last = time.monotonic() >= deadline
            if await self._taken(partial(self.sync.decide, is_last=is_last)) or is_last:
                return self
            await asyncio.sleep(POLL)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        lease, self._lease = self._lease, None
        try:
            await asyncio.shield(asyncio.to_thread(self.sync.__exit__, kind, error, trace))
        finally:
            if lease is not None:
                lease.leave_turn()
                lease.unshare()

    async def retry(self) -> None:
        """Begin a failed turn again; see `Turn.retry`."""
        await self._taken(self.sync.retry)

    async def _taken(self, take: Callable[[], T]) -> T:
        """Call what may take the lease in a thread, for the running task."""
        results: list[T] = []

        def taking() -> Lease | None:
            results.append(take())
            return self.sync.lease

        self._lease = await _Taking(taking, lambda _: self.sync.release()).taken()
        if self._lease is not None:
            self._lease.share_turn(self.sync.message)  # the thread had a context of its own
        return results[0]


PIECE = 256
"""Events decoded at a time: what a slow reader holds in memory."""


class AsyncSubscription:
    """`Store.subscribe` for asyncio, with the same arguments.

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
