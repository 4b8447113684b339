"""Many callers of one store, each waiting until its own user message is on the disk.

SQLite has a row for each message, in a transaction of its own, on one connection behind a lock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import closing
from threading import Barrier, Lock, Thread
from time import perf_counter, process_time

import eventlog
from benchmarks.figures import Case, Figure, Measurement, Setting, Target
from benchmarks.measure import Timing, in_turn
from benchmarks.sqlite_turns import TwoRows

TEXT = "The tests fail, fix them"


def run_threads(waits: Sequence[Callable[[], object]], times: int) -> float:
    """Return the seconds until a thread for each of `waits` has called it `times` times."""
    barrier = Barrier(len(waits) + 1)

    def work(wait: Callable[[], object]) -> None:
        barrier.wait()
        for _ in range(times):
            wait()

    threads = [Thread(target=work, args=(wait,)) for wait in waits]
    for thread in threads:
        thread.start()
    barrier.wait()
    start = perf_counter()
    for thread in threads:
        thread.join()
    return perf_counter() - start


def _run_tasks(sessions: Sequence[eventlog.AsyncSession], times: int) -> float:
    async def work(session: eventlog.AsyncSession) -> None:
        for _ in range(times):
            await session.user(TEXT)

    async def everyone() -> float:
        start = perf_counter()
        await asyncio.gather(*map(work, sessions))
        return perf_counter() - start

    return asyncio.run(everyone())


def _callers(setting: Setting) -> dict[str, Measurement]:
    callers, times = setting.sizes.callers, setting.sizes.appends
    lock = Lock()

    def side(run: Callable[[], float], count: int) -> Callable[[], list[Timing]]:
        def measured() -> list[Timing]:
            cpu = process_time()
            seconds = run()
            return [Timing(seconds / count, (process_time() - cpu) / count)]

        return measured

    with (
        eventlog.open(setting.directory / "callers") as store,
        closing(TwoRows(setting.directory / "callers.db")) as rows,
    ):
        rows.fill()

        def add() -> None:
            with lock:
                rows.add([rows.row("user", [{"type": "text", "text": TEXT}])])

        def user(session: eventlog.Session) -> Callable[[], object]:
            return lambda: session.user(TEXT)

        one, *many = (store.create_session() for _ in range(callers + 1))
        later = [eventlog.AsyncSession(session) for session in many]
        sides = {
            "one thread": side(lambda: run_threads([user(one)], times * 4), times * 4),
            f"{callers} threads": side(
                lambda: run_threads([user(session) for session in many], times), callers * times
            ),
            f"{callers} asyncio tasks": side(lambda: _run_tasks(later, times), callers * times),
            "SQLite FULL, one thread": side(lambda: run_threads([add], times * 4), times * 4),
            f"SQLite FULL, {callers} threads": side(lambda: run_threads([add] * callers, times), callers * times),
        }
        samples = in_turn(sides, setting.sizes.rounds)
    rates = [1 / found.median for found in samples.values()]
    for title, found in samples.items():
        cells = {"/s": 1 / found.median, "p10 µs": found.percentile(0.1) * 1e6, "CPU µs": found.median_cpu * 1e6}
        setting.notes.row("durable user messages, a session each", title, cells)
    return {
        "callers.threads": Measurement(rates[1], rates[4]),
        "callers.tasks": Measurement(rates[2], rates[4]),
        "callers.one": Measurement(rates[0], rates[3]),
    }


SQLITE = "SQLite FULL, a transaction each, 64 threads"

CASE = Case(
    "callers",
    (
        Figure("callers.threads", "durable user messages of 64 threads", "/s", SQLITE, Target(">=", 1)),
        Figure("callers.tasks", "durable user messages of 64 asyncio tasks", "/s", SQLITE, Target(">=", 1)),
        Figure(
            "callers.one", "durable user messages of one thread", "/s", "SQLite FULL, a transaction each, one thread"
        ),
    ),
    _callers,
)
