"""No state of window, summariser and policy ends a conversation."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as profile
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

import eventlog
from eventlog.session.session import Session
from eventlog.values import Limits, MessageError, Tokens, Usage
from projections.loop import Blocked, CallModel, ContextWindow, RequestCompaction, RunTools, Step, Stop
from projections.window import (
    CompactionPolicy,
    ContextPolicy,
    LoopPolicy,
    OverflowPolicy,
    PrunePolicy,
    SummaryRequest,
    ToolCalled,
    summarize_offline,
)
from projections.window.policy.policy import OPENCODE_POLICY
from tests.support.engines import Engine
from tests.support.python_process import printed
from tests.support.window_loop import LIMITS, MODEL, SMALL, Loop, Reply, summarized, talk, texts

MOST_STEPS = 120
"""Steps of one turn: a loop that takes more has no end."""


def silent(_request: SummaryRequest) -> str:
    """Say nothing."""
    return ""


def short(_request: SummaryRequest) -> str:
    """Say one word."""
    return "noted"


def cut(_request: SummaryRequest) -> Iterator[str]:
    """Break off."""
    yield "## Goal"
    raise ConnectionError("reset")


def calling(_request: SummaryRequest) -> list[Any]:
    """Call a tool."""
    return ["## Goal", ToolCalled("bash")]


def refusing(_request: SummaryRequest) -> str:
    """Refuse."""
    raise eventlog.SummarizerRefusedError("no")


def endless(_request: SummaryRequest) -> str:
    """Write more than was said."""
    return "## Goal\n" + "word " * 9_000


SUMMARISERS: list[Callable[[SummaryRequest], Any]] = [
    summarize_offline,
    silent,
    short,
    cut,
    calling,
    refusing,
    endless,
]
WINDOWS = [
    Limits(9_000, 1_000),
    Limits(16_000, 4_000),
    Limits(12_000, 2_000, 10_000),
    Limits(12_000, 12_000),
    Limits(30_000, 2_000),
]
POLICIES = st.just(OPENCODE_POLICY) | st.builds(
    ContextPolicy,
    overflow=st.builds(
        OverflowPolicy,
        auto=st.sampled_from([True, True, True, False]),
        max_messages=st.sampled_from([None, None, None, 1, 2, 4, 9]),
        count_next=st.sampled_from(["always", "always", "before-usage", "never"]),
        reserved=st.sampled_from([None, None, 9_999]),
    ),
    compaction=st.builds(
        CompactionPolicy,
        tail_turns=st.sampled_from([2, 0, 1, None]),
        preserve_recent_tokens=st.sampled_from([None, None, 0, 600, 50_000]),
        tail_when_all_fits=st.booleans(),
        max_failures=st.sampled_from([3, 3, 1, 0]),
        auto_continue=st.booleans(),
        replay=st.booleans(),
        require_sections=st.booleans(),
    ),
    loop=st.builds(LoopPolicy, max_steps=st.sampled_from([None, None, 2, 0])),
    prune=st.builds(PrunePolicy, enabled=st.booleans()),
)


class Conversations(RuleBasedStateMachine):
    """A user and a program whose provider refuses what is over its window, and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.engine = Engine("memory")
        self.store = self.engine.open()
        self.session: Session = self.store.create_session(id="s")
        self.forks = 0
        self.asked = 0

    @initialize(
        limits=st.sampled_from(WINDOWS),
        policy=POLICIES,
        summariser=st.sampled_from(SUMMARISERS),
        knows=st.sampled_from([True, True, True, False]),
    )
    def begin(
        self, limits: Limits, policy: ContextPolicy, summariser: Callable[[SummaryRequest], Any], *, knows: bool
    ) -> None:
        """Draw the window; the program may not know the model's limits."""
        self.limits, self.policy, self.summariser = limits, policy, summariser
        self.knows = knows or policy.compaction.max_failures == 0

    def teardown(self) -> None:
        """Close what is open."""
        self.engine.close()

    # -- the user ------------------------------------------------------------------------------

    @rule(
        words=st.sampled_from([3, 3, 40, 3_000, 6_500, 7_900, 9_000, 14_000]),
        said=st.sampled_from([2, 2, 300, 900]),
        outputs=st.lists(st.sampled_from([10, 900, 4_000]), max_size=4),
        usage=st.booleans(),
        pick=st.integers(0, 9),
    )
    def ask(self, words: int, said: int, outputs: list[int], pick: int, *, usage: bool) -> None:
        """Ask, paste, let tools run; where the loop ends without an answer, do as it says."""
        step = self.answered(words, said, outputs, usage=usage)
        if isinstance(step, Blocked) and step.reason == "max-steps":
            assert "a new question" in step.sentence
            step = self.answered(words, said, [], usage=usage)
        if step in {Stop("finished"), Stop("nothing-asked")}:  # the policy may keep a covered question from going on
            return
        assert isinstance(step, (Blocked, Stop)), step
        self.do(step, pick)
        step = self.answered(3, 2, [], usage=usage)
        assert step == Stop("finished"), step

    @rule()
    def fork(self) -> None:
        """Go on in a fork."""
        self.forks += 1
        self.session = self.session.fork(id=f"fork {self.forks}")

    @rule()
    def another_process(self) -> None:
        """Go on from what is stored alone."""
        name = self.session.id
        self.engine.close_stores()
        self.store = self.engine.open()
        self.session = self.store.session(name)

    @rule(pick=st.sampled_from(SUMMARISERS))
    def other_summariser(self, pick: Callable[[SummaryRequest], Any]) -> None:
        """The summariser changes, for better or worse."""
        self.summariser = pick

    # -- the program ---------------------------------------------------------------------------

    def window(self, **options: Any) -> ContextWindow:
        """The program's window."""
        limits = self.limits if self.knows else Limits()
        given: dict[str, Any] = {"policy": self.policy, "model": MODEL, "limits": limits, "environment": {}}
        given |= {"summarizer": self.summariser, **options}
        return ContextWindow(self.session, **given)

    def answered(self, words: int, said: int, outputs: list[int], *, usage: bool) -> Step:
        """Ask a question and run the loop; returns its last step."""
        self.asked += 1
        question = f"question {self.asked}: " + "word " * words
        self.session.user(question)
        left = [*outputs]
        with self.window() as window:
            for _ in range(MOST_STEPS):
                step = window.next_step()
                if isinstance(step, RunTools):
                    for call in step.calls:
                        window.run(call, lambda given: "word " * int(given["words"]))
                    window.finish()
                elif isinstance(step, CallModel):
                    reply, request = window.begin(step)
                    if request.counted >= self.limits.context:
                        reply.abort(MessageError("overflow", "prompt is too long"))
                        continue
                    calls = bool(left)
                    if calls:
                        reply.tool("look", call_id="c").stream_input(f'{{"words": {left.pop()}, "left": {len(left)}}}')
                    else:
                        reply.add_text("said " * said)
                    spent = Usage(Tokens(request.counted, said)) if usage else None
                    reply.end_step("tool-calls" if calls else "stop", usage=spent)
                    if not calls:
                        reply.finish("stop")
                        if question.split(":")[0] in "".join(texts(request.messages)):
                            self.seen = question
                elif step:
                    window.perform(step)
                else:
                    if step == Stop("finished") and words <= 40 and self.policy.compaction.keep_newest_user:
                        assert self.seen == question
                    return step
        raise AssertionError(f"no end after {MOST_STEPS} steps")

    def do(self, step: Blocked | Stop, pick: int) -> None:
        """Carry out one of the actions that a sentence names."""
        sentence = step.sentence
        if "ask it again, in fewer words" in sentence:
            return
        actions: list[Callable[[], object]] = []
        if "summarize_offline" in sentence:
            actions.append(lambda: self.window(summarizer=summarize_offline).compact())
        removals = re.findall(r"session\.remove_message\('(.*?)'\)", sentence)
        if removals:
            actions.append(lambda: self.remove(removals))
        back = re.search(r"session\.rollback\(before='(.*?)'\)", sentence)
        if back is not None:
            actions.append(lambda: self.session.rollback(before=back[1]))
        assert "a larger window" in sentence, step
        actions.append(self.enlarge)
        actions[pick % len(actions)]()

    def remove(self, messages: list[str]) -> None:
        """Take messages out."""
        for message in messages:
            self.session.remove_message(message)

    def enlarge(self) -> None:
        """Take a model with a larger window."""
        self.limits = Limits(4 * self.limits.context, 2_000)


