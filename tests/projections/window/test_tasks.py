"""A model's `task` calls: work in sub-sessions, stopped and resumed with their parent."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import eventlog
from eventlog import events as ev
from eventlog.errors import CallError, LeaseHeldError, RefusedError
from eventlog.session.outcome import outcome_of, pending_question
from eventlog.session.session import Session
from eventlog.store import Store
from eventlog.values import INTERRUPTED, Limits, PartKind, Subtask, Text, Tokens, Usage
from projections import ModelView, answer_text
from projections.loop import (
    AsyncContextWindow,
    Blocked,
    CallModel,
    ContextWindow,
    RunSubtask,
    RunTools,
    Stop,
    task_tool,
)
from projections.loop.context.running_task import RunningTask
from projections.loop.decision.steps import PendingCall
from projections.loop.task_calls import agents_in, task_answer
from projections.reports.usage import session_usage, total
from tests.support.engines import Engine
from tests.support.pages import ROOT
from tests.support.window_loop import MODEL, results, texts

Script = Callable[[Session, list[str], list[str]], str | list[dict[str, str]]]
"""A model: of session, questions and results it makes a text, or tasks."""
ANSWER = "3 of 80 tests fail"
WHY: dict[str, str | list[PartKind]] = {
    "call": "why?",
    "subtask": [Text("why?"), Subtask("count", "about count", "reader")],
}
"""Questions whose work is a call of the model, or one of the window."""
both = pytest.mark.parametrize("why", WHY)


def task(prompt: str, **more: str) -> dict[str, str]:
    """The arguments of a call."""
    return {"prompt": prompt, "description": f"about {prompt}", **more}


@dataclass
class Work:
    """A program's loop over a session and its tasks."""

    model: Script
    limits: Limits = field(default_factory=Limits)
    asked: list[str] = field(default_factory=list[str])
    """The session of each model call."""

    def __call__(self, session: Session) -> str:
        """Work until there is nothing to do; return the answer."""
        with ContextWindow(session, model=MODEL, limits=self.limits, environment={}) as window:
            while step := window.next_step():
                match step:
                    case CallModel():
                        self.call(window, step)
                    case RunTools():
                        for call in step.calls:
                            window.run_task(call, self.work)
                        window.finish()
                    case RunSubtask():
                        window.run_subtask(step, self.work)
                    case _:
                        window.perform(step)
            if step != Stop("finished"):
                assert isinstance(step, Stop | Blocked)
                raise RuntimeError(step.sentence)
            return newest_answer(session)

    def work(self, session: Session) -> str:
        """Work on a sub-session."""
        return self(session)

    def call(self, window: ContextWindow, step: CallModel) -> None:
        """Call the model once."""
        session = window.session
        self.asked.append(session.id)
        reply, request = window.begin(step)
        said = self.model(
            session, texts(request.messages, "user"), [found.output for found in results(request.messages)]
        )
        if isinstance(said, str):
            reply.add_text(said)
            reply.end_step("stop", usage=Usage(Tokens(10, 1), Decimal("0.5")))
            reply.finish()
            return
        for number, arguments in enumerate(said):
            reply.tool("task", call_id=f"c{number}").stream_input(json.dumps(arguments))
        reply.end_step("tool-calls", usage=Usage(Tokens(10, 1), Decimal("0.5")))


def counting(session: Session, asked: list[str], found: list[str]) -> str | list[dict[str, str]]:
    """A main agent that lets a reader count."""
    if session.info.parent:
        return f"{ANSWER} ({asked[0]})"
    return f"The reader says: {found[-1]}" if found else [task("count", subagent_type="reader")]


def ask(session: Session, why: str = "call") -> Session:
    """Ask the session's question."""
    session.user(WHY[why], request_id="r1")
    return session


def newest_answer(session: Session) -> str:
    """The answer to the newest question."""
    asked = pending_question(session.reader)
    assert asked is not None
    return answer_text(session, outcome_of(session.reader, asked).replies)


def begin(window: ContextWindow, work: Work) -> RunningTask:
    """Begin the first task of a session's question."""
    step = window.next_step()
    if isinstance(step, CallModel):
        work.call(window, step)
        step = window.next_step()
    begun = window.start_subtask(step) if isinstance(step, RunSubtask) else None
    if isinstance(step, RunTools):
        begun = window.start_task(step.calls[0])
    assert begun is not None
    return begun


