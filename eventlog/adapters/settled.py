"""Commands of asyncio and trio tasks, in threads; a wait for a lease takes none.

A command that finds the lease held is refused at once, and done again once the lease looks free. So
the holder, who needs a thread to give it back, gets one; and a cancelled wait ends at once.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from contextvars import ContextVar, copy_context
from functools import partial
from typing import ParamSpec, TypeVar

from eventlog.errors import EventlogError, LeaseHeldError
from eventlog.session.executor import Executor
from eventlog.session.held_lease import POLL
from eventlog.session.session import Sessions
from eventlog.validation import require_function

P = ParamSpec("P")
T = TypeVar("T")

_WAITS_IN_LOOP: ContextVar[bool] = ContextVar("the loop waits", default=False)
"""Whether the running command is done again by a task that waits for it."""


def patience(seconds: float) -> float:
    """Return how long a command may wait in its thread: not at all if a task waits for it."""
    return 0.0 if _WAITS_IN_LOOP.get() else seconds


async def settled(command: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a command in a thread; a cancelled caller hears of it once the command has ended.

    So what the command did is never unknown: it has been stored, or its error says why not. Tasks
    of trio and of asyncio may call it.
    """
    require_function(command, "a command is a function")
    if _in_trio():
        result: T = await sys.modules["trio"].to_thread.run_sync(partial(command, *args, **kwargs))
        return result
    run = partial(copy_context().run, command, *args, **kwargs)
    task = asyncio.get_running_loop().run_in_executor(None, run)  # no task of its own, which a loop's end cancels
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = cancelled or error
    if cancelled is not None:
        cancelled.__cause__ = task.exception()
        raise cancelled
    return task.result()


async def patient(
    store: Sessions, command: Callable[[], T], wait: float, *, meanwhile: AbstractContextManager[None] | None = None
) -> T:
    """Run a command as `settled` does, which takes leases for `patience(…)` seconds.

    `wait` is how many seconds this task waits for a lease that another owner or task holds; it is
    inside `meanwhile` then. The command may begin several times, and goes on where it was refused.
    """
    deadline = time.monotonic() + wait

    def attempt() -> T:
        _WAITS_IN_LOOP.set(True)  # the thread has a context of its own
        return command()

    with ExitStack() as waiting:
        while True:
            try:
                return await settled(attempt)
            except LeaseHeldError as error:
                if time.monotonic() >= deadline:
                    raise
                refused = error.session
            if meanwhile is not None:
                waiting.enter_context(meanwhile)
                meanwhile = None
            await _until_free(store, refused, deadline)


async def _until_free(store: Sessions, session: str, deadline: float) -> None:
    """Wait until no other owner or task seems to hold the lease of a session."""
    executor = await settled(_executor_of, store, session)
    while executor is not None and time.monotonic() < deadline:
        await (sys.modules["trio"].sleep(POLL) if _in_trio() else asyncio.sleep(POLL))
        if executor.leases.running is None and await settled(_is_free, executor):
            return


def _executor_of(store: Sessions, session: str) -> Executor | None:
    try:
        return store.session(session).executor
    except EventlogError:  # the command says what is wrong
        return None


def _is_free(executor: Executor) -> bool:
    try:
        executor.require_no_owner()
    except LeaseHeldError:
        return False
    except EventlogError:  # the command says what is wrong
        return True
    return True


def _in_trio() -> bool:
    trio = sys.modules.get("trio")
    return trio is not None and bool(trio.lowlevel.in_trio_task())
