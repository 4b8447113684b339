"""Commands in a new process on a session of two lengths, and the bytes of its checkpoints.

The session was never compacted. Its history is appended as an import does it, so that checkpoints
are stored on the way.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import eventlog
from benchmarks.children import child
from benchmarks.figures import Case, Figure, Measurement, Setting, Target
from benchmarks.history import BEGAN, EVENTS_A_TURN, TURN_TAKES, items_of, small_turns
from benchmarks.measure import disk_bytes, in_turn
from eventlog import events as ev
from eventlog.codec.deltas import DeltaRun
from eventlog.history.checkpoint_store import PREFIX

__all__ = ["CASES"]

TIMES = 8
"""Events of the long history for each of the short one."""
TURNS_AN_APPEND = 20
_OPENED = """
import sys
from time import perf_counter
import eventlog, zstandard
store = eventlog.open(sys.argv[1])
session = store.session(sys.argv[2])
middle = session.version // 2
start = perf_counter()
"""
_TOLD = """
end = perf_counter()
store.close()
print([end - start])
"""
STEPS = {
    "append": ("first durable user message", "session.user('Go on')", 1.3),
    "state": ("command state", "session.reader.state()", 1.3),
    "fork": ("fork at the end", "session.fork()", 1.5),
    "branch": ("fork in the middle", "session.fork(middle)", 1.5),
    "branch.append": ("first durable message of a fork in the middle", "session.user('Go on')", 1.5),
    "rollback": ("rollback to the middle", "session.rollback(middle)", 1.5),
}
"""A step's title, its code, and its target."""


def _written(path: Path, turns: int) -> str:
    """Make a store with one session of so many turns; return the session's id."""
    with eventlog.open(path) as store:
        session = store.create_session()
        made: list[tuple[int, ev.Event]] = []
        for number, turn in enumerate(small_turns(turns)):
            bodies: dict[bytes, bytes] = {}
            for item in items_of(number, turn, BEGAN + number * TURN_TAKES, bodies, each_delta=True):
                assert not isinstance(item, DeltaRun)
                made.append(item)
            if number % TURNS_AN_APPEND == TURNS_AN_APPEND - 1:
                session.append(made)
                made = []
        session.append(made or [(BEGAN, ev.Custom("end", "{}"))])
        return session.id


def _share_of_checkpoints(path: Path) -> Measurement:
    """Return the bytes of all checkpoints, and those of the store."""
    with eventlog.open(path, read_only=True) as store:
        stored = sum(len(key) + len(value) for key, value in store.log.scan_derived(PREFIX))
    return Measurement(stored / 1e6, disk_bytes(path) / 1e6)


def _steps(setting: Setting) -> dict[str, Measurement]:
    long = setting.sizes.events[-1] // EVENTS_A_TURN
    lengths = {"short": long // TIMES, "long": long}
    sides: dict[str, Callable[[], list[float]]] = {}
    checkpoints = Measurement(0.0)
    for length, turns in lengths.items():
        path = setting.directory / f"history-{length}"
        session = _written(path, turns)
        checkpoints = _share_of_checkpoints(path)  # at last those of the long one
        for step in STEPS:
            sides[f"{step} {length}"] = _side(step, path, session)
    samples = in_turn(sides, setting.sizes.rounds * 3)
    measured = {
        f"history.{step}": Measurement(*(samples[f"{step} {length}"].median * 1e3 for length in ("long", "short")))
        for step in STEPS
    }
    return measured | {"history.checkpoints": checkpoints}


def _side(step: str, path: Path, session: str) -> Callable[[], list[float]]:
    code = _OPENED + STEPS[step][1] + _TOLD

    def side() -> list[float]:
        name = session
        if step == "branch.append":
            with eventlog.open(path) as store:
                parent = store.session(session)
                name = parent.fork(parent.version // 2).id
        return child(code, str(path), name)  # type: ignore[no-any-return]  # as the snippet prints it

    return side


CASES = (
    Case(
        "history",
        (
            *(
                Figure(
                    f"history.{step}",
                    f"{title} in a fresh process, longest history (1,000,000 events with --full)",
                    "ms",
                    "with an eighth of the history",
                    Target("<=", bound),
                )
                for step, (title, _, bound) in STEPS.items()
            ),
            Figure(
                "history.checkpoints",
                "checkpoints of a session that was never compacted",
                "MB",
                "the whole store",
                Target("<=", 0.1),
            ),
        ),
        _steps,
    ),
)