def calls_of(session: Session) -> list[tuple[str, str]]:
    """Each call's result and how it was settled, in the order of their ends."""
    found: list[tuple[str, str]] = []
    for recorded in session.events():
        match recorded.event:
            case ev.ToolCompleted() as event:
                found.append(("completed", session.text(event.output)))
            case ev.ToolFailed() as event:
                found.append(("interrupted" if event.interrupted else "failed", session.text(event.error)))
            case _:
                pass
    return found


def children(store: Store, parent: str) -> list[str]:
    """The ids of a session's sub-sessions."""
    return [info.id for info in store.sessions(parent=parent)]


@pytest.mark.parametrize("form", ["chat", "responses", "anthropic", "gemini"])
def test_the_tool_has_a_schema_in_each_form(form: Any) -> None:
    """The schema is valid in every provider's form, and takes what the tool reads."""
    agents = {"reader": "reads files", "writer": "writes files"}
    tool = task_tool(form, agents)
    parameters = tool["input_schema"] if form == "anthropic" else tool.get("function", tool)["parameters"]
    jsonschema.Draft202012Validator.check_schema(parameters)
    jsonschema.validate(task("x", subagent_type="reader"), parameters)
    jsonschema.validate(task("x", subagent_type="reader", task_id="t"), parameters)
    for wrong in ({}, task("x"), task("x", subagent_type="cook")):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, parameters)
    assert "subagent_type" not in str(task_tool(form))
    for tools in ([{"name": "read"}, tool], [{"functionDeclarations": [{"name": "read"}, tool]}]):
        assert agents_in(json.dumps(tools)) == ("reader", "writer")


def test_a_schema_of_another_form_is_refused() -> None:
    """A form that there is not, and agents that are no mapping, are a `CallError`."""
    with pytest.raises(CallError, match="chat, responses, anthropic and gemini"):
        task_tool("ollama")  # type: ignore[arg-type]
    with pytest.raises(CallError, match="mapping"):
        task_tool("chat", ["reader"])  # type: ignore[arg-type]


@both
def test_a_task_is_work_of_a_sub_session(engine: Engine, why: str) -> None:
    """The task's prompt is the sub-session's question, and its answer the call's result."""
    store = engine.open()
    main = ask(store.create_session(id="main", scope="alice"), why)
    work = Work(counting)
    answer = work(main)
    (child,) = children(store, "main")
    result = task_answer(store.session(child), f"{ANSWER} (count)")
    assert answer == f"The reader says: {result}"
    assert calls_of(main) == [("completed", result)]
    assert work.asked[-2:] == [child, "main"]
    info = store.session(child).info
    assert (info.title, info.agent, info.scope, info.messages) == ("about count", "reader", "alice", 2)
    assert store.unfinished() == []


def test_what_it_costs_is_in_the_sum_of_the_tree(engine: Engine) -> None:
    """The cost of tasks, nested ones included, counts in the tree of the main session only."""
    store = engine.open()
    main = ask(store.create_session(id="main"))
    Work(nested)(main)
    usage = session_usage(main)
    assert total(usage.own).cost == Decimal("1.0")
    assert total(usage.tree).cost == Decimal("2.5")


def nested(session: Session, asked: list[str], found: list[str]) -> str | list[dict[str, str]]:
    """A model whose sub-agent has a sub-agent."""
    del asked
    depth = session.info.title
    if found or depth == "about inner":
        return f"{depth}: {len(found)}"
    return [task("outer" if not depth else "inner")]


def test_tasks_have_tasks(engine: Engine) -> None:
    """A sub-session's call of `task` is work of a sub-session of its own."""
    store = engine.open()
    main = ask(store.create_session(id="main"))
    assert Work(nested)(main) == ": 1"
    (outer,) = children(store, "main")
    (inner,) = children(store, outer)
    assert children(store, inner) == []
    assert store.session(inner).info.title == "about inner"


