"""Target 5: the view after a compaction, opened cold in histories of every length."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import eventlog
from benchmarks.engine import take_turn
from benchmarks.figures import Case, Figure, Measurement, Setting, Target
from benchmarks.history import EVENTS_A_TURN, begun, compacted, small_turns
from benchmarks.measure import Samples, in_turn
from benchmarks.workloads import turns
from projections.view.model_view import LiveView, ModelView

__all__ = ["CASES", "cold_view", "compact_and_go_on"]

TAIL = 4
"""Turns after the compaction: the view holds them and the summary."""


def compact_and_go_on(session: eventlog.Session) -> None:
    """Compact a session, store the view's checkpoint as a window does, and take some turns."""
    compacted(session)
    live = LiveView(session)
    live.advance()
    live.save()
    with session.lease():
        for turn in turns(TAIL, seed=7):
            take_turn(session, turn)


def cold_view(path: Path) -> tuple[float, float]:
    """Return the seconds for session and view in a store just opened, and with opening it."""
    start = perf_counter()
    with eventlog.open(path) as store:
        name = next(iter(store.sessions())).id
        opened = perf_counter()
        view = ModelView.of(store.session(name))
        shown = len([*view.messages])
        end = perf_counter()
    assert shown == 2 + TAIL * 3, f"a view of {shown} messages"
    return end - opened, end - start


def _by_events(setting: Setting) -> dict[str, Measurement]:
    whole: dict[int, Samples] = {length: Samples() for length in setting.sizes.events}

    def side(length: int) -> Callable[[], list[float]]:
        path = setting.directory / f"compacted-{length}"
        with eventlog.open(path) as store:
            compact_and_go_on(store.session(begun(store, small_turns(length // EVENTS_A_TURN))))

        def cold() -> list[float]:
            view, everything = cold_view(path)
            whole[length].add([everything])
            return [view]

        return cold

    sides = {str(length): side(length) for length in setting.sizes.events}
    samples = in_turn(sides, setting.sizes.rounds * 4, warm_up=2)
    setting.notes.curve("open", "session and view", {int(name): it.median * 1e3 for name, it in samples.items()})
    setting.notes.curve("open", "with opening the store", {length: it.median * 1e3 for length, it in whole.items()})
    short, long = (samples[str(setting.sizes.events[place])].median * 1e3 for place in (0, -1))
    return {"target.5.flat": Measurement(long, short)}


CASES = (
    Case(
        "target.5.flat",
        (
            Figure(
                "target.5.flat",
                "cold view after a compaction, longest history (1,000,000 events with --full)",
                "ms",
                "at 1,000 events",
                Target("<=", 1.15),
            ),
        ),
        _by_events,
    ),
)
