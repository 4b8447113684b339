"""Two processes that say something durable in turn, in a session each and in one."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import eventlog
from benchmarks.children import Worker
from benchmarks.figures import Case, Measured, Setting
from benchmarks.history import small_turns
from benchmarks.scenarios.engine_sessions import begun_session
from benchmarks.scenarios.spread import Taken, figures_of, measured, spreads, taken
from benchmarks.scenarios.sqlite_sessions import SqliteSessions

__all__ = ["CASES", "says", "says_in_sqlite"]

TEXT = "Go on, and say what you have found so far in one sentence."
HISTORY = 10
"""Turns of each session before."""
WARM_UP = 5


@contextmanager
def says(path: str, session: str) -> Generator[Callable[[object], Taken]]:
    """In a worker: a durable user message for each question."""
    with eventlog.open(path) as store:
        handle = store.session(session)
        yield lambda _: taken(lambda: handle.user(TEXT))


@contextmanager
def says_in_sqlite(path: str, session: str) -> Generator[Callable[[object], Taken]]:
    """In a worker: a durable row for each question."""
    with SqliteSessions(Path(path)) as sqlite:
        yield lambda _: taken(lambda: sqlite.user(session, TEXT))


def _in_turn(workers: Sequence[Worker]) -> Callable[[], list[list[float]]]:
    return lambda: [worker.ask() for worker in workers]


def _alternating(setting: Setting) -> dict[str, Measured]:
    places = {name: setting.directory / name for name in ("own", "one", "alone", "sqlite")}
    sessions: dict[str, list[str]] = {}
    for name in ("own", "one", "alone"):
        with eventlog.open(places[name]) as store:
            sessions[name] = [begun_session(store, small_turns(HISTORY)).id for _ in range(2)]
    with SqliteSessions(places["sqlite"]) as sqlite, ExitStack() as stack:  # while it is open, the WAL stays
        sqlite.season()
        for name in "12":
            sqlite.turns(name, small_turns(HISTORY))

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
        found = spreads(sides, setting.sizes.turns, warm_up=WARM_UP)
    return {
        **measured("two.own", found["own"], found["sqlite"]),
        **measured("two.one", found["one"], found["sqlite"]),
        **measured("two.alone", found["own"], found["alone"]),
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