def test_a_task_goes_on_by_its_id(store: Store) -> None:
    """With `task_id` the same sub-session gets another question and remembers the first."""
    main = ask(store.create_session(id="main"))
    seen: list[list[str]] = []

    def model(session: Session, asked: list[str], found: list[str]) -> str | list[dict[str, str]]:
        if session.info.parent:
            seen.append(asked)
            return f"answer {len(asked)}"
        if len(found) == 2:
            return "done"
        return [task("second", task_id=children(store, "main")[0])] if found else [task("first")]

    Work(model)(main)
    assert seen == [["first"], ["first", "second"]]
    assert len(children(store, "main")) == 1
    assert ["answer 1" in calls_of(main)[0][1], "answer 2" in calls_of(main)[1][1]] == [True, True]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("[1]", "not a JSON object"),
        ("{", "not a JSON object"),
        ("", "not a JSON object"),
        ("{}", "prompt is empty"),
        ('{"prompt": 5}', "prompt is a int"),
        ('{"prompt": "x", "task_id": "nowhere"}', "no task nowhere"),
        ('{"prompt": "x", "task_id": "main"}', "no task main"),
        ('{"prompt": "x", "task_id": "other"}', "no task other"),
    ],
)
def test_wrong_arguments_are_the_failure_of_the_call(store: Store, arguments: str, said: str) -> None:
    """A call that names no work fails with a sentence, and begins no sub-session."""
    store.create_session(id="other")
    main = ask(store.create_session(id="main"))
    with ContextWindow(main, model=MODEL, limits=Limits(), environment={}) as window:
        step = window.next_step()
        assert isinstance(step, CallModel)
        reply, _ = window.begin(step)
        reply.tool("task", call_id="c").stream_input(arguments)
        reply.end_step("tool-calls")
        step = window.next_step()
        assert isinstance(step, RunTools)
        assert window.run_task(step.calls[0], lambda _: pytest.fail("nothing is to be done")) is None
        window.finish()
    ((how, text),) = calls_of(main)
    assert how == "failed"
    assert said in text
    assert children(store, "main") == []


@both
def test_an_exception_is_the_failure_of_the_call(store: Store, why: str) -> None:
    """The model is told what the sub-agent's loop raises, and goes on."""
    main = ask(store.create_session(id="main"), why)

    def model(session: Session, asked: list[str], found: list[str]) -> str | list[dict[str, str]]:
        del asked
        if session.info.parent:
            raise ValueError("no such file")
        return f"it said {found[0]}" if found else [task("count")]

    assert Work(model)(main) == "it said ValueError: no such file"
    assert store.unfinished() == []


def test_calls_outside_a_step_are_refused(store: Store) -> None:
    """A call of no open reply, and not of a task that a crash broke off, is refused."""
    main = ask(store.create_session(id="main"))
    window = ContextWindow(main, model=MODEL, limits=Limits(), environment={})
    with window, pytest.raises(RefusedError, match="no reply is open"):
        window.run_task(PendingCall("nothing", "c", "task", "{}", running=False), lambda _: "")
    with window, pytest.raises(RefusedError, match="no reply is open"):
        window.finish()


@dataclass
class Breaking:
    """The model of `counting`, whose sub-agent breaks off at its first call."""

    error: BaseException
    begun: int = 0

    def __call__(self, session: Session, asked: list[str], found: list[str]) -> str | list[dict[str, str]]:
        """Answer, or break off."""
        if session.info.parent:
            self.begun += 1
            if self.begun == 1:
                raise self.error
        return counting(session, asked, found)


@both
@pytest.mark.parametrize("error", [KeyboardInterrupt(), ConnectionError("reset"), SystemExit(1)], ids=repr)
def test_work_that_broke_off_goes_on_in_the_same_sub_session(engine: Engine, error: BaseException, why: str) -> None:
    """After Ctrl-C or a broken connection the next start finishes the call that was begun."""
    store = engine.open()
    main = ask(store.create_session(id="main"), why)
    work = Work(Breaking(error))
    with pytest.raises(type(error)):
        work(main)
    assert calls_of(main) == [("interrupted", INTERRUPTED)]
    answer = work(engine.open().session("main"))
    (child,) = children(store, "main")
    result = task_answer(store.session(child), f"{ANSWER} (count)")
    assert answer == f"The reader says: {result}"
    assert calls_of(main) == [("interrupted", INTERRUPTED), ("completed", result)]
    assert work.asked[-3:] == [child, child, "main"]
    assert store.session(child).info.messages == 2


