"""The window for asyncio: the same steps, with coroutines as tools and summarisers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

import eventlog
from eventlog import AsyncReply, AsyncSession
from eventlog import events as ev
from eventlog.session.filling import LOOK_SECONDS, Filled
from eventlog.session.session import Session
from eventlog.store import Store
from eventlog.values import INTERRUPTED, Limits, Model, Subtask, Text, Tool
from projections import ModelView
from projections.loop import CallModel, ContextWindow, RunSubtask, RunTools, Stop, summarize_with
from projections.loop.context.aio import AsyncContextWindow, afill, afill_retrying
from projections.loop.task_calls import task_answer
from projections.reports.audit import audit
from projections.view.neutral import Text as ViewText
from projections.window import SummaryRequest
from tests.support.window_loop import sections

LIMITS = Limits(9_000, 1_000)


async def answer(text: str, path: str | None, tokens: int) -> AsyncIterator[dict[str, Any]]:
    """An answer with reasoning, a text, and perhaps a call, as an asynchronous stream."""
    yield {"choices": [{"delta": {"reasoning_content": "Hm. "}}]}
    for word in text.split():
        yield {"choices": [{"delta": {"content": f"{word} "}}]}
    if path is not None:
        function = {"name": "read", "arguments": json.dumps({"file_path": path})}
        yield {"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "c0", "function": function}]}}]}
    yield {"choices": [{"delta": {}, "finish_reason": "stop" if path is None else "tool_calls"}]}
    yield {"choices": [], "usage": {"prompt_tokens": tokens, "completion_tokens": 9, "total_tokens": tokens + 9}}


async def summarise(request: SummaryRequest) -> AsyncIterator[str]:
    """A summariser that streams."""
    for piece in sections(f"{len(request.messages)} messages").split("\n"):
        await asyncio.sleep(0)
        yield piece + "\n"


async def read(arguments: dict[str, Any]) -> str:
    """A tool that is a coroutine and fails for one file."""
    await asyncio.sleep(0)
    if arguments["file_path"] == "f3":
        raise FileNotFoundError("f3")
    return f"the content of {arguments['file_path']} " * 100


def test_a_loop_of_coroutines_runs_to_its_end(store: Store) -> None:
    """A loop in asyncio has the same steps, and its requests the same digests, as any other."""
    session = store.create_session()
    session.user("Read all of them. " * 40)

    async def loop() -> Stop:
        taken = 0
        inner = ContextWindow(session, limits=LIMITS, model=Model("p", "m"), summarizer=summarise)
        async with AsyncContextWindow(inner) as window:
            while step := await window.next_step(allow_repeats=True):
                if isinstance(step, CallModel):
                    reply, request = await window.begin(step)
                    taken += 1
                    path = f"f{taken}" if taken < 8 else None
                    await afill(reply, answer("Looking at it.", path, request.counted))
                elif isinstance(step, RunTools):
                    for call in step.calls:
                        await window.run(call, read)
                    await window.finish()
                else:
                    await window.perform(step)
            result = await window.compact()
            assert result.completed
        assert isinstance(step, Stop)
        return step

    assert asyncio.run(loop()) == Stop("finished")
    assert [step.verdict for step in audit(session) if step.purpose == "turn"] == ["match"] * 8
    (failure,) = [span.item for span in session.reader.spans() if isinstance(span.item, ev.ToolFailed)]
    assert failure.error == "FileNotFoundError: f3"
    assert not session.executor.holds_lease


async def test_a_cancelled_compaction_is_recorded_as_aborted(store: Store) -> None:
    """An abort leaves the old boundary in force, and the partial summary in the log."""
    session = store.create_session()
    for number in range(8):
        session.user(f"Question {number}. " * 60)
        with session.assistant(model="p/m") as reply:
            reply.add_text(f"Answer {number}. " * 60)
            reply.finish()
    started = asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def endless(request: SummaryRequest) -> AsyncIterator[str]:
        del request
        while True:
            yield "never done "
            loops[0].call_soon_threadsafe(started.set)
            await asyncio.sleep(0.001)

    loops.append(asyncio.get_running_loop())
    async with AsyncContextWindow(ContextWindow(session, limits=LIMITS, summarizer=endless)) as window:
        running = asyncio.create_task(window.compact())
        await started.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    kinds = [span.item for span in session.reader.spans()]
    (failed,) = [item for item in kinds if isinstance(item, ev.CompactionFailed)]
    assert failed.reason == "aborted"
    assert not any(isinstance(item, ev.CompactionCompleted) for item in kinds)
    assert session.reader.state().open_messages() == ()


@pytest.mark.parametrize("asks", [False, True], ids=["a summariser", "summarize_with"])
@pytest.mark.parametrize("background", [False, True])
async def test_an_async_summariser_shares_the_loop_of_the_program(
    store: Store, *, background: bool, asks: bool
) -> None:
    """A client's connections belong to one loop: the summariser may use that of the answers."""
    session = store.create_session()
    loops: list[asyncio.AbstractEventLoop] = []

    async def shared(request: SummaryRequest) -> AsyncIterator[str]:
        loops.append(asyncio.get_running_loop())
        async for piece in summarise(request):
            yield piece

    async def ask() -> AsyncIterator[dict[str, Any]]:
        loops.append(asyncio.get_running_loop())
        return answer(sections("all"), None, 9)

    summarizer = summarize_with(lambda _: ask()) if asks else shared
    window = AsyncContextWindow(
        ContextWindow(session, limits=LIMITS, model=Model("p", "m"), summarizer=summarizer, background=background)
    )
    async with window:
        for number in range(40):
            await asyncio.to_thread(session.user, f"Question {number}. " * 60)
            while step := await window.next_step():
                if isinstance(step, CallModel):
                    reply, request = await window.begin(step)
                    await afill(reply, answer("Looking at it. " * 20, None, request.counted))
                else:
                    await window.perform(step)
    assert loops
    assert set(loops) == {asyncio.get_running_loop()}


