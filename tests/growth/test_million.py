"""A million messages in one session cost what an eighth of them does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import process_time

import pytest

import eventlog
from projections.transcript.transcript import Transcript
from projections.view.model_view import LiveView, ModelView
from tests.eventlog.session.test_rollback_and_fork_growth import talk
from tests.faults.tally import SLOW

SMALL, LARGE = 125_000, 1_000_000
"""Messages of the two sessions."""
BOUND = 2.0
"""Ratio of the processor times; an operation that grows with the history has 8."""
ROUNDS = 7


def built(path: Path, messages: int) -> None:
    """Make a store with one session, compacted at its end."""
    with eventlog.open(path) as store:
        session = store.create_session(id="s")
        talk(session, messages)
        with session.lease():
            part = session.context.request_compaction()
            session.context.start_compaction(part)
            with session.assistant(summary=True) as reply:
                reply.add_text("a summary")
                reply.finish()
            session.context.complete_compaction(part, reply.id)
        live = LiveView(session)
        live.advance()
        live.save()
        Transcript(session).page(20)


def opened(path: Path, work: Callable[[eventlog.Session], object]) -> float:
    """Return the processor time of some work on the session of a store just opened."""
    begin = process_time()
    with eventlog.open(path) as store:
        work(store.session("s"))
    return process_time() - begin


OPERATIONS: dict[str, Callable[[eventlog.Session], object]] = {
    "append": lambda session: session.user("Go on"),
    "page": lambda session: Transcript(session).page(20),
    "view": lambda session: len(ModelView.of(session).messages),
    "fork at the end": lambda session: session.fork().user("Go on"),
    "fork in the middle": lambda session: session.fork(session.version // 2).user("Go on"),
}


@pytest.mark.timeout(1800)
@pytest.mark.skipif(not SLOW, reason="the long form, with EVERDELTA_SLOW=1")
@pytest.mark.promise(8)
def test_a_million_messages_cost_what_an_eighth_does(tmp_path: Path) -> None:
    """Promise 8: open, append, page, view and fork are flat up to a million messages."""
    paths = {messages: tmp_path / str(messages) for messages in (SMALL, LARGE)}
    for messages, path in paths.items():
        built(path, messages)
    ratios: dict[str, float] = {}
    for name, work in OPERATIONS.items():
        times = {messages: list[float]() for messages in paths}
        for _ in range(ROUNDS):
            for messages, path in paths.items():
                times[messages].append(opened(path, work))
        ratios[name] = median(times[LARGE]) / median(times[SMALL])
    print({name: round(ratio, 2) for name, ratio in ratios.items()})
    assert {name: ratio for name, ratio in ratios.items() if ratio > BOUND} == {}