@both
def test_the_view_is_that_of_work_without_a_crash(engine: Engine, why: str) -> None:
    """A result that came after a crash is seen as a punctual one, a long one truncated alike."""
    long = "\n".join(f"line {number}" for number in range(5_000))

    def model(session: Session, asked: list[str], found: list[str]) -> str | list[dict[str, str]]:
        del asked
        return long if session.info.parent else "done" if found else [task("count")]

    @dataclass
    class Once:
        broken: bool = False

        def __call__(self, session: Session, asked: list[str], found: list[str]) -> str | list[dict[str, str]]:
            if session.info.parent and not self.broken:
                self.broken = True
                raise KeyboardInterrupt
            return model(session, asked, found)

    seen: list[list[str]] = []
    for script in (model, Once()):
        store = engine.open()
        main = ask(store.create_session(), why)
        work = Work(script)
        if script is not model:
            with pytest.raises(KeyboardInterrupt):
                work(main)
        work(main)
        shown = [found.output.replace(main.id, "") for found in results(ModelView.of(main).messages)]
        seen.append([text.split("-prt_")[0] + text.partition('" state')[2][:3_000] for text in shown])
        assert "lines" in shown[0] or "omitted" in shown[0] or len(shown[0]) < len(long)
    assert seen[0] == seen[1]


@both
def test_a_crash_after_the_answer_asks_nobody_again(engine: Engine, why: str) -> None:
    """A sub-session that was done when its parent died gives its answer; it is not run again."""
    store = engine.open()
    main = ask(store.create_session(id="main"), why)
    work = Work(counting)
    with ContextWindow(main, model=MODEL, limits=Limits(), environment={}) as window:
        begun = begin(window, work)
        with begun, begun.turn() as turn:
            assert turn.mine
            work(begun.session)
        main.executor.writer.flush()
        raise_later = KeyboardInterrupt()
        assert window.state.open_reply is not None
        window.state.open_reply.close(raise_later)
    (child,) = children(store, "main")
    assert work(engine.open().session("main")).startswith("The reader says")
    assert work.asked[-2:] == [child, "main"]


def test_several_tasks_that_broke_off_all_go_on(engine: Engine) -> None:
    """Of parallel tasks each gets its own result: those done before the crash keep theirs."""
    store = engine.open()
    main = ask(store.create_session(id="main"))
    stops = {"two"}
    ran: list[str] = []

    async def agent(child: Session) -> str:
        asked = next(iter(texts(ModelView.of(child).messages, "user")))
        ran.append(asked)
        with child.assistant(MODEL) as reply:
            if asked in stops:
                raise KeyboardInterrupt
            reply.add_text(f"answer to {asked}")
            reply.finish()
        return f"answer to {asked}"

    async def work(session: Session) -> str:
        async with AsyncContextWindow(ContextWindow(session, model=MODEL, limits=Limits(), environment={})) as window:
            while step := await window.next_step():
                match step:
                    case CallModel():
                        reply, request = await window.begin(step)
                        found = results(request.messages)
                        if found:
                            reply.add_text(" | ".join(result.output for result in found))
                            reply.finish()
                        else:
                            for name in ("one", "two", "three"):
                                reply.tool("task", call_id=name).stream_input(json.dumps(task(name)))
                            reply.end_step("tool-calls")
                    case RunTools():
                        for call in step.calls:
                            await window.run_task(call, agent)
                        await window.finish()
                    case _:
                        await window.perform(step)
            return newest_answer(session)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(work(main))
    stops.clear()
    answer = asyncio.run(work(engine.open().session("main")))
    assert ran == ["one", "two", "two"]
    assert [f"answer to {name}" in answer for name in ("one", "two")] == [True, True]
    assert INTERRUPTED in answer


