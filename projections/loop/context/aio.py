"""`AsyncContextWindow`: a context window for asyncio.

It wraps a `ContextWindow` (`sync`).  Calls that may wait for the disk, a model or a tool run in a
worker thread; tools, subtasks and summarisers may be coroutines.  It serves one task at a time, but
the calls of one step may run side by side (`gather`).

A cancelled compaction is asked to stop and awaited, so it is recorded as aborted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps
from inspect import isawaitable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from eventlog.aio import AsyncReply, AsyncTurn
from eventlog.aio.awaiting import Twin, left, of_sync, threaded
from eventlog.aio.reply import fill_from, heard
from eventlog.errors.base import giving_way_to
from eventlog.session.filling import ABORTED, Filled, Filling
from eventlog.session.reply import Reply
from eventlog.streams.answer import API
from eventlog.validation import require, require_function
from projections.loop.context.refused_request import close_open_reply
from projections.loop.context.retrying import Attempts, Backoff
from projections.loop.context.window import ContextWindow
from projections.window.compaction.summarizer import HOME

if TYPE_CHECKING:
    from eventlog.session.held_lease import Lease
    from eventlog.session.session import Session
    from projections.loop.context.running_task import RunningTask
    from projections.loop.context.window_state import WindowState
    from projections.loop.decision.steps import PendingCall, RunSubtask

P = ParamSpec("P")
T = TypeVar("T")
_RUN = "`run` is a coroutine function that is given the sub-session"


def _stoppable(
    method: Callable[Concatenate[ContextWindow, P], T],
) -> Callable[Concatenate[Twin[ContextWindow], P], Coroutine[Any, Any, T]]:
    """Return a method that runs one in a thread, and asks it to stop once it is cancelled."""

    @wraps(method)
    async def call(twin: Twin[ContextWindow], /, *args: P.args, **kwargs: P.kwargs) -> T:
        running = asyncio.ensure_future(asyncio.to_thread(method, twin.sync, *args, **kwargs))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            if not running.done():
                await asyncio.to_thread(twin.sync.session.interrupt, "cancelled")
                await asyncio.wait([running])
            raise

    return call


class AsyncContextWindow(Twin[ContextWindow]):
    """Async form of `ContextWindow`: `async with AsyncContextWindow(ContextWindow(session))`."""

    def __init__(self, window: ContextWindow) -> None:
        require(ContextWindow, window, "an AsyncContextWindow is that of a ContextWindow")
        super().__init__(window, window.session.executor)

    async def __aenter__(self) -> Self:
        HOME.set(asyncio.get_running_loop())  # also of tasks and threads that begin in the window
        await asyncio.to_thread(self.sync.__enter__)
        if self.sync.lease is not None:
            self.sync.lease.share()  # the thread had a context of its own
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await left(self.sync, self.lease, kind, error, trace)

    session: Session = of_sync("session")
    state: WindowState = of_sync("state")
    lease: Lease | None = of_sync("lease")
    tokens: int = of_sync("tokens")
    waits: int = of_sync("waits")

    record = threaded(ContextWindow.record)
    next_step = threaded(ContextWindow.next_step)
    perform = _stoppable(ContextWindow.perform)
    prune = threaded(ContextWindow.prune)
    compact = _stoppable(ContextWindow.compact)
    undo = threaded(ContextWindow.undo)
    save = threaded(ContextWindow.save)
    view = threaded(ContextWindow.view)
    begin = threaded(ContextWindow.begin)
    start = threaded(ContextWindow.start)
    succeed = threaded(ContextWindow.succeed)
    fail = threaded(ContextWindow.fail)
    finish = threaded(ContextWindow.finish)

    async def run(self, call: PendingCall, tool: Callable[[dict[str, Any]], Awaitable[str]]) -> None:
        """Run one call with a coroutine as its tool; see `ContextWindow.run`.

        The end of the `async with` closes the call of a cancelled tool.
        """
        require_function(tool, "a tool is a coroutine function that is given the arguments")
        running = await self.start(call)
        if running is None:
            return
        try:
            output = await tool(running.arguments)
        except Exception as error:  # noqa: BLE001  # any exception of a tool is its result
            await self.fail(running.call, error)
        else:
            await self.succeed(running.call, output)

    async def run_task(self, call: PendingCall, run: Callable[[Session], Awaitable[str | None]]) -> Session | None:
        """Give the work of a `task` call to a sub-session; see `ContextWindow.run_task`.

        Several run side by side (`gather`). A cancelled one goes on after the next start.
        """
        require_function(run, _RUN)
        task = await asyncio.to_thread(self.sync.start_task, call)
        if task is None:
            return None
        await _run_task(task, run)
        return task.session

    async def run_subtask(self, step: RunSubtask, run: Callable[[Session], Awaitable[str | None]]) -> Session:
        """Give a subtask to a sub-session with a coroutine; see `ContextWindow.run_subtask`.

        A cancelled one goes on after the next start.
        """
        require_function(run, _RUN)
        task = await asyncio.to_thread(self.sync.start_subtask, step)
        try:
            await _run_task(task, run)
        except BaseException as error:
            with giving_way_to(error, "window"):
                await asyncio.shield(asyncio.to_thread(close_open_reply, self.state, error))
            raise
        await self.finish()
        return task.session


async def _run_task(task: RunningTask, run: Callable[[Session], Awaitable[str | None]]) -> None:
    """Let a coroutine work on the sub-session; see `RunningTask.run`."""
    with task:
        try:
            async with AsyncTurn(task.turn()) as turn:
                if turn.state == "failed":
                    await turn.retry()
                answer = await run(task.session) if turn.mine else None
            if answer is None and await asyncio.to_thread(task.waits, turn.sync):
                await asyncio.to_thread(task.ask)
                return
            if answer is None:
                answer = await asyncio.to_thread(task.answer, turn.sync)
        except Exception as error:  # noqa: BLE001  # as with a tool
            await asyncio.to_thread(task.fail, error)
        else:
            await asyncio.to_thread(task.succeed, answer)


def _sync(reply: Reply | AsyncReply) -> Reply:
    require((Reply, AsyncReply), reply, "what is filled is a Reply or an AsyncReply")
    return reply.sync if isinstance(reply, AsyncReply) else reply


async def afill(reply: Reply | AsyncReply, answer: object, *, api: API | None = None) -> Filled:
    """Fill a reply, also a blocking one, from a provider's answer; see `Reply.fill`."""
    return await fill_from(Filling(_sync(reply), api), answer)


async def afill_retrying(
    reply: Reply | AsyncReply,
    ask: Callable[[], object],
    *,
    api: API | None = None,
    transient: tuple[type[Exception], ...] = (),
    attempts: int = 4,
    first_wait: float = 0.5,
    longest_wait: float = 60.0,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Filled:
    """Ask a model and fill the reply; see `fill_retrying`.

    `ask` returns the answer, an async iterable of chunks or a whole one, or is a coroutine function
    that does.
    """
    require_function(sleep, "sleep is a coroutine function that is given seconds")
    reply = _sync(reply)
    again = Attempts(reply, ask, transient, Backoff(attempts=attempts, first=first_wait, longest=longest_wait))
    while True:
        try:
            answer = ask()
            if isawaitable(answer) and (answer := await heard(reply, answer)) is None:
                await asyncio.to_thread(reply.abort)
                return Filled(ABORTED)
            return await fill_from(Filling(reply, api, whole=True), answer)
        except Exception as error:  # noqa: BLE001  # raised again unless it passes
            waits = await asyncio.to_thread(again.retry, error)
        for seconds in waits:
            await sleep(seconds)
            if await asyncio.to_thread(again.is_stopped):
                return Filled(ABORTED)
