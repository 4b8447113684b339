"""The loop ends where calls wait for a person, and goes on with the answer in any process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import Any

import pytest

from eventlog import Allow, Deny, Edit, RefusedError, Session, Store, events
from eventlog.values import WAITING
from projections import (
    Ask,
    AsyncContextWindow,
    CallModel,
    ContextWindow,
    ModelView,
    RunSubtask,
    RunTools,
    Stop,
    Transcript,
)
from projections.loop import PendingCall, Step, task_tool
from projections.view.neutral import Call, NeutralMessage, Result
from projections.view.options import preset
from tests.support.engines import ENCRYPTED, ENGINES, Engine, places

engine = places(*ENGINES, ENCRYPTED)

MODEL = "openai/gpt-5"
DROP = [{"name": "drop", "input_schema": {"type": "object"}}]
RISKY = ("drop",)


def results_in(messages: Iterable[NeutralMessage]) -> list[str]:
    """The results of a request."""
    return [part.output for each in messages for part in each.parts if isinstance(part, Result)]


class Agent:
    """A loop as the page has it, with a model that calls tools once and then answers."""

    def __init__(
        self, calls: tuple[tuple[str, dict[str, Any]], ...], tools: list[dict[str, Any]] | None = None
    ) -> None:
        self.calls = calls
        self.tools = tools
        self.ran: list[tuple[str, dict[str, Any]]] = []
        self.steps: list[str] = []
        self.results: list[list[str]] = []
        self.child: Agent | None = None

    def tool(self, name: str, arguments: dict[str, Any]) -> str:
        """A tool; keeps what it did."""
        self.ran.append((name, arguments))
        return f"{name} done"

    def run(self, session: Session) -> Step:
        """Run the loop until its end; returns the step that ended it."""
        with ContextWindow(session, model=MODEL, tools=self.tools) as window:
            while step := window.next_step():
                self.steps.append(type(step).__name__)
                match step:
                    case CallModel():
                        reply, request = window.begin(step)
                        results = results_in(request.messages)
                        self.results.append(results)
                        if len(results) >= len(self.calls):
                            reply.add_text("all done")
                            reply.finish()
                        else:
                            for number, (tool, arguments) in enumerate(self.calls):
                                call = reply.tool(tool, call_id=f"c{number}", metadata='{"fc":"id"}')
                                call.stream_input(json.dumps(arguments))
                            reply.end_step("tool-calls")
                    case RunTools():
                        for pending in step.calls:
                            self._call(window, pending)
                        window.finish()
                    case RunSubtask():
                        window.run_subtask(step, self._work)
                    case _:
                        window.perform(step)
        return step

    def _call(self, window: ContextWindow, call: PendingCall) -> None:
        if call.tool == "task":
            window.run_task(call, self._work)
        elif call.tool in RISKY and not call.allowed:
            reply = window.state.open_reply
            assert reply is not None
            reply.call(call.part).ask(f"{call.tool} cannot be undone")
        else:
            window.run(call, lambda arguments: self.tool(call.tool, arguments))

    def _work(self, child: Session) -> None:
        assert self.child is not None
        self.child.run(child)

    def turn(self, session: Session, text: str = "drop it", request: str = "r1") -> str:
        """Ask, and run the loop if it is this task's; returns the state of the turn."""
        with session.turn(text, request) as turn:
            if turn.mine:
                self.run(session)
        return turn.state


CALLS: tuple[tuple[str, dict[str, Any]], ...] = (("drop", {"name": "old"}), ("list", {}))


def outputs(session: Session, **options: Any) -> list[str]:
    """The results that a view shows."""
    return results_in(ModelView.of(session, **options).messages)


def test_the_loop_ends_at_a_call_that_waits_and_goes_on_once_allowed(engine: Engine) -> None:
    """Calls not asked run first; then the loop ends with `Ask`, until a person answers."""
    agent = Agent(CALLS)
    with engine.open() as store:
        session = store.create_session(id="s")
        assert agent.turn(session) == "asked"
        assert agent.ran == [("list", {})]
        assert agent.steps == ["CallModel", "RunTools"]
        assert outputs(session) == [WAITING, "list done"]
        assert outputs(session, options=preset("opencode-1.18")) == [WAITING, "list done"]
    with engine.open() as store:
        session = store.session("s")
        assert agent.turn(session) == "asked"
        step = agent.run(session)
        assert isinstance(step, Ask)
        assert not step
        assert "drop" in step.sentence
        assert list(step.calls) == session.asked_calls()
        session.answer_call(step.calls[0].message, step.calls[0].call, Allow(), by="ann")
        assert agent.turn(session) == "done"
        assert agent.ran == [("list", {}), ("drop", {"name": "old"})]
        assert agent.results[-1] == ["drop done", "list done"]
        assert agent.turn(session) == "done"
        assert len(agent.ran) == 2