async def test_subtasks_are_coroutines(store: Store) -> None:
    """A subtask's answer or error is the result of its call."""
    session = store.create_session()
    session.user([Text("do"), *(Subtask(f"{name} it", "why", "helper") for name in ("count", "drop", "wait"))])
    waiting = asyncio.Event()

    async def work(child: Session) -> str:
        prompt = ModelView.of(child).messages[0].parts[0]
        assert isinstance(prompt, ViewText)
        if prompt.text == "drop it":
            raise RuntimeError("dropped")
        if prompt.text == "wait it":
            waiting.set()
            await asyncio.Event().wait()
        return "forty-two"

    async def step_of(window: AsyncContextWindow) -> RunSubtask:
        step = await window.next_step()
        assert isinstance(step, RunSubtask)
        return step

    children: list[Session] = []
    async with AsyncContextWindow(ContextWindow(session, limits=LIMITS)) as window:
        for _ in range(2):
            children.append(await window.run_subtask(await step_of(window), work))
            assert children[-1].info.parent == session.id
        running = asyncio.create_task(window.run_subtask(await step_of(window), work))
        await waiting.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    items = [span.item for span in session.reader.spans()]
    assert [item.output for item in items if isinstance(item, ev.ToolCompleted)] == [
        task_answer(children[0], "forty-two")
    ]
    failures = [item for item in items if isinstance(item, ev.ToolFailed)]
    assert [(item.error, item.interrupted) for item in failures] == [
        ("RuntimeError: dropped", False),
        (INTERRUPTED, True),
    ]
    assert session.reader.state().open_messages() == ()
    assert not session.executor.holds_lease


class Closing:
    """An endless provider stream, closed by one of two names, at once or awaited."""

    def __init__(self) -> None:
        self.closed = 0

    async def __aiter__(self) -> AsyncIterator[dict[str, Any]]:
        while not self.closed:
            yield {"choices": [{"delta": {"content": "more "}}]}


class ClosesItself(Closing):
    """A stream with a coroutine `close`."""

    async def close(self) -> None:
        """Close."""
        self.closed += 1


class ClosesAtOnce(Closing):
    """A stream with a plain `close`."""

    def close(self) -> None:
        """Close."""
        self.closed += 1


