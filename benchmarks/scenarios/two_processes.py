"""Two processes that append durable messages in turn, to a session each and to one."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import eventlog
from benchmarks.children import Worker
from benchmarks.figures import Case, Measurement, Setting
from benchmarks.history import begun, small_turns
from benchmarks.measure import Timing, in_turn, spent
from benchmarks.scenarios.latency import add_rows, beside, figures_of
from benchmarks.scenarios.sqlite_sessions import SqliteSessions

__all__ = ["CASES", "says", "says_in_sqlite"]

TEXT = "Go on, and say what you have found so far in one sentence."
HISTORY = 10
"""Turns of each session beforehand."""
WARM_UP = 5
SIDES = {
    "own": "everdelta, a session each",
    "one": "everdelta, both in one session",
    "alone": "everdelta, one process alone",
    "sqlite": "SQLite FULL, one file",
}


@contextmanager
def says(path: str, session: str) -> Generator[Callable[[object], Timing]]:
    """In a worker: append a durable user message for each question."""
    with eventlog.open(path) as store:
        handle = store.session(session)
        yield lambda _: spent(lambda: handle.user(TEXT))


@contextmanager
def says_in_sqlite(path: str, session: str) -> Generator[Callable[[object], Timing]]:
    """In a worker: add a durable row for each question."""
    with SqliteSessions(Path(path)) as sqlite:
        yield lambda _: spent(lambda: sqlite.user(TEXT, session))


def _in_turn(workers: Sequence[Worker]) -> Callable[[], list[Timing]]:
    return lambda: [Timing(*worker.ask()) for worker in workers]


def _alternating(setting: Setting) -> dict[str, Measurement]:
    places = {name: setting.directory / name for name in ("own", "one", "alone", "sqlite")}
    sessions: dict[str, list[str]] = {}
    for name in ("own", "one", "alone"):
        with eventlog.open(places[name]) as store:
            sessions[name] = [begun(store, small_turns(HISTORY)) for _ in range(2)]
    with SqliteSessions(places["sqlite"]) as sqlite, ExitStack() as stack:  # while it is open, the WAL stays
        sqlite.fill()
        for name in "12":
            sqlite.turns(small_turns(HISTORY), name)

        def engine(name: str, *chosen: int) -> list[Worker]:
            workers = [Worker(says, str(places[name]), sessions[name][number]) for number in chosen]
            return [stack.enter_context(worker) for worker in workers]

        theirs = [stack.enter_context(Worker(says_in_sqlite, str(places["sqlite"]), name)) for name in "12"]
        [alone] = engine("alone", 0)
        sides = {
            "own": _in_turn(engine("own", 0, 1)),
            "one": _in_turn(engine("one", 0, 0)),
            "alone": _in_turn([alone, alone]),
            "sqlite": _in_turn(theirs),
        }
        samples = in_turn(sides, setting.sizes.turns, warm_up=WARM_UP)
    add_rows(
        setting.notes, "a user message, two processes in turn", {title: samples[name] for name, title in SIDES.items()}
    )
    return {
        **beside("two.own", samples["own"], samples["sqlite"]),
        **beside("two.one", samples["one"], samples["sqlite"]),
        **beside("two.alone", samples["own"], samples["alone"]),
    }


SQLITE_TWO = "two processes in one SQLite FULL"

CASES = (
    Case(
        "two",
        (
            *figures_of("two.own", "durable user message, two processes in turn, a session each", SQLITE_TWO),
            *figures_of("two.one", "durable user message, two processes in turn, both in one session", SQLITE_TWO),
            *figures_of(
                "two.alone", "durable user message, two processes in turn, a session each", "one process alone"
            ),
        ),
        _alternating,
    ),
)
