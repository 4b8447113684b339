"""The cost of a loop's step and of a report as a session grows, in processor time."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

import pytest

import eventlog
from eventlog.session.session import Session
from eventlog.values import Limits, Tokens, Usage
from projections.loop import CallModel, ContextWindow, RunTools, window_report
from projections.window import ContextPolicy, PrunePolicy
from projections.window.prune.planner import PLANNERS
from tests.faults.tally import SLOW
from tests.support.window_loop import MODEL

ROOMY = Limits(context=10_000_000, output=8_000)
"""So that nothing is compacted."""


def processor_time(work: Callable[[], object], runs: int = 3) -> float:
    """Seconds of processor time that some work takes, the least of several runs."""
    best = float("inf")
    for _ in range(runs):
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    return best


def grown(session: Session, messages: int) -> Session:
    """A session with so many short messages in turns of two, calls in every other answer."""
    for number in range(messages // 2):
        with session.pipeline():
            session.user(f"question {number}")
            with session.assistant(MODEL) as reply:
                reply.add_text(f"answer {number}")
                if number % 2 == 0:
                    reply.tool("read", call_id="c", input=f'{{"path": "{number}"}}').succeed("some output " * 20)
                reply.finish()
    return session


def reported(session: Session) -> None:
    """Report on a window opened for it."""
    window_report(ContextWindow(session, environment={}))


def test_a_report_of_eight_times_the_messages_costs_eight_times_as_much() -> None:
    """`eventlog window` is linear: 8,000 messages cost at most 16 times what 1,000 do."""
    with eventlog.open("memory:") as store:
        small, large = (grown(store.create_session(), messages) for messages in (1_000, 8_000))
        costs = [processor_time(partial(reported, session), runs) for session, runs in ((small, 5), (large, 2))]
    assert costs[1] < 16 * costs[0]


class Costs:
    """A loop in a session that grows turn by turn, and its window's own processor time."""

    def __init__(self, window: ContextWindow, *, one_turn: bool) -> None:
        self._window = window
        self._one_turn = one_turn
        self._turns = 0

    def grow(self, turns: int) -> None:
        """Go on until there are so many turns (or steps of one turn), each with a call."""
        while self._turns < turns:
            self.turn()

    def turn(self) -> float:
        """Go on by one turn (or step of one turn), and return the window's processor time in it."""
        self._turns += 1
        return self._turn(self._turns - 1)

    def _turn(self, number: int) -> float:
        window = self._window
        if number == 0 or not self._one_turn:
            window.session.user(f"question {number}")
        spent = 0.0
        for answers in range(1 if self._one_turn else 2):
            spent += self._answer(number, calls=self._one_turn or not answers)
        return spent

    def _answer(self, number: int, *, calls: bool) -> float:
        window = self._window
        began = time.process_time()
        step = window.next_step()
        while not isinstance(step, CallModel):  # a prune is not of this step's cost
            window.perform(step)
            began = time.process_time()
            step = window.next_step()
        reply, request = window.begin(step)
        spent = time.process_time() - began
        reply.add_text(f"answer {number} " + "word " * 20)
        if calls:
            reply.tool("read", call_id="c").stream_input(f'{{"path": "{number}"}}')
        reply.end_step(
            "tool-calls" if calls else "stop", usage=Usage(Tokens(request.counted + request.counted // 9, 20))
        )
        if not calls:
            reply.finish("stop")
            return spent
        began = time.process_time()
        step = window.next_step()
        assert isinstance(step, RunTools)
        window.run(step.calls[0], lambda _: f"result {number} " * 60)
        window.finish()
        return spent + time.process_time() - began


@pytest.mark.parametrize("one_turn", [False, True])
@pytest.mark.parametrize("planner", sorted(PLANNERS))
def test_a_step_costs_what_is_new(planner: str, *, one_turn: bool) -> None:
    """Below the trigger of a prune a step costs at 800 turns what it costs at 100."""
    policy = ContextPolicy(prune=PrunePolicy(policy=planner))
    with eventlog.open("memory:") as store, ExitStack() as stack:

        def costs() -> Costs:
            window = ContextWindow(store.create_session(), policy, model=MODEL, limits=ROOMY, environment={})
            return Costs(stack.enter_context(window), one_turn=one_turn)

        long = costs()
        for turns in (800, 1_600) if SLOW else (800,):
            short = costs()
            short.grow(95)
            long.grow(turns - 5)
            early: list[float] = []
            late: list[float] = []
            for _ in range(10):
                early.append(short.turn())
                late.append(long.turn())
            assert min(late) < 2 * min(early)
