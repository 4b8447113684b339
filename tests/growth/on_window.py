"""The operations of the context window and the functions beside it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from itertools import islice
from typing import Any

from eventlog import Reply, ToolCall
from eventlog.values import Limits, Subtask
from projections import Transcript
from projections.loop import (
    CallModel,
    ContextWindow,
    PendingCall,
    Prune,
    RequestCompaction,
    RunSubtask,
    afill,
    afill_retrying,
    answer_text,
    fill_retrying,
    refusal,
    task_tool,
    window_report,
)
from projections.window import (
    CompactionPolicy,
    ContextPolicy,
    PruneCase,
    SummaryRequest,
    apply_patch,
    covered_by,
    give_title,
    policy_named,
    recall,
    recall_tool,
    register_planner,
    summarize_offline,
)
from projections.window.prune.planners import PLANNERS
from tests.growth.on_reply import CHUNKS
from tests.growth.operation import Table, constant, history
from tests.growth.place import POLICY, Place
from tests.support.background import until_written
from tests.support.window_loop import sections

_VIEW = "the view of this session is its history"
_RESULTS = "from the trigger on a prune is planned from all results of the view"
_COVERED = "the messages that are asked for are the history"
REQUEST = SummaryRequest("", (), "")


@contextmanager
def a_window(at: Place) -> Generator[ContextWindow]:
    """The entered window of the session with a small view, after its first `next_step`."""
    window = at.window
    with window:
        window.next_step()
        yield window


@contextmanager
def _wide(at: Place) -> Generator[ContextWindow]:
    window = at.wide_window
    with window:
        window.next_step()
        yield window


@contextmanager
def _roomy(at: Place) -> Generator[ContextWindow]:
    """A window that is as wide, below the trigger of a prune."""
    window = at.roomy_window
    with window:
        at.wide.user("a question")
        window.next_step()
        at.wide.user("a question")
        yield window


@contextmanager
def a_step(at: Place) -> Generator[tuple[ContextWindow, CallModel]]:
    """Prepare a step in which the model is to be called."""
    with a_window(at) as window:
        at.long.user("a question")
        step = window.next_step()
        assert isinstance(step, CallModel), step
        yield window, step


@contextmanager
def a_call(at: Place) -> Generator[tuple[ContextWindow, PendingCall]]:
    """Prepare a step in which a called tool is to run."""
    with a_step(at) as (window, step):
        reply, _ = window.begin(step)
        call = reply.tool("bash", call_id=at.name("c"))
        call.stream_input("{}")
        reply.end_step("tool-calls")
        window.state.catch_up()
        yield window, PendingCall(call.id, call.call_id, "bash", "{}", running=False)


@contextmanager
def a_running_call(at: Place) -> Generator[tuple[ContextWindow, ToolCall]]:
    """A window whose open reply has a running call."""
    with a_call(at) as (window, call):
        started = window.start(call)
        assert started is not None
        yield window, started.call


@contextmanager
def _begun(at: Place) -> Generator[Reply]:
    with a_step(at) as (window, step):
        reply, _ = window.begin(step)
        yield reply


@contextmanager
def a_subtask(at: Place) -> Generator[tuple[ContextWindow, RunSubtask]]:
    """Prepare a step with a requested subtask."""
    with a_window(at) as window:
        at.long.user([Subtask("do it", "a task", "helper")])
        step = window.next_step()
        assert isinstance(step, RunSubtask), step
        yield window, step


@contextmanager
def a_task(at: Place) -> Generator[tuple[ContextWindow, PendingCall]]:
    """Prepare a step in which a called task is to run."""
    with a_step(at) as (window, step):
        reply, _ = window.begin(step)
        call = reply.tool("task", call_id=at.name("c"))
        call.stream_input('{"prompt": "do it"}')
        reply.end_step("tool-calls")
        window.state.catch_up()
        yield window, PendingCall(call.id, call.call_id, "task", '{"prompt": "do it"}', running=False)


@contextmanager
def _reply(at: Place) -> Generator[str]:
    yield next(message.id for message in Transcript(at.long).newest_first() if message.role == "assistant")


@contextmanager
def _question(at: Place) -> Generator[ContextWindow]:
    with a_window(at) as window:
        at.long.user("a question")
        yield window


@contextmanager
def _beside_a_summary(at: Place) -> Generator[ContextWindow]:
    """A window whose summary in the background has failed, at another question."""
    policy = ContextPolicy(compaction=CompactionPolicy(background_share=0.0), counter="chars/4")
    window = ContextWindow(
        at.long, policy, limits=Limits(100_000_000, 1_000), summarizer=_fails, background=True, environment={}
    )
    with window:
        at.long.user("a question")
        window.next_step()
        until_written(at.long)
        window.next_step()
        at.long.user("another question")
        yield window


def _fails(_: SummaryRequest) -> str:
    raise ValueError("no summary")


def _planned(window: ContextWindow) -> None:
    assert isinstance(window.next_step(), Prune)


@contextmanager
def _wide_question(at: Place) -> Generator[ContextWindow]:
    with _wide(at) as window:
        at.wide.user("a question")
        yield window


@contextmanager
def a_compacted_window(at: Place) -> Generator[ContextWindow]:
    """A window that compacted its session."""
    with a_window(at) as window:
        window.compact()
        yield window


@contextmanager
def _part(at: Place) -> Generator[str]:
    with at.long.assistant() as reply:
        part = reply.add_text("something to recall")
        reply.finish()
    yield part


@contextmanager
def _message(at: Place) -> Generator[str]:
    yield at.long.user("something to recall")


def _asked(at: Place) -> ContextWindow:
    return ContextWindow(at.long, POLICY, summarizer=lambda _: sections(), environment={})


def _done(_: object) -> str:
    """A tool and a sub-agent that do nothing."""
    return "done"


@contextmanager
def _planner(at: Place) -> Generator[str]:
    name = at.name("planner")
    yield name
    del PLANNERS[name]


@contextmanager
def _case(at: Place) -> Generator[PruneCase]:
    with a_window(at) as window:
        now = window.state.situation()
        yield PruneCase(now.state, now.prune_policy(), now.measure, now.options, now.usable, inside=False)


async def _chunks() -> AsyncIterator[Any]:
    for chunk in CHUNKS:
        yield chunk


@contextmanager
def _untitled(at: Place) -> Generator[None]:
    at.long.rename("")
    yield


def _finish(_: Place, held: tuple[ContextWindow, PendingCall]) -> None:
    window, call = held
    window.run(call, _done)
    window.finish()


WINDOW: Table = {
    "ContextWindow.view, of a new one": constant(lambda at, _: _asked(at).view()),
    "ContextWindow.begin": constant(lambda _, held: held[0].begin(held[1]), a_step),
    "ContextWindow.compact": constant(lambda _, window: window.compact(), a_window),
    "ContextWindow.fail": constant(lambda _, held: held[0].fail(held[1], ValueError("no")), a_running_call),
    "ContextWindow.finish": constant(_finish, a_call),
    "ContextWindow.next_step": constant(lambda _, window: window.next_step(), _question),
    "ContextWindow.next_step, beside a summary in the background": constant(
        lambda _, window: window.next_step(), _beside_a_summary
    ),
    "ContextWindow.next_step, wide": constant(lambda _, window: window.next_step(), _roomy),
    "ContextWindow.next_step, wide, a prune to plan": history(
        lambda _, window: _planned(window), _RESULTS, _wide_question
    ),
    "ContextWindow.perform": constant(
        lambda _, window: window.perform(RequestCompaction(overflow=False, tokens=0)), a_window
    ),
    "ContextWindow.prune": constant(lambda _, window: window.prune(), a_window),
    "ContextWindow.record": constant(lambda _, window: window.record(), a_window),
    "ContextWindow.run": constant(lambda _, held: held[0].run(held[1], _done), a_call),
    "ContextWindow.run_task": constant(lambda _, held: held[0].run_task(held[1], _done), a_task),
    "ContextWindow.start_task": constant(lambda _, held: held[0].start_task(held[1]), a_task),
    "ContextWindow.run_subtask": constant(lambda _, held: held[0].run_subtask(held[1], _done), a_subtask),
    "ContextWindow.save": constant(lambda _, window: window.save(), a_window),
    "ContextWindow.save, wide": history(lambda _, window: window.save(), _VIEW, _wide_question),
    "ContextWindow.start": constant(lambda _, held: held[0].start(held[1]), a_call),
    "ContextWindow.start_subtask": constant(lambda _, held: held[0].start_subtask(held[1]), a_subtask),
    "ContextWindow.succeed": constant(lambda _, held: held[0].succeed(held[1], "done"), a_running_call),
    "ContextWindow.tokens": constant(lambda _, window: window.tokens, a_window),
    "ContextWindow.tokens, wide": constant(lambda _, window: window.tokens, _wide),
    "ContextWindow.undo": constant(lambda _, window: window.undo(), a_compacted_window),
    "ContextWindow.waits": constant(lambda _, window: window.waits, a_window),
    "ContextWindow.view": constant(lambda _, window: window.view(), a_window),
    "ContextWindow.view, wide": constant(lambda _, window: window.view(), _wide_question),
    "PruneCase.beyond": constant(lambda _, case: case.beyond([]), _case),
    "PruneCase.calibrated": constant(lambda _, case: case.calibrated(100), _case),
    "PruneCase.minimum": constant(lambda _, case: case.minimum, _case),
    "PruneCase.plan": constant(lambda _, case: case.plan([], "mine"), _case),
    "PruneCase.protect": constant(lambda _, case: case.protect, _case),
    "PruneCase.prunable": constant(lambda _, case: next(case.prunable(), None), _case),
    "PruneCase.clearables": constant(lambda _, case: next(case.clearables(), None), _case),
    "PruneCase.size": constant(lambda _, case: sum(map(case.size, islice(case.clearables(), 1))), _case),
    "afill": constant(lambda at, reply: at.awaited(afill(reply, _chunks())), _begun),
    "afill_retrying": constant(lambda at, reply: at.awaited(afill_retrying(reply, _chunks)), _begun),
    "answer_text": constant(lambda at, reply: answer_text(at.long, [reply]), _reply),
    "apply_patch": constant(lambda _at, _: apply_patch([], (), '{"start":0,"stop":0}')),
    "covered_by": history(lambda at, _: covered_by(at.long, at.compaction), _COVERED),
    "fill_retrying": constant(lambda _, reply: fill_retrying(reply, lambda: CHUNKS), _begun),
    "give_title": constant(lambda at, _: give_title(at.long, lambda _: "A title"), _untitled),
    "policy_named": constant(lambda _at, _: policy_named("opencode-1.18")),
    "recall": constant(lambda at, part: recall(at.long, part), _part),
    "recall, a message": constant(lambda at, message: recall(at.long, message), _message),
    "recall, an old one": constant(lambda at, _: recall(at.long, "u000100p")),
    "recall_tool": constant(lambda _at, _: recall_tool()),
    "refusal": constant(lambda _at, _: refusal(ValueError("no"))),
    "task_tool": constant(lambda _at, _: task_tool()),
    "register_planner": constant(lambda _, name: register_planner(name, PLANNERS["recency"]), _planner),
    "summarize_offline": constant(lambda _at, _: summarize_offline(REQUEST)),
    "window_report": constant(lambda at, _: window_report(at.window)),
    "window_report, wide": history(lambda at, _: window_report(at.wide_window), _VIEW),
}
