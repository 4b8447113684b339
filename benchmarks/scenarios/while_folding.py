"""Read the newest page and the head of a session while a writer causes folds.

The baseline is a store to which nothing is written. The writer appends records of 64 KB to another
session as quickly as it can, once in a process of its own and once in a thread beside the reader.
The size of the file that folds write shows that they happen.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Event, Thread

import eventlog
from benchmarks.children import Worker
from benchmarks.figures import Case, Figure, Measurement, Setting
from benchmarks.history import begun, small_turns
from benchmarks.measure import Samples, Timing, in_turn, spent
from benchmarks.scenarios.latency import add_rows, beside, figures_of
from benchmarks.scenarios.sqlite_sessions import SqliteSessions
from projections.transcript.transcript import Transcript

__all__ = ["CASES", "writes", "writes_in_sqlite"]

HISTORY = 200
"""Turns of the session that is read."""
PAGE = 50
"""Messages of the newest page."""
RECORD = 64 << 10
"""Characters of the writer's record: 64 of them are a fold."""
WARM_UP = 5
SIDES = {
    "idle": "everdelta, nothing is written",
    "apart": "everdelta, another process folding",
    "within": "everdelta, a thread beside it folding",
    "idle.sqlite": "SQLite FULL, nothing is written",
    "apart.sqlite": "SQLite FULL, another process writing",
}


@contextmanager
def _endless(write: Callable[[], object]) -> Generator[Callable[[], int]]:
    """Run a thread that writes without end; yield a function that returns its count."""
    stopping, begun = Event(), Event()
    done = 0

    def run() -> None:
        nonlocal done
        while not stopping.is_set():
            write()
            done += 1
            begun.set()

    thread = Thread(target=run)
    thread.start()
    try:
        begun.wait(30)
        yield lambda: done
    finally:
        stopping.set()
        thread.join()


@contextmanager
def writes(path: str) -> Generator[Callable[[object], int]]:
    """In a worker: write without end; answer with the count."""
    with eventlog.open(path) as store, _endless(_writer(store)) as done:
        yield lambda _: done()


@contextmanager
def writes_in_sqlite(path: str) -> Generator[Callable[[object], int]]:
    """In a worker: write rows of the same size without end; answer with the count."""
    with SqliteSessions(Path(path)) as sqlite, _endless(lambda: sqlite.user(_record(), "writer")) as done:
        yield lambda _: done()


def _record() -> str:
    return os.urandom(RECORD // 2).hex()


def _writer(store: eventlog.Store) -> Callable[[], None]:
    session = store.create_session(title="writer")
    return lambda: session.record_custom("benchmark", json.dumps(_record()))


def _reading(setting: Setting) -> dict[str, Measurement]:
    count = setting.sizes.turns
    ours, theirs = setting.directory / "engine", setting.directory / "sqlite"
    samples: dict[str, Samples] = {}
    folds: set[int] = set()
    with eventlog.open(ours) as store, SqliteSessions(theirs) as sqlite:
        session = store.session(begun(store, small_turns(HISTORY)))
        sqlite.fill()
        sqlite.turns(small_turns(HISTORY), "s")
        reads: dict[str, Callable[[], object]] = {
            "page": lambda: Transcript(session).page(PAGE),
            "head": session.head,
        }
        others: dict[str, Callable[[], object]] = {
            "sqlite.page": lambda: sqlite.page("s", PAGE),
            "sqlite.head": lambda: sqlite.newest("s"),
        }
        data = ours / "lmdb" / "data.mdb"

        def read(works: dict[str, Callable[[], object]], name: str) -> None:
            def side(work: Callable[[], object]) -> list[Timing]:
                folds.add(data.stat().st_mtime_ns)
                return [spent(work)]

            sides = {f"{name}.{what}": partial(side, work) for what, work in works.items()}
            samples.update(in_turn(sides, count, warm_up=WARM_UP))

        read(reads | others, "idle")
        with Worker(writes_in_sqlite, str(theirs)):
            read(others, "apart")
        folds.clear()
        with Worker(writes, str(ours)):
            read(reads, "apart")
        apart = len(folds) - 1
        folds.clear()
        with _endless(_writer(store)):
            read(reads, "within")
        within = len(folds) - 1
    for what, table in (("page", f"newest {PAGE} messages"), ("head", "head of a session")):
        rows = {title: samples[f"{name}.{what}"] for name, title in SIDES.items()}
        add_rows(setting.notes, f"{table}, while something is written", rows)
    return {
        **beside("folding.page", samples["apart.page"], samples["idle.page"]),
        **beside("folding.page.within", samples["within.page"], samples["idle.page"]),
        **beside("folding.page.sqlite", samples["apart.page"], samples["apart.sqlite.page"]),
        **beside("folding.head", samples["apart.head"], samples["idle.head"]),
        **beside("folding.head.within", samples["within.head"], samples["idle.head"]),
        **beside("folding.head.sqlite", samples["apart.head"], samples["apart.sqlite.head"]),
        "folding.folds": Measurement(apart, 2 * count),
        "folding.folds.within": Measurement(within, 2 * count),
    }


IDLE = "nothing is written"
BUSY = "SQLite FULL, a process writing as large rows"

CASES = (
    Case(
        "folding",
        (
            *figures_of("folding.page", f"newest {PAGE} messages, another process folding", IDLE),
            *figures_of("folding.page.within", f"newest {PAGE} messages, a thread beside it folding", IDLE),
            *figures_of("folding.page.sqlite", f"newest {PAGE} messages, another process folding", BUSY),
            *figures_of("folding.head", "head of a session, another process folding", IDLE),
            *figures_of("folding.head.within", "head of a session, a thread beside it folding", IDLE),
            *figures_of("folding.head.sqlite", "head of a session, another process folding", f"newest id, {BUSY}"),
            Figure("folding.folds", "folds during these reads, another process folding", "folds", "reads"),
            Figure("folding.folds.within", "folds during these reads, a thread beside it folding", "folds", "reads"),
        ),
        _reading,
    ),
)
