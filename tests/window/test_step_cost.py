"""What a step of the loop and a report cost as a session grows (processor time at two sizes, in one run)."""

from __future__ import annotations

import time
from collections.abc import Callable

import eventlog
from eventlog.session import Session
from projections.window import ContextWindow, window_report
from tests.window.looping import MODEL


def processor_time(work: Callable[[], object], runs: int = 3) -> float:
    """Seconds of processor time that some work takes, the least of several runs."""
    best = float("inf")
    for _ in range(runs):
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    return best


def grown(session: Session, messages: int) -> Session:
    """The session with so many short messages in turns of two, every other answer with a call."""
    for number in range(messages // 2):
        with session.pipeline():
            session.user(f"question {number}")
            with session.assistant(MODEL) as reply:
                reply.say(f"answer {number}")
                if number % 2 == 0:
                    reply.tool("read", call_id="c", input=f'{{"path": "{number}"}}').succeed("some output " * 20)
                reply.finish()
    return session


def test_a_report_of_eight_times_the_messages_costs_eight_times_as_much() -> None:
    """`eventlog window` is linear in the messages of the view: 8,000 cost at most 16 times what 1,000 do."""
    with eventlog.open("memory:") as store:
        small, large = (grown(store.create_session(), messages) for messages in (1_000, 8_000))
        costs = [
            processor_time(lambda session=session: window_report(ContextWindow(session, environment={})), runs)
            for session, runs in ((small, 5), (large, 2))
        ]
    assert costs[1] < 16 * costs[0]
