"""Group commit: many callers, each waiting until its own append is durable.

Twice: through the log's own contract, where group commit lives, and through the handles, where deciding each command costs
more than committing it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from threading import Barrier, Thread
from time import perf_counter

import eventlog
from benchmarks.engine import opened
from benchmarks.figures import Case, Figure, Measured, Setting, Target
from benchmarks.measure import in_turn
from eventlog.aio import AsyncSession
from eventlog.codec.batch import encode
from eventlog.events import Custom
from eventlog.log.contract import Append, Log, Ticket

__all__ = ["CASES", "SMALL", "of_log", "of_sessions", "run_tasks", "run_threads"]

TEXT = "The tests fail, fix them"
SMALL = encode([(0, Custom("benchmark", "{}"))], 0)
"""An append of one small event."""


def _alone(wait: Callable[[], object], appends: int) -> float:
    start = perf_counter()
    for _ in range(appends):
        wait()
    return perf_counter() - start


def run_threads(waits: Sequence[Callable[[], object]], appends: int) -> float:
    """Seconds until a thread for each of `waits` has called it `appends` times."""
    barrier = Barrier(len(waits) + 1)

    def work(wait: Callable[[], object]) -> None:
        barrier.wait()
        for _ in range(appends):
            wait()

    threads = [Thread(target=work, args=(wait,)) for wait in waits]
    for thread in threads:
        thread.start()
    barrier.wait()
    start = perf_counter()
    for thread in threads:
        thread.join()
    return perf_counter() - start


def run_tasks(waits: Sequence[Callable[[], Awaitable[object]]], appends: int) -> float:
    """Seconds until an asyncio task for each of `waits` has awaited it `appends` times."""

    async def work(wait: Callable[[], Awaitable[object]]) -> None:
        for _ in range(appends):
            await wait()

    async def everyone() -> float:
        start = perf_counter()
        await asyncio.gather(*map(work, waits))
        return perf_counter() - start

    return asyncio.run(everyone())


def _rates(
    setting: Setting,
    one: Callable[[], object],
    blocking: Sequence[Callable[[], object]],
    awaiting: Sequence[Callable[[], Awaitable[object]]],
) -> tuple[Measured, Measured]:
    """Appends a second of many threads, and of many tasks, against one thread."""
    sizes = setting.sizes
    alone = sizes.appends * 4
    each = sizes.appends * sizes.callers
    sides: dict[str, Callable[[], list[float]]] = {
        "alone": lambda: [_alone(one, alone) / alone],
        "threads": lambda: [run_threads(blocking, sizes.appends) / each],
        "tasks": lambda: [run_tasks(awaiting, sizes.appends) / each],
    }
    samples = in_turn(sides, sizes.rounds)
    rate = {name: 1 / found.median for name, found in samples.items()}
    return Measured(rate["threads"], rate["alone"]), Measured(rate["tasks"], rate["alone"])


def _in_a_new_store(
    name: str, of: Callable[[Setting, eventlog.Store], dict[str, Measured]]
) -> Callable[[Setting], dict[str, Measured]]:
    def run(setting: Setting) -> dict[str, Measured]:
        with opened(setting.directory, name) as store:
            return of(setting, store)

    return run


def of_log(setting: Setting, store: eventlog.Store) -> dict[str, Measured]:
    """Many callers of the log itself."""
    sessions = [store.create_session().id for _ in range(setting.sizes.callers)]
    waits = [_submitting(store.log, session) for session in sessions]
    one = _submitting(store.log, store.create_session().id)
    threads, tasks = _rates(setting, lambda: one().wait(), [_waiting(wait) for wait in waits], waits)
    return {"log.threads": threads, "log.tasks": tasks}


def _submitting(log: Log, session: str) -> Callable[[], Ticket]:
    append = Append(session=session, payload=SMALL, count=1, time=1)
    return lambda: log.submit(append)


def _waiting(submit: Callable[[], Ticket]) -> Callable[[], object]:
    return lambda: submit().wait()


def of_sessions(setting: Setting, store: eventlog.Store) -> dict[str, Measured]:
    """Many callers of handles."""
    one = store.create_session()
    many = [store.create_session() for _ in range(setting.sizes.callers)]
    threads, tasks = _rates(
        setting,
        lambda: one.user(TEXT),
        [_adding(session) for session in many],
        [_adding_later(AsyncSession(session)) for session in many],
    )
    return {"session.threads": threads, "session.tasks": tasks}


def _adding(session: eventlog.Session) -> Callable[[], object]:
    return lambda: session.user(TEXT)


def _adding_later(session: AsyncSession) -> Callable[[], Awaitable[object]]:
    return lambda: session.user(TEXT)


CASES = (
    Case(
        "log",
        (
            Figure("log.threads", "durable appends, a session each, 64 threads", "/s", "one thread", Target(">=", 6)),
            Figure("log.tasks", "the same, 64 asyncio tasks", "/s", "one thread", Target(">=", 12)),
        ),
        _in_a_new_store("log", of_log),
    ),
    Case(
        "session",
        (
            Figure(
                "session.threads",
                "durable user messages, a session each, 64 threads",
                "/s",
                "one thread",
                Target(">=", 6),
            ),
            Figure("session.tasks", "the same, 64 asyncio tasks", "/s", "one thread", Target(">=", 12)),
        ),
        _in_a_new_store("group", of_sessions),
    ),
)
