"""The asyncio handles: same events as the blocking ones, awaited durability, cancellation."""

from __future__ import annotations

import asyncio
import gc
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from itertools import count as counting
from pathlib import Path
from threading import Event, Timer
from time import process_time

import pytest

from eventlog import events as ev
from eventlog.aio import AsyncSession
from eventlog.errors import ConflictError, LeaseHeldError, RefusedError, RequestReusedError
from eventlog.open_store import open_store
from eventlog.session.session import Session
from eventlog.store import Store
from eventlog.values import File, MessageError, Model, Text, Tokens, Usage
from tests.support.engines import Engine
from tests.support.faulty_log import FaultyLog


def events(chat: AsyncSession) -> list[ev.Event]:
    """All committed events."""
    return [recorded.event for recorded in chat.sync.events()]


def test_a_reply_left_early_is_aborted_and_gives_the_lease_back(store: Store) -> None:
    """Leaving a reply by error or cancellation closes its message and releases the lease."""
    chat = AsyncSession(store.create_session())

    async def leave(error: type[BaseException] | None) -> None:
        async with chat.assistant() as reply:
            reply.stream_text().append("half")
            if error is not None:
                raise error

    async def cancelled() -> None:
        started = asyncio.Event()

        async def wait_for_ever() -> None:
            async with chat.assistant() as reply:
                reply.stream_text().append("half")
                started.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(wait_for_ever())
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(leave(None))
    with pytest.raises(KeyError):
        asyncio.run(leave(KeyError))
    asyncio.run(cancelled())
    finished = [event.error for event in events(chat) if isinstance(event, ev.MessageFinished)]
    assert finished == [
        MessageError("aborted"),
        MessageError("unknown", "KeyError"),
        MessageError("aborted", "interrupted"),
    ]
    assert not chat.sync.executor.holds_lease
    assert chat.sync.reader.state().open_messages() == ()


def test_many_tasks_share_one_handle(store: Store) -> None:
    """Tasks that share one handle each stream a whole message, once, of their own texts."""
    chat = AsyncSession(store.create_session())

    async def talk(number: int) -> None:
        for turn in range(3):
            await chat.do(chat.sync.user, f"{number} {turn}", id=f"u{number}.{turn}")
        async with chat.assistant(wait=60.0) as reply:
            text = reply.stream_text()
            for word in range(10):
                text.append(f"{number}.{word} ")
                if word % 3 == 0:
                    await asyncio.sleep(0)
            await reply.end(text)
            await reply.finish()

    async def everybody() -> None:
        await asyncio.gather(*(talk(number) for number in range(16)))

    asyncio.run(everybody())
    texts: dict[str, str] = {}
    for event in events(chat):
        if isinstance(event, ev.PartDelta):
            texts[event.part] = texts.get(event.part, "") + event.text
    assert sorted(texts.values()) == sorted("".join(f"{number}.{word} " for word in range(10)) for number in range(16))
    added = [event.message for event in events(chat) if isinstance(event, ev.UserMessageAdded)]
    assert sorted(added) == sorted(f"u{number}.{turn}" for number in range(16) for turn in range(3))
    assert store.info(chat.id).messages == 16 * 4
    assert not chat.sync.executor.holds_lease


@pytest.mark.promise(4)
def test_a_cancelled_await_leaves_the_append_whole(store: Store) -> None:
    """Promise 4: a cancelled await leaves a whole append, and its request id finds it."""
    chat = AsyncSession(store.create_session())

    async def cancel_at_once() -> None:
        task = asyncio.create_task(chat.user([Text("a"), Text("b")], request_id="r"))
        plain = asyncio.create_task(chat.user("plain"))
        await asyncio.sleep(0)  # both tasks have begun
        task.cancel()
        plain.cancel()
        await asyncio.gather(task, plain, return_exceptions=True)
        await chat.flush()

    asyncio.run(cancel_at_once())
    retried = asyncio.run(chat.user([Text("a"), Text("b")], request_id="r"))
    added = [event for event in events(chat) if isinstance(event, ev.UserMessageAdded)]
    assert [event.message for event in added].count(retried) == 1
    assert len(added) == 2
    kinds = [event.kind for event in events(chat) if isinstance(event, ev.PartStarted)]
    assert {kind.text for kind in kinds if isinstance(kind, Text)} == {"a", "b", "plain"}
    assert len(kinds) == 3
    with pytest.raises(RequestReusedError):
        asyncio.run(chat.user("other", request_id="r"))