def test_after_one_action_that_the_stop_names_the_next_question_is_answered() -> None:
    """No window, policy, summariser or paste ends a conversation."""
    settings = profile(
        max_examples=60,
        stateful_step_count=8,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )
    run_state_machine_as_test(Conversations, settings=settings)


@pytest.mark.parametrize("words", [7_000, 7_500, 7_900, 7_960])
def test_a_paste_that_fitted_is_no_end(store: eventlog.Store, words: int) -> None:
    """An answered paste ends its turn, and every later question is answered."""
    session = store.create_session()
    limits = Limits(10_000, 2_000)
    session.user("word " * words)
    loop = Loop(session, lambda request: Reply("said " * 600, tokens=request.counted + 600), {}, limits=limits)
    assert loop.run() == Stop("finished")
    for number in range(3):
        session.user(f"question {number}")
        assert loop.run() == Stop("finished")
        assert f"question {number}" in texts(loop.requests[-1].messages)
    assert loop.count(RequestCompaction) == 1


@pytest.mark.parametrize(
    "report",
    [Tokens(250_000, 10), Tokens(20, 10, cache_read=250_000), Tokens(20, 10, cache_write=4_700), Tokens(3_000)],
)
@pytest.mark.parametrize("before", [0, 1, 3])
@pytest.mark.parametrize("again", [False, True])
def test_one_report_that_is_not_of_its_request_blocks_nothing(report: Tokens, before: int, *, again: bool) -> None:
    """Reports over the window, or far over the count, are no size: questions are answered."""
    with (
        eventlog.open("memory:") as store,
        ContextWindow(store.create_session(), SMALL, model=MODEL, limits=LIMITS, environment={}) as window,
    ):
        for number in range(before + 4):
            window.session.user(f"question {number} " + "word " * (2_000 if number == before + 1 else 120))
            while step := window.next_step():
                if not isinstance(step, CallModel):
                    window.perform(step)
                    continue
                reply, request = window.begin(step)
                assert f"question {number} " in "\n".join(texts(request.messages, "user"))
                reply.add_text(f"answer {number}")
                sane = Tokens(request.counted + 10, 10) if number < before or again else None
                tokens = report if number == before else sane
                reply.finish(usage=None if tokens is None else Usage(tokens))
            assert step == Stop("finished")


