"""Commands run in a thread to their end, however often the awaiting task is cancelled."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

__all__ = ["settled"]

P = ParamSpec("P")
T = TypeVar("T")


async def settled(command: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a command in a thread; a cancelled caller hears of it once the command has ended.

    So what the command did is never unknown: it has been stored, or its error says why not. Tasks
    of trio and of asyncio may call it.
    """
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_task():
        result: T = await trio.to_thread.run_sync(partial(command, *args, **kwargs))
        return result
    task = asyncio.ensure_future(asyncio.to_thread(command, *args, **kwargs))
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