def test_a_cancelled_wait_for_the_lease_leaves_it_to_others(engine: Engine) -> None:
    """A cancelled wait for the lease does not take it later."""
    first, second = engine.open(), engine.open()
    chat = AsyncSession(first.create_session())
    other = AsyncSession(second.session(chat.id))

    async def give_up() -> None:
        async with chat.lease():
            with pytest.raises(LeaseHeldError):
                async with other.lease():
                    pass
            waiting = asyncio.create_task(other.assistant(wait=20.0).__aenter__())
            await asyncio.sleep(0.05)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        async with chat.lease(wait=20.0):
            assert not other.sync.executor.holds_lease

    asyncio.run(give_up())
    assert not other.sync.executor.holds_lease
    assert not chat.sync.executor.holds_lease


def test_a_waiting_caller_gets_the_lease_when_it_is_given_back(engine: Engine) -> None:
    """Waiting callers take the lease in turn, and other tasks go on meanwhile."""
    first, second = engine.open(), engine.open()
    chat = AsyncSession(first.create_session())
    other = AsyncSession(second.session(chat.id))
    order: list[str] = []
    begun = asyncio.Event()

    async def hold() -> None:
        async with chat.assistant() as reply:
            order.append("first")
            await chat.flush()
            begun.set()
            await asyncio.sleep(0.05)
            await reply.finish()

    async def take_turns() -> None:
        holding = asyncio.create_task(hold())
        await begun.wait()
        async with other.assistant(wait=20.0) as reply:
            order.append("second")
            await reply.finish()
        await holding

    asyncio.run(take_turns())
    assert order == ["first", "second"]
    assert sum(isinstance(event, ev.MessageFinished) for event in events(other)) == 2


def test_errors_reach_the_one_who_awaits(store: Store) -> None:
    """Promise 4: refusals and conflicts raise from the await that caused them; none writes."""
    chat = AsyncSession(store.create_session())

    async def ask() -> None:
        with pytest.raises(ConflictError):
            await chat.append([(1, ev.Custom("n", "{}"))], expected_version=5)
        async with chat.assistant() as reply:
            text = reply.stream_text()
            await reply.end(text)
            with pytest.raises(RefusedError):
                await reply.end(text)
            call = await reply.tool("bash", call_id="c")
            with pytest.raises(RefusedError):
                await reply.finish()
            await reply.fail(call, "no")
            await reply.abort()
        await chat.append([(1, ev.Custom("n", "{}"))], expected_version=chat.sync.version)

    asyncio.run(ask())
    assert not any(isinstance(event, ev.Custom) for event in events(chat)[:-1])
    assert events(chat)[-1] == ev.Custom("n", "{}")


async def until(found: Callable[[], bool]) -> None:
    """Let the loop run until a condition holds."""
    for _ in counting():
        if found():
            return
        await asyncio.sleep(0.001)


def seconds_of_pending(path: Path, count: int, *, leased: bool) -> float:
    """Processor seconds of many pending commands in one session, without garbage collection."""
    with open_store(path) as store:
        chat = AsyncSession(store.create_session())

        async def talk() -> float:
            gc.collect()
            gc.disable()
            begin = process_time()
            await asyncio.gather(*(chat.user(str(number)) for number in range(count)))
            seconds = process_time() - begin
            gc.enable()
            return seconds

        if leased:
            chat.sync.executor.acquire()
        seconds = asyncio.run(talk())
        parts = [event.kind for event in events(chat) if isinstance(event, ev.PartStarted)]
    assert parts == [Text(str(number)) for number in range(count)]
    return seconds


@pytest.mark.parametrize("leased", [False, True], ids=["without a lease", "under the lease"])
def test_pending_commands_cost_their_number(tmp_path: Path, *, leased: bool) -> None:
    """Eight times the pending commands cost about eight times the time and keep their order."""
    few, many = (
        min(seconds_of_pending(tmp_path / f"{count} {run}", count, leased=leased) for run in range(2))
        for count in (500, 4_000)
    )
    assert many <= 13 * few