def test_tasks_run_side_by_side(engine: Engine) -> None:
    """Calls of one step are gathered: all run at once, and each has its result."""
    store = engine.open()
    main = ask(store.create_session(id="main"))
    running: set[str] = set()
    all_run = asyncio.Event()

    async def agent(child: Session) -> str:
        running.add(child.id)
        if len(running) == 8:
            all_run.set()
        await all_run.wait()
        async with eventlog.AsyncSession(child).assistant("test/m") as reply:
            reply.stream_text().append(child.info.title)
            await reply.finish()
        return child.info.title

    async def work() -> None:
        window = AsyncContextWindow(ContextWindow(main, model=MODEL, limits=Limits(), environment={}))
        async with window:
            step = await window.next_step()
            assert isinstance(step, CallModel)
            reply, _ = await window.begin(step)
            for number in range(8):
                reply.tool("task", call_id=f"c{number}").stream_input(json.dumps(task(f"part {number}")))
            reply.end_step("tool-calls")
            step = await window.next_step()
            assert isinstance(step, RunTools)
            await asyncio.wait_for(asyncio.gather(*(window.run_task(call, agent) for call in step.calls)), 60)
            await window.finish()

    asyncio.run(work())
    found = results(ModelView.of(main).messages)
    assert [f"part {number}" in result.output for number, result in enumerate(found)] == [True] * 8
    assert len(children(store, "main")) == 8
    assert {found for how, found in calls_of(main) if how != "completed"} == set()


@both
def test_a_cancelled_task_goes_on(engine: Engine, why: str) -> None:
    """Cancelled in asyncio, the task is left to go on, and the next start finishes it."""
    store = engine.open()
    main = ask(store.create_session(id="main"), why)
    reached = asyncio.Event()

    async def agent(_: Session) -> str:
        reached.set()
        await asyncio.sleep(60)
        return "never"

    async def work() -> None:
        async with AsyncContextWindow(ContextWindow(main, model=MODEL, limits=Limits(), environment={})) as window:
            step = await window.next_step()
            if isinstance(step, RunSubtask):
                await window.run_subtask(step, agent)
            assert isinstance(step, CallModel)
            reply, _ = await window.begin(step)
            reply.tool("task", call_id="c").stream_input(json.dumps(task("count")))
            reply.end_step("tool-calls")
            step = await window.next_step()
            assert isinstance(step, RunTools)
            await window.run_task(step.calls[0], agent)

    async def cancelled() -> None:
        running = asyncio.create_task(work())
        await reached.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(cancelled())
    assert calls_of(main) == [("interrupted", INTERRUPTED)]
    assert Work(counting)(engine.open().session("main")).startswith("The reader says")
    assert len(children(store, "main")) == 1


def test_another_tool_of_that_name_is_not_run_again(store: Store) -> None:
    """A program's own tool named `task` is interrupted by a crash like any other."""
    main = ask(store.create_session(id="main"))

    def stops(_: dict[str, Any]) -> str:
        raise KeyboardInterrupt

    def work() -> None:
        with ContextWindow(main, model=MODEL, limits=Limits(), environment={}) as window:
            step = window.next_step()
            assert isinstance(step, CallModel)
            reply, _ = window.begin(step)
            reply.tool("task", call_id="c").stream_input("{}")
            reply.end_step("tool-calls")
            step = window.next_step()
            assert isinstance(step, RunTools)
            window.run(step.calls[0], stops)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert isinstance(ContextWindow(main, environment={}).next_step(), CallModel)


@both
def test_a_question_after_the_crash_comes_first(store: Store, why: str) -> None:
    """If the user asked something else after a crash, the task is not taken up again."""
    main = ask(store.create_session(id="main"), why)
    with pytest.raises(KeyboardInterrupt):
        Work(Breaking(KeyboardInterrupt()))(main)
    assert isinstance(ContextWindow(main, environment={}).next_step(), RunTools | RunSubtask)
    main.user("never mind")
    assert isinstance(ContextWindow(main, environment={}).next_step(), CallModel)


@both
def test_a_fork_does_the_work_in_a_sub_session_of_its_own(store: Store, why: str) -> None:
    """A fork of a session with a broken task leaves its parent's sub-session as it is."""
    main = ask(store.create_session(id="main"), why)
    with pytest.raises(KeyboardInterrupt):
        Work(Breaking(KeyboardInterrupt()))(main)
    (child,) = children(store, "main")
    before = store.session(child).version
    fork = main.fork(id="fork")
    Work(counting)(fork)
    assert store.session(child).version == before
    assert len(children(store, "fork")) == 1
    assert isinstance(ContextWindow(main, environment={}).next_step(), RunTools | RunSubtask)