def test_a_denied_call_tells_the_model_why(engine: Engine) -> None:
    """A denial is the call's result; the model goes on with the person's reason."""
    agent = Agent(CALLS)
    with engine.open() as store:
        session = store.create_session()
        agent.turn(session)
        (asked,) = session.asked_calls()
        session.answer_call(asked.message, asked.call, Deny("not on a Friday"))
        assert agent.turn(session) == "done"
        assert agent.results[-1] == ["[Denied] not on a Friday", "list done"]
        assert agent.ran == [("list", {})]


def test_an_edit_runs_and_is_shown(engine: Engine) -> None:
    """Edited arguments run, the view shows them, and ids of the provider that hang on them go."""
    agent = Agent(CALLS)
    with engine.open() as store:
        session = store.create_session()
        agent.turn(session)
        (asked,) = session.asked_calls()
        session.answer_call(asked.message, asked.call, Edit({"name": "copy"}))
        assert agent.turn(session) == "done"
        assert agent.ran[-1] == ("drop", {"name": "copy"})
        said = [part for each in ModelView.of(session).messages for part in each.parts if isinstance(part, Call)]
        assert [(part.input, part.metadata) for part in said] == [('{"name":"copy"}', None), ("{}", '{"fc":"id"}')]


def test_a_deploy_with_another_schema_asks_again(engine: Engine) -> None:
    """An allowed call whose tool has another schema by then is asked again."""
    agent = Agent(CALLS, DROP)
    with engine.open() as store:
        session = store.create_session()
        agent.turn(session)
        for changed in (True, False):
            (asked,) = session.asked_calls()
            session.answer_call(asked.message, asked.call, Allow())
            agent.tools = [{"name": "drop", "input_schema": {"type": "object", "required": ["name"]}}]
            assert agent.turn(session) == ("asked" if changed else "done")
        assert agent.ran == [("list", {}), ("drop", {"name": "old"})]


def test_a_new_question_waits_with_the_call(engine: Engine) -> None:
    """No model is called while a call waits: a later question is `asked`, too."""
    agent = Agent(CALLS)
    with engine.open() as store:
        session = store.create_session()
        agent.turn(session)
        assert agent.turn(session, "and now?", "r2") == "asked"
        assert store.unfinished() == []
        (asked,) = session.asked_calls()
        session.answer_call(asked.message, asked.call, Allow())
        assert [found.id for found in store.unfinished()] == [session.id]
        assert agent.turn(session, "and now?", "r2") == "done"
        assert store.unfinished() == []


def test_an_interrupt_ends_the_wait(engine: Engine) -> None:
    """`interrupt()` denies what waits, stops its turn, and the next question is answered."""
    agent = Agent(CALLS)
    with engine.open() as store:
        session = store.create_session()
        agent.turn(session)
        session.interrupt()
        assert agent.turn(session) == "stopped"
        assert isinstance(agent.run(session), Stop)
        assert agent.turn(session, "something else", "r2") == "done"
        assert agent.ran == [("list", {})]


def test_a_call_that_waits_is_neither_covered_nor_pruned(engine: Engine) -> None:
    """A compaction by hand covers nothing from the message on, and a prune leaves its calls."""
    with engine.open() as store:
        session = store.create_session()
        for number in range(6):
            session.user(f"question {number} " * 50)
            with session.assistant(MODEL) as reply:
                reply.add_text("answer " * 200)
                reply.finish()
        agent = Agent(CALLS)
        agent.turn(session)
        (asked,) = session.asked_calls()
        for number in range(4):
            session.user(f"later {number}")
        with ContextWindow(session, model=MODEL) as window:
            assert window.compact().completed
            window.prune()
        assert [each.message for each in session.asked_calls()] == [asked.message]
        texts = "".join(str(message.parts) for message in ModelView.of(session).messages)
        assert all(f"later {number}" in texts for number in range(4))
        assert len(ModelView.of(session).messages) < 14
        assert WAITING in outputs(session)
        session.answer_call(asked.message, asked.call, Allow())
        assert agent.turn(session) == "done"


def test_what_waits_is_shown_as_such(engine: Engine) -> None:
    """The transcript and `explain` say that a call waits for a person."""
    agent = Agent(CALLS)
    with engine.open() as store:
        session = store.create_session()
        agent.turn(session)
        (asked,) = session.asked_calls()
        found = ModelView.of(session).explain(asked.part)
        assert (found.reason, found.shown) == ("asked", True)
        parts = {part.id: part for message in Transcript(session).oldest_first() for part in message.parts}
        assert (parts[asked.part].status, parts[asked.part].open) == ("asked", True)
        session.answer_call(asked.message, asked.call, Allow())
        parts = {part.id: part for message in Transcript(session).oldest_first() for part in message.parts}
        assert parts[asked.part].status == "allowed"


