"""`AsyncSession`: the commands of a session, awaited."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from eventlog.aio.awaiting import Twin, acquired, durable, in_thread, released, threaded
from eventlog.aio.reply import AsyncReply
from eventlog.aio.turn import AsyncTurn
from eventlog.session.held_lease import Lease
from eventlog.session.session import Session
from eventlog.validation import require, require_function

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


def _made(
    method: Callable[Concatenate[Session, P], R], make: Callable[[Session, R], T]
) -> Callable[Concatenate[Twin[Session], P], T]:
    """Return a method that makes the twin of what the blocking one returns, for `async with`."""

    @wraps(method)
    def call(twin: Twin[Session], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return make(twin.sync, method(twin.sync, *args, **kwargs))

    return call


class AsyncSession(Twin[Session]):
    """A session for asyncio.

    `sync` is the blocking handle below it: its reading methods may be used directly, and `do` runs
    its other commands. `id` is the session's.
    """

    def __init__(self, session: Session) -> None:
        require(Session, session, "an AsyncSession is that of a Session")
        super().__init__(session, session.executor)
        self.id: str = session.id

    async def do(self, command: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Await any command of the handle: `await chat.do(chat.sync.rename, "New title")`.

        Runs in a thread, so those of several tasks come in any order. The `wait` of a command for
        another's lease is spent in the event loop, and needs no thread.
        """
        require_function(command, "a command is a method of the handle")
        return await in_thread(command, *args, **kwargs)

    user = durable(Session.user)

    append = threaded(Session.append)
    asked_calls = threaded(Session.asked_calls)
    answer_call = threaded(Session.answer_call)
    flush = threaded(Session.flush)
    turn_state = threaded(Session.turn_state)

    @asynccontextmanager
    async def lease(self, *, wait: float = 0.0, take_over: bool = False) -> AsyncGenerator[Lease]:
        """Hold the right to run this session; see `Session.lease`."""
        lease = await acquired(self._executor, wait, take_over=take_over)
        try:
            yield lease
        finally:
            await released(self._executor, lease)

    turn = _made(Session.turn, lambda _, turn: AsyncTurn(turn))
    assistant = _made(Session.assistant, AsyncReply)