@both
def test_work_that_another_process_still_does_is_waited_for(engine: Engine, why: str) -> None:
    """While another owner runs a broken call's sub-session, the loop begins no other."""
    store = engine.open()
    main = ask(store.create_session(id="main"), why)
    work = Work(Breaking(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        work(main)
    (child,) = children(store, "main")
    other = engine.open()
    with other.session(child).lease(), pytest.raises(LeaseHeldError):
        work(engine.open().session("main"))
    assert calls_of(main) == [("interrupted", INTERRUPTED)]
    assert work(engine.open().session("main")).startswith("The reader says")


@both
def test_a_stop_reaches_the_sub_session_that_streams(engine: Engine, why: str) -> None:
    """An interrupt of the main session ends the answer of a nested task, and all three turns."""
    store = engine.open()
    elsewhere = engine.open().session(ask(store.create_session(id="main"), why).id)
    closed: list[str] = []

    def chunks() -> Iterator[dict[str, Any]]:
        try:
            for number in range(10_000):
                if number == 40:
                    elsewhere.interrupt()
                yield {"choices": [{"delta": {"content": f"{number} "}}]}
        finally:
            closed.append("closed")

    def work(session: Session) -> str:
        with ContextWindow(session, model=MODEL, limits=Limits(), environment={}) as window:
            while step := window.next_step():
                if isinstance(step, CallModel):
                    reply, _ = window.begin(step)
                    if session.info.title == "about inner":
                        assert reply.fill(chunks()).reason == "aborted"
                        continue
                    inner = "inner" if session.info.parent else "outer"
                    reply.tool("task", call_id="c").stream_input(json.dumps(task(inner)))
                    reply.end_step("tool-calls")
                elif isinstance(step, RunTools):
                    for call in step.calls:
                        window.run_task(call, work)
                    window.finish()
                elif isinstance(step, RunSubtask):
                    window.run_subtask(step, work)
            assert isinstance(step, Stop)
            raise RuntimeError(step.sentence)

    with pytest.raises(RuntimeError, match="a stop was requested"):
        work(store.session("main"))
    assert closed == ["closed"]
    (outer,) = children(store, "main")
    (inner,) = children(store, outer)
    for name in ("main", outer):
        assert calls_of(store.session(name)) == [("interrupted", INTERRUPTED)]
    for name in ("main", outer, inner):
        step = ContextWindow(store.session(name), environment={}).next_step()
        assert isinstance(step, Stop)
        assert step.reason in {"interrupted", "aborted"}
    assert store.unfinished() == []
    said = texts(ModelView.of(store.session(inner)).messages, "assistant")[-1]
    assert said.startswith("0 1 2 ")
    assert "200" not in said


@both
def test_a_stop_of_the_sub_session_alone_is_told_to_the_model(store: Store, why: str) -> None:
    """If only the sub-agent is stopped, its call fails, and the main agent goes on."""
    main = ask(store.create_session(id="main"), why)

    def model(session: Session, asked: list[str], found: list[str]) -> str | list[dict[str, str]]:
        del asked
        if session.info.parent:
            session.interrupt()
            return [task("more")]
        return f"it said {found[0]}" if found else [task("count")]

    assert "a stop was requested" in Work(model)(main)


@both
def test_a_stop_ends_with_the_call(store: Store, why: str) -> None:
    """Once its task is done a sub-session is a session like any other: stops do not reach it."""
    main = ask(store.create_session(id="main"), why)
    Work(counting)(main)
    (name,) = children(store, "main")
    child = store.session(name)
    main.interrupt()
    child.user("and now?")
    assert Work(counting)(child).startswith(ANSWER)


@both
def test_a_stop_while_a_task_waits_to_be_resumed_is_final(store: Store, why: str) -> None:
    """A user's stop after a crash ends the turn; the task is not resumed."""
    main = ask(store.create_session(id="main"), why)
    with pytest.raises(KeyboardInterrupt):
        Work(Breaking(KeyboardInterrupt()))(main)
    main.interrupt()
    assert ContextWindow(main, environment={}).next_step() == Stop("interrupted")


KILLED = """
import os, signal, sys
import eventlog
from eventlog.values import Limits
from projections.loop import ContextWindow
from tests.projections.window.test_tasks import MODEL, Work, ask, counting

_, directory, why, scene = sys.argv

def dies(session):
    session.store.flush()
    os.kill(os.getpid(), signal.SIGKILL)

def script(session, asked, found):
    if session.info.parent and scene == "while it works":
        dies(session)
    return counting(session, asked, found)

class Killed(Work):
    def work(self, session):
        answer = super().work(session)
        if scene == "after the answer":
            dies(session)
        return answer

main = ask(eventlog.open(directory).create_session(id="main"), why)
if scene == "before the reply":
    with ContextWindow(main, model=MODEL, limits=Limits(), environment={}) as window:
        assert window.next_step()
        dies(main)
Killed(script)(main)
"""
"""A life that is killed in a scene of a task."""


def _kill(directory: Path, why: str, scene: str) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(directory), why, scene], cwd=ROOT, check=False)
    assert done.returncode == -signal.SIGKILL