@pytest.mark.parametrize("report", [40, 900, 1_500, None])
def test_a_provider_that_reports_too_little_fills_no_window(store: eventlog.Store, report: int | None) -> None:
    """Requests stay below the limit where usage lacks what was read from a cache."""
    session = store.create_session()
    loop = Loop(session, lambda request: Reply("said " * 90, tokens=report or request.counted // 5), {}, SMALL, LIMITS)
    for number in range(60):
        session.user(f"question {number} " + "word " * 120)
        assert loop.run() == Stop("finished")
        assert loop.requests[-1].counted < LIMITS.context
    assert loop.count(RequestCompaction) > 2


@pytest.mark.parametrize("act", ["ask", "model", "limits", "remove", "rollback"])
def test_the_user_begins_the_count_of_failures_again(store: eventlog.Store, act: str) -> None:
    """A message, another model, other limits, a removal, a rollback: compactions start again."""
    session = store.create_session()
    talk(session, 15)
    old = session.user("old")
    session.user("newest")
    loop = Loop(session, lambda _request: Reply("done"), {}, SMALL, LIMITS, {"summarizer": silent})
    for _ in range(2):
        step = loop.run()
        assert isinstance(step, Blocked)
        assert loop.count(RequestCompaction) == 3
    loop.options = {"summarizer": summarized}
    match act:
        case "ask":
            session.user("asked")
        case "model":
            session.set_settings(model=eventlog.Model("test", "other"))
        case "limits":
            loop.limits = Limits(5_100, 1_000)
        case "remove":
            session.remove_message(old)
        case _:
            session.rollback(before=old)
            session.user("instead")
    assert loop.run() == Stop("finished")
    assert loop.count(RequestCompaction) == 4


RESUMES = """
import sys
import eventlog
from projections import ContextWindow
with eventlog.open(sys.argv[1]) as store:
    with ContextWindow(store.session("s"), environment={}) as window:
        print(type(window.next_step()).__name__)
"""


def test_another_process_knows_how_often_a_compaction_failed(tmp_path: Path) -> None:
    """The count is in the log: a process that resumes a blocked turn asks no summariser."""
    with eventlog.open(tmp_path / "store") as store:
        session = store.create_session(id="s")
        talk(session, 15)
        session.user("newest")
        loop = Loop(session, lambda _request: Reply("never"), {}, SMALL, LIMITS, {"summarizer": silent})
        assert isinstance(loop.run(), Blocked)
    assert printed(RESUMES, tmp_path / "store").strip() == "Blocked"
