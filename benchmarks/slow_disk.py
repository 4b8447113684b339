"""Figures that depend on the cost of a flush, on a disk whose flush takes 1 ms.

The quicker the disk, the more the rest of a commit weighs. Here every `fdatasync`, of the engine
and of the raw file, really happens and then lasts until 1 ms has passed: about the time of a
network disk in a cloud.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import eventlog
from benchmarks.engine import take_turn
from benchmarks.figures import Case, Figure, Measurement, Setting, Target
from benchmarks.groups import of_log, of_sessions
from benchmarks.limits import RawFile
from benchmarks.measure import in_turn, timed
from benchmarks.workloads import turns
from eventlog.log.embedded.engine import open_log
from eventlog.log.embedded.filesystem import JournalIO
from eventlog.store import Store

__all__ = ["CASES"]

FLUSH = 1e-3
"""Seconds that a flush takes."""
WARM_UP = 20


def _slowly(flush: Callable[[int], None], fd: int) -> None:
    start = time.perf_counter()
    flush(fd)
    time.sleep(max(FLUSH - (time.perf_counter() - start), 0))


class SlowIO(JournalIO):
    """The journal's I/O on a slow disk."""

    def fdatasync(self, fd: int) -> None:
        """Flush, and wait until the flush has lasted 1 ms."""
        _slowly(super().fdatasync, fd)


class SlowFile(RawFile):
    """A raw file on a slow disk."""

    def fdatasync(self, fd: int) -> None:
        """Flush, and wait until the flush has lasted 1 ms."""
        _slowly(super().fdatasync, fd)


@contextmanager
def _opened(path: Path) -> Generator[eventlog.Store]:
    with Store(open_log(path, io=SlowIO())) as store:
        yield store


def _turn(setting: Setting) -> dict[str, Measurement]:
    count = setting.sizes.turns
    work = [iter(turns(count + WARM_UP)) for _ in range(2)]
    with _opened(setting.directory / "turns") as store, SlowFile(setting.directory / "raw") as raw:
        session = store.create_session(title="turns")
        with session.lease():
            sides: dict[str, Callable[[], list[float]]] = {
                "engine": lambda: [timed(lambda: take_turn(session, next(work[0])))],
                "raw": lambda: [timed(lambda: raw.write(next(work[1]).text_bytes()))],
            }
            samples = in_turn(sides, count, warm_up=WARM_UP)
    return {"slow.turn": Measurement(samples["engine"].median * 1000, samples["raw"].median * 1000)}


def _many(setting: Setting) -> dict[str, Measurement]:
    with _opened(setting.directory / "many") as store, SlowFile(setting.directory / "bare") as file:
        rates_of = {
            "log": of_log(setting, store, file, "appends to the log, flushes of 1 ms"),
            "session": of_sessions(setting, store, file, "user messages, flushes of 1 ms"),
        }
    return {
        f"slow.{name}.{side}": Measurement(rates[side], rates["alone"])
        for name, rates in rates_of.items()
        for side in ("threads", "tasks")
    }


RAW = "pwrite + fdatasync of the turn's bytes, a flush of 1 ms, too"

CASES = (
    Case(
        "slow.turn",
        (Figure("slow.turn", "durable turn, flushes of 1 ms, median", "ms", RAW, Target("<=", 1.5)),),
        _turn,
    ),
    Case(
        "slow.many",
        (
            Figure(
                "slow.log.threads", "durable appends, flushes of 1 ms, 64 threads", "/s", "one thread", Target(">=", 6)
            ),
            Figure(
                "slow.log.tasks",
                "durable appends, flushes of 1 ms, 64 asyncio tasks",
                "/s",
                "one thread",
                Target(">=", 12),
            ),
            Figure("slow.session.threads", "durable user messages, 64 threads", "/s", "one thread", Target(">=", 6)),
            Figure(
                "slow.session.tasks", "durable user messages, 64 asyncio tasks", "/s", "one thread", Target(">=", 12)
            ),
        ),
        _many,
    ),
)
