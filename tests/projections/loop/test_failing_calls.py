"""Calls that fail at length: the view has a preview, the store the whole."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

import pytest

from eventlog.session.session import Session
from eventlog.store import Store
from eventlog.values import Limits
from projections import ModelView
from projections.loop import AsyncContextWindow, CallModel, ContextWindow, RunTools, Step, Stop
from projections.window import ContextPolicy, TruncationPolicy, recall
from projections.window.retrieval.truncation import truncate
from tests.support.window_loop import MODEL, results, sections

LONG = "error: expected ';'\n" * 9_000
"""180,000 characters: more than a window has."""
LIMITS = Limits(24_000, 4_000)
TASK = '{"prompt": "look", "description": "a look"}'
Work = Callable[..., str]


def window_of(session: Session, policy: ContextPolicy | str | None = None) -> ContextWindow:
    """A window with a summariser that would be a model."""
    return ContextWindow(
        session,
        policy,
        model=MODEL,
        limits=LIMITS,
        summarizer=lambda _: sections("errors"),
        recall=True,
        environment={},
    )


def answer(window: ContextWindow, step: CallModel, tool: str) -> None:
    """Call the tool first; then answer."""
    reply, request = window.begin(step)
    if len(window.state.conversation.messages) > 2 or results(request.messages):
        reply.add_text("I see.")
        reply.finish()
    else:
        reply.tool(tool, call_id="c1").stream_input(TASK)
        reply.end_step("tool-calls")


def loop(session: Session, tool: str, work: Work, policy: ContextPolicy | str | None = None) -> Step:
    """Run the loop, with tools, tasks and calls that the program itself ends."""
    with window_of(session, policy) as window:
        while step := window.next_step():
            if isinstance(step, CallModel):
                answer(window, step, tool)
            elif isinstance(step, RunTools):
                for call in step.calls:
                    if tool == "task":
                        window.run_task(call, work)
                    elif tool == "own":
                        running = window.start(call)
                        assert running is not None
                        running.call.fail(LONG)
                    else:
                        window.run(call, work)
                window.finish()
            else:
                window.perform(step)
    return step


async def loop_of_tasks(session: Session, tool: str, work: Work, policy: ContextPolicy | str | None = None) -> Step:
    """Run the loop in asyncio."""

    async def done(given: object) -> str:
        return work(given)

    async with AsyncContextWindow(window_of(session, policy)) as window:
        while step := await window.next_step():
            if isinstance(step, CallModel):
                await asyncio.to_thread(answer, window.sync, step, tool)
            elif isinstance(step, RunTools):
                for call in step.calls:
                    await (window.run_task(call, done) if tool == "task" else window.run(call, done))
                await window.finish()
            else:
                await window.perform(step)
    return step


def in_asyncio(session: Session, tool: str, work: Work, policy: ContextPolicy | str | None = None) -> Step:
    """Run the loop in an event loop of its own."""
    return asyncio.run(loop_of_tasks(session, tool, work, policy))


def fails(_: object) -> str:
    """A tool, or a task, whose error is long."""
    raise RuntimeError(LONG)


def shown(session: Session) -> str:
    """The result of the call in the view."""
    (result,) = results(ModelView.of(session).messages)
    assert result.error
    return result.output


both = pytest.mark.parametrize("run", [loop, in_asyncio])


@both
@pytest.mark.parametrize("tool", ["make", "task"])
def test_a_long_error_is_shown_as_a_preview_and_recalled_whole(
    store: Store, tool: str, run: Callable[..., Step]
) -> None:
    """Its ranges give what is left out; the next questions are answered."""
    session = store.create_session()
    for number in range(3):
        with session.turn(f"question {number}", f"r{number}") as turn:
            assert run(session, tool, fails) == Stop("finished")
        assert turn.state == "done"
    preview, whole = shown(session), f"RuntimeError: {LONG}"
    assert preview.startswith("RuntimeError: error")
    assert len(preview) < len(LONG) / 10
    told = re.search(r"recall (\S+) lines \d+-\d+, or bytes (\d+)-(\d+)", preview)
    assert told is not None
    assert recall(session, told[1]).text == whole
    left_out = recall(session, told[1], bytes=(int(told[2]), int(told[3]))).text
    marker = next(line for line in preview.splitlines(keepends=True) if "left out" in line)
    assert preview.replace(marker, left_out) == whole


def test_an_error_that_the_program_records_whole_blocks_nothing(store: Store) -> None:
    """A compaction makes room: a request for a summary has as much of it as of an output."""
    session = store.create_session()
    for number in range(3):
        with session.turn(f"question {number}", f"r{number}") as turn:
            assert loop(session, "own", fails) == Stop("finished")
        assert turn.state == "done"


@pytest.mark.parametrize(
    "policy", ["opencode-1.18", ContextPolicy(truncation=TruncationPolicy(enabled=False))], ids=["opencode", "off"]
)
def test_opencode_and_a_policy_without_previews_show_all_of_it(store: Store, policy: ContextPolicy | str) -> None:
    """OpenCode cuts the outputs of calls that succeed."""
    session = store.create_session()
    session.user("make it")
    text = "e" * 60_000

    def fail(_: object) -> str:
        raise RuntimeError(text)

    loop(session, "make", fail, policy)
    assert shown(session) == f"RuntimeError: {text}"


def test_a_late_error_is_shown_as_its_preview(store: Store) -> None:
    """The whole of it is the call's output."""
    session = store.create_session()
    session.user("make it")
    with session.assistant("test/m") as reply:
        call = reply.tool("make", call_id="c1", input={})
        reply.abort()
    cut = truncate(LONG, TruncationPolicy(), None, part=None)
    assert cut is not None
    session.late_result(reply.id, "c1", LONG, failed=True, truncation=cut)
    assert shown(session) == cut.preview
    assert recall(session, call.id).text == LONG


class UnreadableError(Exception):
    """An error whose text cannot be made."""

    def __str__(self) -> str:
        raise ValueError("no text")


def unreadable() -> object:
    """Raise such an error."""
    raise UnreadableError


RESULTS: dict[str, tuple[Callable[[], object], str]] = {
    "none": (lambda: None, "not None"),
    "a mapping": (lambda: {"paid": 5}, "not a dict"),
    "bytes": (lambda: b"paid", "not a bytes"),
    "too long": (lambda: "paid " * 1_000, "bytes of a body"),
    "an error without a text": (unreadable, "UnreadableError"),
    "an error that is too long": (lambda: fails(None), "RuntimeError: error"),
}
"""Results of a tool, and what the model is told of each."""


@both
@pytest.mark.parametrize("tool", ["pay", "task"])
@pytest.mark.parametrize("result", RESULTS)
def test_a_tool_whose_result_cannot_be_recorded_has_run_once(
    store: Store, monkeypatch: pytest.MonkeyPatch, result: str, tool: str, run: Callable[..., Step]
) -> None:
    """Its call has failed: the model is told that it ran, and the turn is done."""
    if tool == "task" and result == "none":
        pytest.skip("a task without an answer of its own has that of its question")
    for module in ("eventlog.codec.large_texts", "projections.loop.context.open_reply"):
        monkeypatch.setattr(f"{module}.MAX_BODY_BYTES", 4_000)
    session, ran = store.create_session(), list[object]()
    give, told = RESULTS[result]

    def work(given: object) -> object:
        ran.append(given)
        return give()

    with session.turn("pay", "r1") as turn:
        assert run(session, tool, work) == Stop("finished")
    assert (turn.state, len(ran)) == ("done", 1)
    assert told in shown(session)
    assert ("the tool ran" in shown(session)) == ("rror" not in result)
