"""Twins of blocking handles: their commands and leases, awaited.

A twin has the methods of its handle, each by one rule: `passed_on` calls the method, `durable`
awaits its append, `threaded` runs it in a thread, `of_another` awaits a method of a text or a call.
Attributes are `of_sync`. Parameters, types and meaning are those of the handle.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractContextManager
from functools import partial, wraps
from inspect import Parameter, Signature, signature
from operator import attrgetter
from threading import Lock, Thread
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, cast

from eventlog.errors import LeaseHeldError
from eventlog.session.executor import Executor
from eventlog.session.held_lease import POLL, Lease
from eventlog.validation import require, require_wait

C = TypeVar("C")
H_co = TypeVar("H_co", covariant=True)
P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class Twin(Generic[H_co]):
    """A handle for asyncio; `sync` is the blocking one."""

    def __init__(self, sync: H_co, executor: Executor) -> None:
        self.sync: H_co = sync
        self._executor = executor

    async def _awaited(self, command: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a command that blocks only for durability, and await that."""
        with self._executor.collecting() as pipeline:
            result = command(*args, **kwargs)
        await pipeline.committed()
        return result


def of_sync(name: str) -> Any:
    """Return a property that gives an attribute of the blocking handle, as it is now."""
    return property(attrgetter(f"sync.{name}"))


def passed_on(method: Callable[Concatenate[H_co, P], R]) -> Callable[Concatenate[Twin[H_co], P], R]:
    """Return a method that calls one of the blocking handle, which does not wait."""

    @wraps(method)
    def call(twin: Twin[H_co], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return method(twin.sync, *args, **kwargs)

    return call


def durable(method: Callable[Concatenate[H_co, P], R]) -> Callable[Concatenate[Twin[H_co], P], Coroutine[Any, Any, R]]:
    """Return a method that calls one which blocks only for durability, and awaits that.

    With a request id it has an append of its own, which is waited for at once, in a thread.
    """

    @wraps(method)
    async def call(twin: Twin[H_co], /, *args: P.args, **kwargs: P.kwargs) -> R:
        if kwargs.get("request_id") is not None:
            return await asyncio.to_thread(method, twin.sync, *args, **kwargs)
        return await twin._awaited(method, twin.sync, *args, **kwargs)  # noqa: SLF001

    return call


def of_another(
    name: str,
    kind: type[C],
    maker: str,
    method: Callable[Concatenate[C, P], R],
    is_slow: Callable[P, bool] | None = None,
) -> Callable[Concatenate[Twin[Any], C, P], Coroutine[Any, Any, R]]:
    """Return a method that awaits one of a text or call, its first argument, made by `maker`.

    With arguments for which it `is_slow` the method runs in a thread.
    """

    @wraps(method)
    async def call(twin: Twin[Any], thing: C, /, *args: P.args, **kwargs: P.kwargs) -> R:
        require(kind, thing, f"a {name} is what {maker} returned")
        if is_slow is not None and is_slow(*args, **kwargs):
            return await asyncio.to_thread(method, thing, *args, **kwargs)
        return await twin._awaited(method, thing, *args, **kwargs)  # noqa: SLF001

    own, *others = signature(method).parameters.values()
    first = own.replace(kind=Parameter.POSITIONAL_ONLY)
    cast("Any", call).__signature__ = Signature([first, first.replace(name=name, annotation=kind.__name__), *others])
    return call


def threaded(method: Callable[Concatenate[H_co, P], R]) -> Callable[Concatenate[Twin[H_co], P], Coroutine[Any, Any, R]]:
    """Return a method that runs one of the blocking handle in a thread."""

    @wraps(method)
    async def call(twin: Twin[H_co], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await in_thread(method, twin.sync, *args, **kwargs)

    return call


async def in_thread(command: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run a command in a thread; its `wait` for another's lease is spent in the event loop."""
    wait = cast("float", kwargs.pop("wait", 0.0))
    return await unless_held(lambda: asyncio.to_thread(command, *args, **kwargs), wait)


async def left(
    sync: AbstractContextManager[object, None],
    lease: Lease | None,
    kind: type[BaseException] | None,
    error: BaseException | None,
    trace: TracebackType | None,
) -> None:
    """Leave a blocking context manager in a thread, to its end also if the task is cancelled."""
    try:
        await asyncio.shield(asyncio.to_thread(sync.__exit__, kind, error, trace))
    finally:
        if lease is not None:
            lease.unshare()


class Taking:
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


async def unless_held(work: Callable[[], Awaitable[T]], wait: float) -> T:
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


async def acquired(executor: Executor, wait: float, *, lazily: bool = False, take_over: bool = False) -> Lease:
    """Take the lease for the running task."""

    async def take(*, take_over: bool = False) -> Lease:
        acquire = partial(executor.acquire, lazily=lazily and not wait, take_over=take_over)
        lease = await Taking(acquire, executor.release).taken()
        assert lease is not None
        return lease

    try:
        return await unless_held(take, wait)
    except LeaseHeldError:
        if not take_over:
            raise
    return await take(take_over=True)


async def released(executor: Executor, lease: Lease) -> None:
    """Release what `acquired` returned, in a thread."""
    try:
        await asyncio.shield(asyncio.to_thread(executor.release, lease))
    finally:
        lease.unshare()