COMMANDS: dict[str, Callable[[Session], object]] = {
    "rename": lambda session: session.rename("t"),
    "rollback": lambda session: session.rollback(1),
    "append": lambda session: session.append([(0, ev.SessionArchived())]),
    "request": lambda session: session.user("hi", request_id="r"),
    "fork": lambda session: session.fork(),
    "settings": lambda session: session.set_system_prompt("p"),
}


@pytest.mark.parametrize("leased", [False, True], ids=["without a lease", "under the lease"])
@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_command_that_waits_for_the_disk_leaves_the_loop_free(
    log: FaultyLog, session: Session, command: Callable[[Session], object], *, leased: bool
) -> None:
    """While `do` waits for a sync that only the event loop can allow, the loop runs on."""
    chat = AsyncSession(session)
    too_late = Timer(60.0, log.let_go)

    async def go() -> bool:
        log.held = []
        too_late.start()
        doing = asyncio.create_task(chat.do(command, session))
        await until(lambda: bool(log.held))
        in_time = too_late.is_alive()
        log.let_go()
        await doing
        return in_time

    if leased:
        session.executor.acquire()
    assert asyncio.run(go())
    too_late.cancel()


@pytest.mark.parametrize("reason", ["stop", "length", "tool-calls"])
def test_the_end_of_a_reply_leaves_the_loop_free(log: FaultyLog, session: Session, reason: str) -> None:
    """While `finish` waits for a sync that only the event loop can allow, the loop runs on."""
    chat = AsyncSession(session)
    too_late = Timer(30.0, log.let_go)

    async def go() -> bool:
        async with chat.assistant() as reply:
            await reply.add_text("one")
            log.held = []
            too_late.start()
            reply.stream_text().append("two")
            ending = asyncio.create_task(reply.finish(reason))
            await until(lambda: bool(log.held))
            in_time = too_late.is_alive()
            log.let_go()
            await ending
        return in_time

    assert asyncio.run(go())
    too_late.cancel()
    (end,) = [event for event in events(chat) if isinstance(event, ev.MessageFinished)]
    assert (end.reason, end.error) == (reason, None)


@pytest.mark.parametrize("way", ["reply", "lease"])
def test_a_cancelled_end_gives_the_lease_back_all_the_same(session: Session, way: str) -> None:
    """A cancelled end of a reply still closes the message and releases the lease."""
    chat = AsyncSession(session)
    busy = Event()

    async def go() -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        at_its_end = asyncio.Event()

        async def work() -> None:
            async with chat.assistant() if way == "reply" else chat.lease():
                asyncio.get_running_loop().run_in_executor(None, busy.wait)
                at_its_end.set()

        task = asyncio.create_task(work())
        await at_its_end.wait()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        busy.set()
        await until(lambda: not session.executor.holds_lease)

    asyncio.run(asyncio.wait_for(go(), 60.0))
    assert session.reader.state().open_messages() == ()


def test_a_stop_reaches_a_reply_of_asyncio(store: Store) -> None:
    """A streaming task sees the stop of another, and closes its message as it stands."""
    chat = AsyncSession(store.create_session())
    streaming = asyncio.Event()

    async def stream() -> int:
        async with chat.turn("Count", "r1") as turn, chat.assistant("acme/one") as reply:
            assert (turn.message, turn.error) == (chat.sync.reader.state().last_user(chat.sync.version), None)
            assert turn.lease is reply.lease
            text = reply.stream_text()
            for number in counting():
                if reply.interrupt_requested:
                    await reply.abort()
                    assert not reply.is_open
                    return number
                text.append(f"{number} ")
                streaming.set()
                await asyncio.sleep(0)
        raise AssertionError("the count has no end")

    async def stop() -> None:
        await streaming.wait()
        await chat.do(chat.sync.interrupt)

    async def both() -> tuple[int, str]:
        number, _ = await asyncio.wait_for(asyncio.gather(stream(), stop()), 20)
        async with chat.turn("Count", "r1") as turn:
            return number, turn.state

    number, state = asyncio.run(both())
    assert number > 0
    assert state == "stopped"


