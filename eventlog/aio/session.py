"""`AsyncSession`: the commands of a session, awaited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Literal, ParamSpec, TypeVar, cast

from eventlog import events as ev
from eventlog.aio.awaiting import acquired, awaited, released, unless_held
from eventlog.aio.reply import AsyncReply
from eventlog.aio.turn import AsyncTurn
from eventlog.log.commit import Committed
from eventlog.session.answering import Answer, AskedCall
from eventlog.session.held_lease import Lease
from eventlog.session.message_commands import Sent
from eventlog.session.session import Session
from eventlog.validation import require, require_function
from eventlog.values import File, Json, Model, PartKind

__all__ = ["AsyncSession"]

P = ParamSpec("P")
R = TypeVar("R")


class AsyncSession:
    """A session for asyncio.

    `sync` is the blocking handle below it: its reading methods may be used directly, and `do` runs
    its other commands.
    """

    def __init__(self, session: Session) -> None:
        require(Session, session, "an AsyncSession is that of a Session")
        self.sync = session
        self.id: str = session.id

    async def do(self, command: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Await any command of the handle: `await chat.do(chat.sync.rename, "New title")`.

        Runs in a thread, so those of several tasks come in any order. The `wait` of a command for
        another's lease is spent in the event loop, and needs no thread.
        """
        require_function(command, "a command is a method of the handle")
        wait = cast("float", kwargs.pop("wait", 0.0))
        return await unless_held(lambda: asyncio.to_thread(command, *args, **kwargs), wait)

    async def user(
        self,
        text: str | Sequence[PartKind] = "",
        *,
        id: str | None = None,
        files: Sequence[File] = (),
        agent: str = "",
        model: Model | str | None = None,
        variant: str | None = None,
        system: str | None = None,
        tools: Json | None = None,
        format: Json | None = None,
        synthetic: bool = False,
        delivery: Literal["steer", "queue"] = "steer",
        cause: str | None = None,
        request_id: str | None = None,
    ) -> str:
        """Add a user message; durable when it returns its id.  See `Session.user`."""
        add = partial(
            self.sync.user,
            text,
            id=id,
            files=files,
            agent=agent,
            model=model,
            variant=variant,
            system=system,
            tools=tools,
            format=format,
            synthetic=synthetic,
            delivery=delivery,
            cause=cause,
            request_id=request_id,
        )
        if request_id is not None:  # has an append of its own, which is waited for at once
            return await asyncio.to_thread(add)
        return await awaited(self.sync, add)

    async def append(
        self,
        items: Sequence[tuple[int, ev.Event]],
        *,
        bodies: Mapping[bytes, bytes] | None = None,
        expected_version: int | None = None,
        request_id: str | None = None,
        wait: float = 0.0,
    ) -> Committed:
        """Append events as they are; see `Session.append`."""
        append = partial(
            self.sync.append, items, bodies=bodies, expected_version=expected_version, request_id=request_id
        )
        return await unless_held(lambda: asyncio.to_thread(append), wait)

    async def asked_calls(self) -> list[AskedCall]:
        """Return the calls that wait for a person; see `Session.asked_calls`."""
        return await asyncio.to_thread(self.sync.asked_calls)

    async def answer_call(self, message: str, call: str, answer: Answer, *, by: str = "") -> int:
        """Say whether an asked call may run; see `Session.answer_call`."""
        return await asyncio.to_thread(self.sync.answer_call, message, call, answer, by=by)

    async def flush(self) -> None:
        """Make everything accepted so far durable."""
        await asyncio.to_thread(self.sync.flush)

    @asynccontextmanager
    async def lease(self, *, wait: float = 0.0, take_over: bool = False) -> AsyncGenerator[Lease]:
        """Hold the right to run this session; see `Session.lease`."""
        lease = await acquired(self.sync, wait, take_over=take_over)
        try:
            yield lease
        finally:
            await released(self.sync, lease)

    def turn(
        self,
        text: str | Sequence[PartKind] | None = None,
        request_id: str | None = None,
        *,
        files: Sequence[File] = (),
        agent: str = "",
        model: Model | str | None = None,
        tools: Json | None = None,
        format: Json | None = None,
        delivery: Literal["steer", "queue"] = "steer",
        wait: float = 0.0,
        take_over: bool = False,
    ) -> AsyncTurn:
        """Add a user message, or find it, to be answered once in an `async with` block.

        See `Session.turn`.
        """
        turn = self.sync.turn(
            text,
            request_id,
            files=files,
            agent=agent,
            model=model,
            tools=tools,
            format=format,
            delivery=delivery,
            wait=wait,
            take_over=take_over,
        )
        return AsyncTurn(turn)

    def assistant(
        self,
        model: Model | str | None = None,
        *,
        id: str | None = None,
        reply_to: str | None = None,
        agent: str = "",
        mode: str = "",
        variant: str | None = None,
        cwd: str | None = None,
        root: str | None = None,
        summary: bool = False,
        wait: float = 0.0,
        view: Sent | int | None = None,
    ) -> AsyncReply:
        """Begin an assistant message, to be filled in an `async with` block.

        `view` is what the model is sent; see `Session.assistant`.
        """
        reply = self.sync.assistant(
            model,
            id=id,
            reply_to=reply_to,
            agent=agent,
            mode=mode,
            variant=variant,
            cwd=cwd,
            root=root,
            summary=summary,
            view=view,
        )
        return AsyncReply(self.sync, reply, wait)
