"""Group commit: many callers, each waiting until its own append is durable.

Measured twice: through the log's contract, where group commit lives, and through the handles, which
decide each command. The baseline is a bare queue and thread that make the same writes: handing over
between threads alone takes most of the time that a quick disk leaves.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from threading import Barrier, Thread
from time import perf_counter, process_time
from typing import NamedTuple

import eventlog
from benchmarks.engine import opened
from benchmarks.figures import Case, Figure, Measurement, Setting, Target
from benchmarks.hand_off import HandOff
from benchmarks.limits import RawFile
from benchmarks.measure import Timing, in_turn, written
from eventlog.aio import AsyncSession
from eventlog.codec.batch import encode
from eventlog.events import Custom
from eventlog.log.contract import Append, Log, Ticket

__all__ = ["CASES", "SMALL", "Rates", "of_log", "of_sessions", "run_tasks", "run_threads"]

TEXT = "The tests fail, fix them"
SMALL = encode([(0, Custom("benchmark", "{}"))], 0)
"""Payload of an append with one small event."""

LOOKS = 3
"""Runs, of which the one with the fewest writes counts: background work falls into some."""
ROUNDS = 3
"""Factor on the number of rounds: one takes a tenth of a second."""

Rates = dict[str, float]
"""Appends a second, by side.