def test_a_reply_of_asyncio_has_every_command(store: Store) -> None:
    """Texts, parts, steps, a retry and calls are recorded as by a blocking reply."""
    chats = [AsyncSession(store.create_session(id=name)) for name in "ab"]
    usage, error, output = Usage(Tokens(1, 2)), MessageError("api", "overloaded"), b"from a file"

    async def awaited(chat: AsyncSession) -> None:
        async with chat.assistant("p/m", id="m", reply_to=None, variant="high", cwd="/w", root="/") as reply:
            reply.step(purpose="title", counted=5)
            assert reply.in_step
            thought = reply.stream_reasoning()
            thought.append("hm")
            await reply.end(thought, "{}")
            before = chat.sync.info.version
            await reply.add_text("half")
            assert chat.sync.info.version > before  # it is durable
            reply.retry(error)
            text = await reply.add_text("whole")
            assert chat.sync.reader.state().messages["m"].parts[text]
            reply.part(File("image/png", "data:", "p.png"))
            call = await reply.tool("bash", call_id="c", id="p1", input={}, title="ls", metadata="{}")
            assert reply.call("p1") is call
            await reply.succeed(call, BytesIO(output), title="listed", metadata="{}")
            late = await reply.tool("bash", call_id="d", id="p2")
            late.stream_input("{}")
            await reply.start(late, {}, title="rm")
            late.stream_output("out")
            await reply.fail(late, interrupted=True, output="some")
            reply.end_step("stop", usage=usage, snapshot="s")
            await reply.finish("stop", snapshot="s")

    def blocking(session: Session) -> None:
        with session.assistant("p/m", id="m", reply_to=None, variant="high", cwd="/w", root="/") as reply:
            reply.step(purpose="title", counted=5)
            thought = reply.stream_reasoning()
            thought.append("hm")
            thought.end("{}")
            reply.add_text("half")
            reply.retry(error)
            reply.add_text("whole")
            reply.part(File("image/png", "data:", "p.png"))
            call = reply.tool("bash", call_id="c", id="p1", input={}, title="ls", metadata="{}")
            call.succeed(BytesIO(output), title="listed", metadata="{}")
            late = reply.tool("bash", call_id="d", id="p2")
            late.stream_input("{}")
            late.start({}, title="rm")
            late.stream_output("out")
            late.fail(interrupted=True, output="some")
            reply.end_step("stop", usage=usage, snapshot="s")
            reply.finish("stop", snapshot="s")

    asyncio.run(awaited(chats[0]))
    blocking(chats[1].sync)
    here, there = ([without_ids(event) for event in events(chat)] for chat in chats)
    assert here == there


def without_ids(event: ev.Event) -> str:
    """An event as text, the ids that the store made left out."""
    return re.sub(r"prt_\w+", "prt_", repr(event))


def test_a_question_of_asyncio_has_every_field(store: Store) -> None:
    """`user`, `turn` and `append` take what those of the blocking session take."""
    chat = AsyncSession(store.create_session())
    picture = File("image/png", "data:", "p.png")

    async def ask() -> list[str]:
        first = await chat.user("one", id="m1", files=[picture], agent="a", model="p/m", system="s", tools="[]")
        second = await chat.user("two", delivery="queue", synthetic=True, request_id="r2")
        async with chat.turn("three", "r3", files=[picture], agent="a", model="p/m", delivery="queue") as turn:
            third = turn.message
        await chat.append([(1, ev.SessionRenamed("title"))], request_id="r4", bodies={})
        await chat.append([(1, ev.SessionRenamed("title"))], request_id="r4", bodies={})
        return [first, second, third]

    asked = asyncio.run(ask())
    added = [event for event in events(chat) if isinstance(event, ev.UserMessageAdded)]
    assert [event.message for event in added] == asked
    assert [event.agent for event in added] == ["a", "", "a"]
    assert [event.model for event in added] == [Model("p", "m"), None, Model("p", "m")]
    assert [event.delivery for event in added] == ["steer", "queue", "queue"]
    assert len([event for event in events(chat) if isinstance(event, ev.SessionRenamed)]) == 1
    files = [event for event in events(chat) if isinstance(event, ev.PartStarted) and isinstance(event.kind, File)]
    assert len(files) == 2