@both
@pytest.mark.parametrize("scene", ["before the reply", "while it works", "after the answer"])
def test_a_killed_task_is_done_once(tmp_path: Path, scene: str, why: str) -> None:
    """Killed at any time, the next start does the work in one sub-session, once."""
    _kill(tmp_path / "s", why, scene)
    with eventlog.open(tmp_path / "s") as store:
        work = Work(counting)
        assert f"{ANSWER} (count)" in work(store.session("main"))
        (child,) = children(store, "main")
        assert work.asked.count(child) == (scene != "after the answer")
        assert store.session(child).info.messages == 2
        assert [how for how, _ in calls_of(store.session("main"))][-1] == "completed"
        assert store.unfinished() == []


def _break(directory: Path, store: Store, why: str, *, kills: bool) -> None:
    if kills:
        _kill(directory, why, "while it works")
    else:
        with pytest.raises(KeyboardInterrupt):
            Work(Breaking(KeyboardInterrupt()))(ask(store.create_session(id="main"), why))


@both
@pytest.mark.parametrize("kills", [False, True], ids=["Ctrl-C", "killed"])
@pytest.mark.parametrize("left", ["stopped", "asked anew", "asked anew and stopped"])
def test_a_task_that_is_left_is_settled(tmp_path: Path, left: str, kills: bool, why: str) -> None:
    """After a crash and a stop, or a new question, the sub-session is stopped."""
    with eventlog.open(tmp_path / "s") as store, eventlog.open(tmp_path / "s") as elsewhere:
        _break(tmp_path / "s", store, why, kills=kills)
        (child,) = children(store, "main")
        main = store.session("main")
        assert child in {info.id for info in store.unfinished()}
        if left != "stopped":
            main.user("never mind")
        if left != "asked anew":
            elsewhere.session("main").interrupt()
            with main.lease():
                assert not ContextWindow(main, environment={}).next_step()
        else:
            assert Work(lambda _session, asked, _found: f"not {asked[-1]}")(main) == "not never mind"
        for each in (store, elsewhere):
            assert each.unfinished() == []
            assert not each.session(child).reader.state().open_messages()
        with pytest.raises(RuntimeError, match="stop"):
            Work(counting)(store.session(child))


def test_a_call_is_not_counted_as_a_subtask(store: Store) -> None:
    """A subtask that a user adds while a task runs is carried out after it."""
    main = ask(store.create_session(id="main"))
    ran: list[str] = []

    def counted(child: Session) -> str:
        ran.append(child.id)
        return "counted"

    with ContextWindow(main, model=MODEL, limits=Limits(), environment={}) as window:
        step = window.next_step()
        assert isinstance(step, CallModel)
        reply, _ = window.begin(step)
        reply.tool("task", call_id="c").stream_input(json.dumps(task("first")))
        reply.end_step("tool-calls")
        step = window.next_step()
        assert isinstance(step, RunTools)
        main.user([Subtask("count", "to count")])
        window.run_task(step.calls[0], lambda _: "done")
        window.finish()
        step = window.next_step()
        assert isinstance(step, RunSubtask)
        window.run_subtask(step, counted)
        assert isinstance(window.next_step(), CallModel)
    assert len(ran) == 1


