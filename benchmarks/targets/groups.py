"""Target 3: group commit, 64 callers each waiting for its own append.

Compared with the disk, and with a bare hand-over between threads:

* The raw writes: the journal writes of a run are recorded and repeated by themselves, the same
  sizes, each with its `fdatasync`, into a file of the same kind. The ratio is what the engine adds.
  What a bare hand-over between threads adds is measured beside it.
* The hand-over limit: a queue, a thread, and a plain lock for each waiter, with a commit that is a
  sleep of 0.3 ms. For this comparison the engine's `fdatasync` is replaced by the same sleep, so
  that the disk does not count.
"""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING

from benchmarks.figures import Case, Figure, Measurement, Setting, Target
from benchmarks.groups import SMALL, run_tasks, run_threads
from benchmarks.hand_off import HandOff
from benchmarks.limits import RawFile
from benchmarks.measure import in_turn
from eventlog.log.contract import Append
from eventlog.log.embedded.engine import open_log
from eventlog.log.embedded.filesystem import JournalIO

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["CASES"]

COMMIT = 0.0003
"""Seconds of a commit that is a sleep."""
RECORD = 80
"""Approximate bytes in the engine's journal for each of these appends."""


class RecordingIO(JournalIO):
    """The journal's I/O, with the size of each flushed write recorded."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self._unflushed = 0

    def pwrite(self, fd: int, data: Buffer, offset: int) -> int:
        """Write, and record the size."""
        self._unflushed += memoryview(data).nbytes
        return super().pwrite(fd, data, offset)

    def fdatasync(self, fd: int) -> None:
        """Flush, and record the bytes that were flushed."""
        self.sizes.append(self._unflushed)
        self._unflushed = 0
        super().fdatasync(fd)


class SleepingIO(JournalIO):
    """The journal's I/O with a sleep for each flush."""

    def fdatasync(self, fd: int) -> None:
        """Sleep as long as a commit takes."""
        del fd
        time.sleep(COMMIT)


class Engine:
    """A log with a session for each caller."""

    def __init__(self, directory: Path, callers: int, io: JournalIO) -> None:
        self._log = open_log(directory, io=io)
        appends = [
            Append(session=f"ses_{number}", payload=SMALL, count=1, time=1, creates_at=0) for number in range(callers)
        ]
        for append in appends:
            self._log.submit(append).wait()
        more = [Append(session=append.session, payload=SMALL, count=1, time=1) for append in appends]
        self.blocking: list[Callable[[], object]] = [self._waiting(append) for append in more]
        self.awaiting: list[Callable[[], Awaitable[object]]] = [self._awaiting(append) for append in more]
        self.close = self._log.close

    def _waiting(self, append: Append) -> Callable[[], object]:
        submit = self._log.submit
        return lambda: submit(append).wait()

    def _awaiting(self, append: Append) -> Callable[[], Awaitable[object]]:
        submit = self._log.submit
        return lambda: submit(append)