`alone` is one thread, `threads` and `tasks` are many; `bare.threads` and `bare.tasks` are without
the engine.
"""


def _alone(wait: Callable[[], object], appends: int) -> float:
    start = perf_counter()
    for _ in range(appends):
        wait()
    return perf_counter() - start


def run_threads(waits: Sequence[Callable[[], object]], appends: int) -> float:
    """Return the seconds until a thread for each of `waits` has called it `appends` times."""
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
    """Return the seconds until a task for each of `waits` has awaited it `appends` times."""

    async def work(wait: Callable[[], Awaitable[object]]) -> None:
        for _ in range(appends):
            await wait()

    async def everyone() -> float:
        start = perf_counter()
        await asyncio.gather(*map(work, waits))
        return perf_counter() - start

    return asyncio.run(everyone())


class CallerWork(NamedTuple):
    """Repeated work of one caller, of many threads, and of many tasks."""

    one: Callable[[], object]
    blocking: Sequence[Callable[[], object]]
    awaiting: Sequence[Callable[[], Awaitable[object]]]


def _rates(setting: Setting, name: str, callers: CallerWork, file: RawFile) -> Rates:
    """Measure all sides in turn; add a row for each to the table `name`."""
    one, blocking, awaiting = callers
    sizes = setting.sizes
    alone = sizes.appends * 4
    each = sizes.appends * sizes.callers
    record = os.urandom(min(_written_by(lambda: run_threads(blocking, sizes.appends)) for _ in range(LOOKS)) // each)

    def side(run: Callable[[], float], count: int) -> Callable[[], list[Timing]]:
        def measured() -> list[Timing]:
            cpu = process_time()
            seconds = run()
            return [Timing(seconds / count, (process_time() - cpu) / count)]

        return measured

    with closing(HandOff(lambda records: file.write(b"".join(records)))) as bare:
        waits: list[Callable[[], object]] = [lambda: bare.wait(record)] * sizes.callers
        waited: list[Callable[[], Awaitable[object]]] = [lambda: bare.waited(record)] * sizes.callers
        sides = {
            "alone": side(lambda: _alone(one, alone), alone),
            "threads": side(lambda: run_threads(blocking, sizes.appends), each),
            "bare.threads": side(lambda: run_threads(waits, sizes.appends), each),
            "tasks": side(lambda: run_tasks(awaiting, sizes.appends), each),
            "bare.tasks": side(lambda: run_tasks(waited, sizes.appends), each),
        }
        samples = in_turn(sides, sizes.rounds * ROUNDS)
    titles = {
        "alone": "one thread",
        "threads": f"{sizes.callers} threads",
        "bare.threads": f"{sizes.callers} threads, bare queue and thread",
        "tasks": f"{sizes.callers} asyncio tasks",
        "bare.tasks": f"{sizes.callers} asyncio tasks, bare queue and thread",
    }
    for which, samples_of_side in samples.items():
        cells = {
            "/s": 1 / samples_of_side.median,
            "p10 µs": samples_of_side.percentile(0.1) * 1e6,
            "CPU µs": samples_of_side.median_cpu * 1e6,
        }
        setting.notes.row(f"{name}, {len(record):,} B each", titles[which], cells)
    return {which: 1 / samples_of_side.median for which, samples_of_side in samples.items()}


def _written_by(work: Callable[[], object]) -> int:
    before = written()
    work()
    return written() - before


def of_log(setting: Setting, store: eventlog.Store, file: RawFile, name: str = "appends to the log") -> Rates:
    """Measure many callers of the log itself; `name` is the table."""
    sessions = [store.create_session().id for _ in range(setting.sizes.callers)]
    waits = [_submitting(store.log, session) for session in sessions]
    one = _submitting(store.log, store.create_session().id)
    return _rates(setting, name, CallerWork(lambda: one().wait(), [_waiting(wait) for wait in waits], waits), file)


def _submitting(log: Log, session: str) -> Callable[[], Ticket]:
    append = Append(session=session, payload=SMALL, count=1, time=1)
    return lambda: log.submit(append)


def _waiting(submit: Callable[[], Ticket]) -> Callable[[], object]:
    return lambda: submit().wait()


def of_sessions(setting: Setting, store: eventlog.Store, file: RawFile, name: str = "user messages") -> Rates:
    """Measure many callers of handles; `name` is the table."""
    one = store.create_session()
    many = [store.create_session() for _ in range(setting.sizes.callers)]
    callers = CallerWork(
        lambda: one.user(TEXT),
        [_adding(session) for session in many],
        [_adding_later(AsyncSession(session)) for session in many],
    )
    return _rates(setting, name, callers, file)


def _adding(session: eventlog.Session) -> Callable[[], object]:
    return lambda: session.user(TEXT)


def _adding_later(session: AsyncSession) -> Callable[[], Awaitable[object]]:
    return lambda: session.user(TEXT)


def _against_bare(
    name: str, of: Callable[[Setting, eventlog.Store, RawFile], Rates]
) -> Callable[[Setting], dict[str, Measurement]]:
    def run(setting: Setting) -> dict[str, Measurement]:
        with opened(setting.directory, name) as store, RawFile(setting.directory / "bare") as file:
            rates = of(setting, store, file)
        return {f"{name}.{side}": Measurement(rates[side], rates[f"bare.{side}"]) for side in ("threads", "tasks")}

    return run


def _pending(setting: Setting) -> dict[str, Measurement]:
    """Measure one task with many pending commands, in a new session each time."""
    many = setting.sizes.pending
    with opened(setting.directory, "pending") as store:

        def side(count: int) -> Callable[[], list[float]]:
            async def everything() -> float:
                session = AsyncSession(store.create_session())
                start = perf_counter()
                await asyncio.gather(*(session.user(TEXT) for _ in range(count)))
                return perf_counter() - start

            return lambda: [asyncio.run(everything())]

        samples = in_turn({"many": side(many), "few": side(many // 10)}, setting.sizes.rounds)
    return {"pending": Measurement(samples["many"].median * 1e3, samples["few"].median * 1e3)}


BARE = "a bare queue and thread that make the same writes"

CASES = (
    Case(
        "log",
        (
            Figure("log.threads", "durable appends, a session each, 64 threads", "/s", BARE, Target(">=", 0.6)),
            Figure("log.tasks", "durable appends, a session each, 64 asyncio tasks", "/s", BARE, Target(">=", 0.35)),
        ),
        _against_bare("log", of_log),
    ),
    Case(
        "session",
        (
            Figure(
                "session.threads", "durable user messages, a session each, 64 threads", "/s", BARE, Target(">=", 0.4)
            ),
            Figure(
                "session.tasks",
                "durable user messages, a session each, 64 asyncio tasks",
                "/s",
                BARE,
                Target(">=", 0.3),
            ),
        ),
        _against_bare("session", of_sessions),
    ),
    Case(
        "pending",
        (
            Figure(
                "pending",
                "10,000 user messages pending in one asyncio session",
                "ms",
                "1,000 of them",
                Target("<=", 12),
            ),
        ),
        _pending,
    ),
)