def test_a_user_gives_work_to_any_agent(store: Store) -> None:
    """Neither the agents that a model may choose, nor a tool switched off, refuse a subtask."""
    main = store.create_session(id="main")
    main.user([Subtask("count", "to count", "cook", MODEL)], tools='{"task": false}')
    tools = [task_tool(agents={"reader": "reads"})]
    with ContextWindow(main, model=MODEL, limits=Limits(), environment={}, tools=tools) as window:
        step = window.next_step()
        assert isinstance(step, RunSubtask)
        child = window.run_subtask(step, lambda _: "counted")
    assert calls_of(main) == [("completed", task_answer(child, "counted"))]
    assert child.info.agent == "cook"


def test_a_subtask_that_lost_its_connection_goes_on_in_the_same_window(store: Store) -> None:
    """After a `ConnectionError` the next step names the subtask and its call again."""
    main = ask(store.create_session(id="main"), "subtask")
    work = Work(Breaking(ConnectionError("reset")))
    with ContextWindow(main, model=MODEL, limits=Limits(), environment={}) as window:
        step = window.next_step()
        assert isinstance(step, RunSubtask)
        with pytest.raises(ConnectionError):
            window.run_subtask(step, work)
        again = window.next_step()
        assert isinstance(again, RunSubtask)
        assert again.call is not None
        child = window.run_subtask(again, work)
        assert isinstance(window.next_step(), CallModel)
    assert children(store, "main") == [child.id]
    assert [how for how, _ in calls_of(main)] == ["interrupted", "completed"]


def test_an_agent_that_is_not_offered_is_refused(store: Store) -> None:
    """An agent that the recorded tool does not list fails the call, and begins no sub-session."""
    main = ask(store.create_session(id="main"))
    tools = [task_tool(agents={"reader": "reads", "critic": "judges"})]
    for agent, child in (("cook", False), ("", False), ("critic", True)):
        with ContextWindow(main, model=MODEL, limits=Limits(), environment={}, tools=tools) as window:
            step = window.next_step()
            assert isinstance(step, CallModel)
            reply, _ = window.begin(step)
            reply.tool("task", call_id="c").stream_input(json.dumps(task("count", subagent_type=agent)))
            reply.end_step("tool-calls")
            step = window.next_step()
            assert isinstance(step, RunTools)
            assert (window.run_task(step.calls[0], lambda _: "done") is not None) == child
            window.finish()
    assert [how for how, _ in calls_of(main)] == ["failed", "failed", "completed"]
    assert "there are reader, critic" in calls_of(main)[0][1]
    assert len(children(store, "main")) == 1


@both
def test_a_task_that_failed_leaves_no_work(store: Store, why: str) -> None:
    """A loop that raises before it answers leaves no question that waits in the sub-session."""
    main = ask(store.create_session(id="main"), why)

    def model(session: Session, asked: list[str], found: list[str]) -> str | list[dict[str, str]]:
        del session, asked
        return f"it said {found[0]}" if found else [task("count")]

    work = Work(model)

    def fails(child: Session) -> str:
        raise ValueError(child.id)

    with ContextWindow(main, model=MODEL, limits=Limits(), environment={}) as window:
        begin(window, work).run(fails)
        window.finish()
    work(main)
    assert store.unfinished() == []
    (child,) = children(store, "main")
    with store.session(child).turn() as turn:
        assert turn.state == "stopped"


@both
def test_a_group_that_lost_its_connection_goes_on(engine: Engine, why: str) -> None:
    """An exception group of broken connections leaves the turn and its tasks to go on."""
    store = engine.open()
    main = ask(store.create_session(id="main"), why)
    lost = ExceptionGroup("tasks", [ConnectionError("reset"), ExceptionGroup("more", [ConnectionError("reset")])])
    work = Work(Breaking(lost))
    with pytest.raises(ExceptionGroup):
        work(main)
    assert work(engine.open().session("main")).startswith("The reader says")
    assert len(children(store, "main")) == 1
    other = ask(store.create_session(id="other"), why)
    mixed = ExceptionGroup("tasks", [ConnectionError("reset"), ValueError("broken")])
    assert "ExceptionGroup" in Work(Breaking(mixed))(other)
