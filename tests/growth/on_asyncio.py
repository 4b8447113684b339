"""The operations of the handles for asyncio."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from eventlog import TextStream, ToolCall
from eventlog import events as ev
from eventlog.aio import AsyncReply, AsyncSession, AsyncSubscription
from eventlog.values import MessageError, Patch
from projections.loop import AsyncContextWindow, RequestCompaction
from tests.growth.on_reply import CHUNKS
from tests.growth.on_window import a_call, a_compacted_window, a_running_call, a_step, a_subtask, a_task, a_window
from tests.growth.operation import Table, constant
from tests.growth.place import Place


@contextmanager
def _chat(at: Place) -> Generator[AsyncSession]:
    yield AsyncSession(at.long)


@contextmanager
def _reply(at: Place) -> Generator[AsyncReply]:
    reply = AsyncSession(at.long).assistant()
    at.awaited(reply.__aenter__())
    yield reply
    at.awaited(reply.__aexit__(None, None, None))


@contextmanager
def _text(at: Place) -> Generator[tuple[AsyncReply, TextStream]]:
    with _reply(at) as reply:
        yield reply, reply.stream_text()


@contextmanager
def _pending(at: Place) -> Generator[tuple[AsyncReply, ToolCall]]:
    with _reply(at) as reply:
        yield reply, at.awaited(reply.tool("bash", call_id=at.name("c")))


async def _answer(chat: AsyncSession) -> None:
    async with chat.assistant() as reply:
        await reply.finish()


async def _lease(chat: AsyncSession) -> None:
    async with chat.lease():
        pass


async def _newest(at: Place) -> None:
    following = AsyncSubscription(at.store, at.recent, timeout=0.0)
    async for _ in following:
        pass


def _done(_: object) -> str:
    return "done"


async def _ran(_given: dict[str, object]) -> str:
    return "done"


async def _worked(_child: object) -> str:
    return "done"


ASYNCIO: Table = {
    "AsyncSession.append": constant(
        lambda at, chat: at.awaited(chat.append([(1, ev.SessionRenamed("a title"))])), _chat
    ),
    "AsyncSession.assistant": constant(lambda at, chat: at.awaited(_answer(chat)), _chat),
    "AsyncSession.do": constant(lambda at, chat: at.awaited(chat.do(chat.sync.rename, "a title")), _chat),
    "AsyncSession.flush": constant(lambda at, chat: at.awaited(chat.flush()), _chat),
    "AsyncSession.lease": constant(lambda at, chat: at.awaited(_lease(chat)), _chat),
    "AsyncSession.user": constant(lambda at, chat: at.awaited(chat.user("a question")), _chat),
    "AsyncReply.abort": constant(lambda at, reply: at.awaited(reply.abort()), _reply),
    "AsyncReply.add_text": constant(lambda at, reply: at.awaited(reply.add_text("an answer")), _reply),
    "AsyncReply.api": constant(lambda _, reply: reply.api, _reply),
    "AsyncReply.call": constant(lambda _, held: held[0].call(held[1].id), _pending),
    "AsyncReply.end_step": constant(lambda _, reply: (reply.step(), reply.end_step()), _reply),
    "AsyncReply.fill": constant(lambda at, reply: at.awaited(reply.fill(CHUNKS[0])), _reply),
    "AsyncReply.in_step": constant(lambda _, reply: reply.in_step, _reply),
    "AsyncReply.interrupt_requested": constant(lambda _, reply: reply.interrupt_requested, _reply),
    "AsyncReply.is_open": constant(lambda _, reply: reply.is_open, _reply),
    "AsyncReply.lease": constant(lambda _, reply: reply.lease, _reply),
    "AsyncReply.part": constant(lambda _, reply: reply.part(Patch("hash", ())), _reply),
    "AsyncReply.retry": constant(lambda _, reply: reply.retry(MessageError("api")), _reply),
    "AsyncReply.step": constant(lambda _, reply: reply.step(), _reply),
    "AsyncReply.end": constant(lambda at, held: at.awaited(held[0].end(held[1])), _text),
    "AsyncReply.fail": constant(lambda at, held: at.awaited(held[0].fail(held[1], "no")), _pending),
    "AsyncReply.finish": constant(lambda at, reply: at.awaited(reply.finish()), _reply),
    "AsyncReply.stream_reasoning": constant(lambda _, reply: reply.stream_reasoning(), _reply),
    "AsyncReply.start": constant(lambda at, held: at.awaited(held[0].start(held[1], "{}")), _pending),
    "AsyncReply.succeed": constant(
        lambda at, held: (at.awaited(held[0].start(held[1], "{}")), at.awaited(held[0].succeed(held[1], "done"))),
        _pending,
    ),
    "AsyncReply.stream_text": constant(lambda _, reply: reply.stream_text(), _reply),
    "AsyncReply.tool": constant(lambda at, reply: at.awaited(reply.tool("bash", call_id=at.name("c"))), _reply),
    "AsyncSubscription, the newest 50 events": constant(lambda at, _: at.awaited(_newest(at))),
    "AsyncContextWindow.begin": constant(
        lambda at, held: at.awaited(AsyncContextWindow(held[0]).begin(held[1])), a_step
    ),
    "AsyncContextWindow.compact": constant(
        lambda at, window: at.awaited(AsyncContextWindow(window).compact()), a_window
    ),
    "AsyncContextWindow.finish": constant(
        lambda at, held: (held[0].run(held[1], _done), at.awaited(AsyncContextWindow(held[0]).finish())),
        a_call,
    ),
    "AsyncContextWindow.next_step": constant(
        lambda at, window: at.awaited(AsyncContextWindow(window).next_step()), a_window
    ),
    "AsyncContextWindow.perform": constant(
        lambda at, window: at.awaited(AsyncContextWindow(window).perform(RequestCompaction(overflow=False, tokens=0))),
        a_window,
    ),
    "AsyncContextWindow.fail": constant(
        lambda at, held: at.awaited(AsyncContextWindow(held[0]).fail(held[1], ValueError("no"))), a_running_call
    ),
    "AsyncContextWindow.lease": constant(lambda _, window: AsyncContextWindow(window).lease, a_window),
    "AsyncContextWindow.prune": constant(lambda at, window: at.awaited(AsyncContextWindow(window).prune()), a_window),
    "AsyncContextWindow.record": constant(lambda at, window: at.awaited(AsyncContextWindow(window).record()), a_window),
    "AsyncContextWindow.save": constant(lambda at, window: at.awaited(AsyncContextWindow(window).save()), a_window),
    "AsyncContextWindow.session": constant(lambda _, window: AsyncContextWindow(window).session, a_window),
    "AsyncContextWindow.start": constant(
        lambda at, held: at.awaited(AsyncContextWindow(held[0]).start(held[1])), a_call
    ),
    "AsyncContextWindow.state": constant(lambda _, window: AsyncContextWindow(window).state, a_window),
    "AsyncContextWindow.succeed": constant(
        lambda at, held: at.awaited(AsyncContextWindow(held[0]).succeed(held[1], "done")), a_running_call
    ),
    "AsyncContextWindow.tokens": constant(lambda _, window: AsyncContextWindow(window).tokens, a_window),
    "AsyncContextWindow.undo": constant(
        lambda at, window: at.awaited(AsyncContextWindow(window).undo()), a_compacted_window
    ),
    "AsyncContextWindow.view": constant(lambda at, window: at.awaited(AsyncContextWindow(window).view()), a_window),
    "AsyncContextWindow.run": constant(
        lambda at, held: at.awaited(AsyncContextWindow(held[0]).run(held[1], _ran)), a_call
    ),
    "AsyncContextWindow.run_task": constant(
        lambda at, held: at.awaited(AsyncContextWindow(held[0]).run_task(held[1], _worked)), a_task
    ),
    "AsyncContextWindow.run_subtask": constant(
        lambda at, held: at.awaited(AsyncContextWindow(held[0]).run_subtask(held[1], _worked)), a_subtask
    ),
}