def _again(path: Path, sizes: Sequence[int]) -> float:
    """Repeat recorded writes by themselves; return the seconds for all."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        zeros = bytes(1 << 20)
        for offset in range(0, sum(sizes) + len(zeros), len(zeros)):
            os.pwrite(fd, zeros, offset)
        os.fsync(fd)
        data = os.urandom(max(sizes))
        at, start = 0, perf_counter()
        for size in sizes:
            os.pwrite(fd, data[:size], at)
            os.fdatasync(fd)
            at += size
        return perf_counter() - start
    finally:
        os.close(fd)
        path.unlink()


def _against_disk(setting: Setting) -> dict[str, Measurement]:
    sizes = setting.sizes
    each = sizes.appends * sizes.callers
    io = RecordingIO()
    engine = Engine(setting.directory / "log", sizes.callers, io)
    writes = RawFile(setting.directory / "bare")
    bare_sizes: list[int] = []

    def bare_commit(records: list[bytes]) -> None:
        data = b"".join(records)
        bare_sizes.append(len(data))
        writes.write(data)

    bare = HandOff(bare_commit)
    record = os.urandom(RECORD)
    waits: list[Callable[[], object]] = [lambda: bare.wait(record)] * sizes.callers
    waited: list[Callable[[], Awaitable[object]]] = [lambda: bare.waited(record)] * sizes.callers
    runs: dict[str, tuple[list[int], Callable[[], float]]] = {
        "threads": (io.sizes, lambda: run_threads(engine.blocking, sizes.appends)),
        "threads.bare": (bare_sizes, lambda: run_threads(waits, sizes.appends)),
        "tasks": (io.sizes, lambda: run_tasks(engine.awaiting, sizes.appends)),
        "tasks.bare": (bare_sizes, lambda: run_tasks(waited, sizes.appends)),
    }
    raw: dict[str, list[float]] = {name: [] for name in runs}

    def side(name: str, written: list[int], run: Callable[[], float]) -> Callable[[], list[float]]:
        def measured() -> list[float]:
            written.clear()
            seconds = run()
            raw[name].append(_again(setting.directory / "again", written) / each)
            return [seconds / each]

        return measured

    try:
        samples = in_turn({name: side(name, *run) for name, run in runs.items()}, sizes.rounds)
    finally:
        engine.close()
        bare.close()
        writes.close()
    return {
        f"target.3.{name}": Measurement(
            1 / side_samples.median, 1 / median(raw[name][1:])
        )  # the first belongs to the warm-up
        for name, side_samples in samples.items()
    }


def _against_hand_off(setting: Setting) -> dict[str, Measurement]:
    sizes = setting.sizes
    each = sizes.appends * sizes.callers
    engine = Engine(setting.directory / "sleeping", sizes.callers, SleepingIO())
    limit = HandOff(lambda _: time.sleep(COMMIT))
    waits: list[Callable[[], object]] = [lambda: limit.wait(b"")] * sizes.callers
    waited: list[Callable[[], Awaitable[object]]] = [lambda: limit.waited(b"")] * sizes.callers
    try:
        samples = in_turn(
            {
                "threads": lambda: [run_threads(engine.blocking, sizes.appends) / each],
                "threads.limit": lambda: [run_threads(waits, sizes.appends) / each],
                "tasks": lambda: [run_tasks(engine.awaiting, sizes.appends) / each],
                "tasks.limit": lambda: [run_tasks(waited, sizes.appends) / each],
            },
            sizes.rounds,
        )
    finally:
        engine.close()
        limit.close()
    return {
        f"target.3.{name}.handoff": Measurement(1 / samples[name].median, 1 / samples[f"{name}.limit"].median)
        for name in ("threads", "tasks")
    }


RAW = "its journal writes by themselves: same sizes, each with its fdatasync"
LIMIT = "a bare queue and thread; commits of both are sleeps of 0.3 ms"

CASES = (
    Case(
        "target.3.disk",
        (
            Figure("target.3.threads", "durable appends of 64 threads", "/s", RAW, Target(">=", 0.4)),
            Figure("target.3.threads.bare", "commits of 64 threads by a bare queue and thread", "/s", RAW),
            Figure("target.3.tasks", "durable appends of 64 asyncio tasks", "/s", RAW, Target(">=", 0.7)),
            Figure("target.3.tasks.bare", "commits of 64 asyncio tasks by a bare queue and thread", "/s", RAW),
        ),
        _against_disk,
    ),
    Case(
        "target.3.handoff",
        (
            Figure("target.3.threads.handoff", "appends of 64 threads", "/s", LIMIT, Target(">=", 0.5)),
            Figure("target.3.tasks.handoff", "appends of 64 asyncio tasks", "/s", LIMIT, Target(">=", 0.5)),
        ),
        _against_hand_off,
    ),
)