class ClosesLikeGenerators(Closing):
    """A stream with `aclose`."""

    async def aclose(self) -> None:
        """Close."""
        self.closed += 1


@pytest.mark.parametrize("kind", [ClosesItself, ClosesAtOnce, ClosesLikeGenerators])
def test_an_interrupt_ends_and_closes_the_stream(store: Store, kind: type[Closing]) -> None:
    """An interrupt aborts the reply as far as it came and closes the provider's stream."""
    session = store.create_session()
    session.user("Go on for ever.")
    chunks = kind()

    async def loop() -> str:
        async with AsyncContextWindow(ContextWindow(session, limits=LIMITS, model=Model("p", "m"))) as window:
            step = await window.next_step()
            assert isinstance(step, CallModel)
            reply, _ = await window.begin(step)
            session.interrupt("enough")
            return (await afill(reply, chunks)).reason

    assert asyncio.run(loop()) == "aborted"
    assert chunks.closed == 1
    assert session.reader.state().open_messages() == ()


async def test_the_calls_of_a_step_run_side_by_side(store: Store) -> None:
    """Tools of one step may wait for each other; each result stands at its call."""
    session = store.create_session()
    session.user("Read both.")
    meeting: list[asyncio.Event] = []

    async def twice(path: str, other: str) -> AsyncIterator[dict[str, Any]]:
        for index, name in enumerate((path, other)):
            function = {"name": "read", "arguments": json.dumps({"file_path": name})}
            yield {"choices": [{"delta": {"tool_calls": [{"index": index, "id": name, "function": function}]}}]}
        yield {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}

    async def meet(arguments: dict[str, Any]) -> str:
        mine, theirs = meeting if arguments["file_path"] == "a" else reversed(meeting)
        mine.set()
        await asyncio.wait_for(theirs.wait(), 60)
        return f"the content of {arguments['file_path']}"

    meeting.extend([asyncio.Event(), asyncio.Event()])
    async with AsyncContextWindow(ContextWindow(session, limits=LIMITS, model=Model("p", "m"))) as window:
        step = await window.next_step()
        assert isinstance(step, CallModel)
        reply, _ = await window.begin(step)
        await afill(reply, twice("a", "b"))
        step = await window.next_step()
        assert isinstance(step, RunTools)
        await asyncio.gather(*(window.run(call, meet) for call in step.calls))
        await window.finish()
    items = [span.item for span in session.reader.spans()]
    asked = {
        item.part: item.kind.call for item in items if isinstance(item, ev.PartStarted) and isinstance(item.kind, Tool)
    }
    given = {asked[item.part]: item.output for item in items if isinstance(item, ev.ToolCompleted)}
    assert given == {"a": "the content of a", "b": "the content of b"}


async def afill_asking(reply: AsyncReply, chunks: AsyncIterator[dict[str, Any]]) -> Filled:
    """Fill a reply as `afill` does, from a function that is asked for the chunks."""
    return await afill_retrying(reply, lambda: chunks)


@pytest.mark.parametrize("filling", [afill, afill_asking])
async def test_a_reply_of_an_async_session_is_filled(store: Store, filling: Callable[[AsyncReply, Any], Any]) -> None:
    """A chat without tools needs no window: `AsyncSession.assistant` gives what is filled."""
    session = store.create_session()
    session.user("What is it?")
    async with AsyncSession(session).assistant(model="openai/gpt-5") as reply:
        assert (await filling(reply, answer("It is an event.", None, 5))).reason == "stop"
    (said,) = [part for part in ModelView.of(session).messages[-1].parts if isinstance(part, ViewText)]
    assert said.text.strip() == "It is an event."