TASK = (("task", {"description": "drop", "prompt": "drop it", "subagent_type": "general"}),)


def _family(store: Store) -> tuple[Session, Agent]:
    parent = Agent(TASK)
    parent.child = Agent(CALLS)
    return store.create_session(id="parent"), parent


@pytest.mark.parametrize("answer", [Allow(), Deny("no"), Edit({"name": "x"})], ids=str)
def test_a_task_waits_with_its_sub_session(engine: Engine, answer: Any) -> None:
    """A `task` call waits while calls of its sub-session do, and goes on with their answers."""
    with engine.open() as store:
        session, agent = _family(store)
        child = agent.child
        assert child is not None
        assert agent.turn(session) == "asked"
        (task,) = session.asked_calls()
        assert task.tool == "task"
        assert task.session is not None
        assert task.reason == "drop: drop cannot be undone"
        assert outputs(session) == [WAITING]
        assert store.unfinished() == []
        below = store.session(task.session)
        (asked,) = below.asked_calls()
        below.answer_call(asked.message, asked.call, answer, by="ann")
        assert {found.id for found in store.unfinished()} == {"parent", task.session}
        assert agent.turn(session) == "done"
        assert len(child.ran) == (1 if isinstance(answer, Deny) else 2)
        assert "all done" in agent.results[-1][0]
        assert store.unfinished() == []


def test_a_task_goes_on_whatever_became_of_its_schema(engine: Engine) -> None:
    """A `task` that waited for its sub-session is not asked again under another schema."""
    with engine.open() as store:
        session, agent = _family(store)
        agent.tools = [task_tool("chat")]
        assert agent.turn(session) == "asked"
        (task,) = session.asked_calls()
        assert task.session is not None
        below = store.session(task.session)
        (asked,) = below.asked_calls()
        below.answer_call(asked.message, asked.call, Allow(), by="ann")
        agent.tools = [task_tool("anthropic", {"general": "Does it.", "tester": "Tests it."})]
        assert agent.turn(session) == "done"
        assert session.asked_calls() == []


def test_a_denied_task_stops_its_sub_session(engine: Engine) -> None:
    """A denial of the `task` call denies what its sub-session waits for; so does a stop."""
    with engine.open() as store:
        for stops in (False, True):
            session = store.create_session()
            agent = Agent(TASK)
            agent.child = Agent(CALLS)
            agent.turn(session)
            (task,) = session.asked_calls()
            with pytest.raises(RefusedError, match="sub-session has begun"):
                session.answer_call(task.message, task.call, Edit({}))
            if stops:
                session.interrupt()
            else:
                session.answer_call(task.message, task.call, Deny("no more of this"))
            assert task.session is not None
            assert store.session(task.session).asked_calls() == []
            assert agent.turn(session) == ("stopped" if stops else "done")
            assert ("drop", {"name": "old"}) not in agent.child.ran


def test_a_task_that_was_answered_too_early_is_not_stuck(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer in the sub-session before the parent waits lets the parent go on."""
    with engine.open() as store:
        session, agent = _family(store)
        child = agent.child
        assert child is not None
        run = child.run

        def answered(below: Session) -> Step:
            step = run(below)
            for asked in below.asked_calls():
                below.answer_call(asked.message, asked.call, Allow())
            return step

        monkeypatch.setattr(child, "run", answered)
        agent.turn(session)
        assert agent.turn(session) == "done"
        assert child.ran == [("list", {}), ("drop", {"name": "old"})]


def test_an_async_loop_runs_what_was_allowed(engine: Engine) -> None:
    """The asyncio window runs an allowed call, and its tool once."""
    agent = Agent(CALLS)
    ran: list[dict[str, Any]] = []

    async def tool(arguments: dict[str, Any]) -> str:
        ran.append(arguments)
        return "done"

    async def program(session: Session) -> Step:
        async with AsyncContextWindow(ContextWindow(session, model=MODEL)) as window:
            while step := await window.next_step():
                match step:
                    case RunTools():
                        for call in step.calls:
                            await window.run(call, tool)
                        await window.finish()
                    case _:
                        return step
        return step

    with engine.open() as store:
        session = store.create_session()
        agent.turn(session)
        assert isinstance(asyncio.run(program(session)), Ask)
        (asked,) = session.asked_calls()
        session.answer_call(asked.message, asked.call, Allow())
        assert isinstance(asyncio.run(program(session)), CallModel)
        assert ran == [{"name": "old"}]
        assert sum(isinstance(each.event, events.ToolCompleted) for each in session.events()) == 2