async def test_a_slow_stream_notices_an_interrupt_soon(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stop ends an answer of few tokens a second after seconds, not after many tokens."""
    clock = [0.0]
    monkeypatch.setattr("eventlog.session.filling.monotonic", lambda: clock[0])

    async def slowly() -> AsyncIterator[dict[str, Any]]:
        for number in range(16):
            if number == 4:
                session.interrupt()
            clock[0] += LOOK_SECONDS / 2
            yield {"choices": [{"delta": {"content": f"{number} "}}]}
            said.append(number)

    said: list[int] = []
    session = store.create_session()
    session.user("Count")
    async with AsyncSession(session).assistant(model="openai/gpt-5") as reply:
        assert (await afill(reply, slowly())).reason == "aborted"
    assert said[-1] <= 5


@pytest.mark.parametrize("silent", ["unanswered", "before the first token", "between tokens"])
async def test_a_stop_ends_the_wait_for_a_silent_provider(store: Store, silent: str) -> None:
    """A stop does not wait for a model that thinks; its stream is closed, what it said stays."""
    session = store.create_session()
    session.user("Think long")
    left: list[bool] = []

    async def think() -> None:
        session.interrupt()
        try:
            await asyncio.sleep(60)
        finally:
            left.append(True)

    async def chunks() -> AsyncIterator[dict[str, Any]]:
        if silent == "between tokens":
            yield {"choices": [{"delta": {"content": "Well"}}]}
        await think()

    async def ask() -> AsyncIterator[dict[str, Any]]:
        if silent == "unanswered":
            await think()
        return chunks()

    async with AsyncSession(session).assistant(model="openai/gpt-5") as reply:
        filled = await asyncio.wait_for(afill_retrying(reply, ask), 20)
    assert (filled.reason, left) == ("aborted", [True])
    texts = [part.text for part in ModelView.of(session).messages[-1].parts if isinstance(part, ViewText)]
    assert texts[-1] == ("Well" if silent == "between tokens" else "Think long")


def test_a_cancelled_loop_ends_as_cancelled_though_the_store_is_closed() -> None:
    """A server that closes its store before its requests end gets their `CancelledError`."""
    store = eventlog.open("memory:")
    session = store.create_session()
    session.user("Go")
    begun = asyncio.Event()

    async def work() -> None:
        async with AsyncContextWindow(ContextWindow(session, model="openai/gpt-5")) as window:
            step = await window.next_step()
            assert isinstance(step, CallModel)
            await window.begin(step)
            begun.set()
            await asyncio.sleep(60)

    async def serve() -> asyncio.Task[None]:
        running = asyncio.create_task(work())
        await begun.wait()
        await asyncio.to_thread(store.close)
        running.cancel()
        await asyncio.wait([running])
        return running

    running = asyncio.run(serve())
    with pytest.raises(asyncio.CancelledError) as ended:
        running.result()
    assert "closing the window then failed, too" in ended.value.__notes__[0]


async def test_a_window_of_asyncio_has_every_command(store: Store) -> None:
    """A window prunes, undoes, saves, shows its view and runs a call in steps."""
    session = store.create_session()
    session.user("Read it. " * 40)
    inner = ContextWindow(session, limits=LIMITS, model=Model("p", "m"), summarizer=summarise)
    async with AsyncContextWindow(inner) as window:
        assert (window.session, window.state, window.lease) == (session, inner.state, inner.lease)
        assert window.lease is not None
        await window.record()
        step = await window.next_step()
        assert isinstance(step, CallModel)
        reply, request = await window.begin(step)
        await afill(reply, answer("Looking.", "f1", request.counted))
        step = await window.next_step()
        assert isinstance(step, RunTools)
        running = await window.start(step.calls[0])
        assert running is not None
        assert running.arguments == {"file_path": "f1"}
        await window.succeed(running.call, "found", title="read")
        await window.finish()
        step = await window.next_step()
        assert isinstance(step, CallModel)
        reply, request = await window.begin(step)
        await afill(reply, answer("Again.", "f2", request.counted))
        step = await window.next_step()
        assert isinstance(step, RunTools)
        running = await window.start(step.calls[0])
        assert running is not None
        await window.fail(running.call, ValueError("no"))
        await window.finish()
        await window.next_step()
        assert await window.prune() is None
        assert window.tokens == inner.tokens
        assert (await window.view()).messages == inner.view().messages
        assert (await window.compact()).completed
        assert await window.undo() == "compaction"
        await window.save()
    assert not session.executor.holds_lease
    assert [span.item.error for span in session.reader.spans() if isinstance(span.item, ev.ToolFailed)] == [
        "ValueError: no"
    ]
