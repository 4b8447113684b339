"""A turn is answered once: who answers, what the others learn, and how it ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from threading import Event, Thread
from typing import cast

import pytest

from eventlog import events as ev
from eventlog.aio import AsyncSession
from eventlog.errors import CallError, FencedError, LeaseHeldError, NotFoundError, RefusedError, RequestReusedError
from eventlog.session.owner import LIVE
from eventlog.session.reply import Reply
from eventlog.session.session import Session
from eventlog.session.text_stream import TextStream
from eventlog.session.tool_call import ToolCall
from eventlog.session.turn import Turn
from eventlog.store import Store
from eventlog.values import MessageError, Reasoning, Retry, Text, Tool
from tests.support.compactions import compacted
from tests.support.engines import Engine


def answer(session: Session, reason: str = "stop") -> str:
    """Add a whole reply; return its id."""
    with session.assistant() as reply:
        reply.add_text("hello")
        reply.finish(reason)
    return reply.id


def asked(session: Session, text: str = "hi", request: str = "r") -> Turn:
    """Ask again, and let go at once; return what became of the turn."""
    turn = session.turn(text, request)
    with turn:
        found = turn.state, turn.answer, turn.error
    turn.state, turn.answer, turn.error = found
    return turn


def seen(turn: Turn) -> tuple[str, bool, tuple[str, ...]]:
    """The turn's state now, whether the caller answers, and the answer."""
    return turn.state, turn.mine, turn.answer


def broken(session: Session, error: type[BaseException], request: str = "r") -> str:
    """Begin the answer of a turn, and break off with an error; return the reply."""
    replies: list[str] = []
    with suppress(error), session.turn("hi", request), session.assistant() as reply:
        replies.append(reply.id)
        reply.stream_text().append("half")
        raise error
    return replies[0]


def events(session: Session, kind: type[ev.Base]) -> list[ev.Base]:
    """The events of one kind."""
    return [recorded.event for recorded in session.events() if isinstance(recorded.event, kind)]


@contextmanager
def run_by_another(session: Session, request: str) -> Generator[Callable[[Callable[[], object]], None]]:
    """Let a thread hold the turn of a request; it does what it is handed before it lets go."""
    begun, ended = Event(), Event()
    work: list[Callable[[], object]] = []

    def run() -> None:
        with session.turn("hi", request) as turn:
            assert turn.mine
            begun.set()
            ended.wait(60.0)
            for each in work:
                each()

    thread = Thread(target=run)
    thread.start()
    assert begun.wait(60.0)
    try:
        yield work.append
    finally:
        ended.set()
        thread.join()


def test_a_turn_is_answered_by_the_first_that_asks(engine: Engine) -> None:
    """The first that asks answers; later ones get the answer, in every process."""
    store = engine.open()
    session = store.create_session(id="s")
    with session.turn("hi", "r") as turn:
        assert seen(turn) == ("new", True, ())
        called = answer(session, "tool-calls")
        said = answer(session)
    assert not session.executor.holds_lease
    assert seen(turn) == ("done", False, (called, said))
    for again in (session, engine.open().session("s")):
        found = asked(again)
        assert (found.state, found.message, found.answer) == ("done", turn.message, (called, said))
    assert len(events(session, ev.UserMessageAdded)) == 1
    with pytest.raises(RequestReusedError):
        asked(session, "something else")
    with pytest.raises(CallError):
        session.turn("hi", cast("str", 5))


def test_a_look_at_a_turn_takes_nothing(engine: Engine) -> None:
    """One who looks at a turn does not answer it: no lease, no message, in any process."""
    store = engine.open()
    session = store.create_session(id="s")
    both = [session, engine.open().session("s")]
    look = AsyncSession(both[1]).turn_state
    with pytest.raises(NotFoundError):
        session.turn_state("r")
    session.user("hi", request_id="r")
    version, held = session.version, store.log.head("s")
    assert [each.turn_state("r") for each in both] == ["pending"] * 2
    assert (session.version, store.log.head("s")) == (version, held)
    with session.turn("hi", "r") as turn:
        assert turn.mine
        assert [each.turn_state("r") for each in both] == ["running"] * 2
        session.user("more", request_id="q", delivery="queue")
        assert [each.turn_state("q") for each in both] == ["queued"] * 2
        answer(session)
        assert asyncio.run(look("r")) == "done"
    session.rollback(before=turn.message)
    assert [each.turn_state("r") for each in both] == ["withdrawn"] * 2


def test_a_turn_that_no_task_answers_is_resumed(engine: Engine) -> None:
    """A question without an answer is resumed, also after its owner died in mid-answer."""
    store = engine.open()
    session = store.create_session(id="s")
    message = session.user("hi", request_id="r")
    assert asked(session).state == "resumed"
    with session.turn("hi", "r") as turn:
        reply = session.assistant()
        reply.begin()
        reply.stream_text().append("half")
        session.flush()
        LIVE.pop(store.host.owner.store, None)  # the process dies
        taken = engine.open().session("s")
        with taken.turn("hi", "r") as again:
            assert (again.state, again.message, again.answer) == ("resumed", message, ())
            said = answer(taken)
        with pytest.raises((FencedError, LeaseHeldError)):
            reply.finish()
        assert not turn.answer
        with suppress(FencedError, LeaseHeldError):
            session.flush()
    assert (again.state, again.answer) == ("done", (said,))
    assert asked(session).answer == (said,)


def test_a_caller_may_wait_for_the_answer_or_the_lease(store: Store) -> None:
    """With a wait the caller gets the answer once it is there, or answers if the other let go."""
    session = store.create_session()
    found: list[tuple[str, bool]] = []

    def follow(request: str) -> None:
        with session.turn("hi", request, wait=60.0) as turn:
            found.append((turn.state, turn.mine))
            if turn.mine:
                answer(session)

    for request, works in (("r", [lambda: answer(session)]), ("r2", [])):
        with run_by_another(session, request) as other:
            thread = Thread(target=follow, args=(request,))
            thread.start()
            thread.join(0.05)
            for work in works:
                other(work)
        thread.join(60.0)
    assert found == [("done", False), ("resumed", True)]
    assert asked(session, request="r2").state == "done"


def test_a_failed_turn_is_begun_again(engine: Engine) -> None:
    """A failed turn stays so until `retry`; what failed leaves the view and is recorded."""
    session = engine.open().create_session(id="s")
    failed = broken(session, KeyError)
    with session.turn("hi", "r") as turn:
        assert (turn.state, turn.mine, turn.error) == ("failed", False, MessageError("unknown", "KeyError"))
        with engine.open().session("s").lease(), pytest.raises(LeaseHeldError):
            turn.retry()
        turn.retry()
        assert seen(turn) == ("resumed", True, ())
        with pytest.raises(RefusedError):
            turn.retry()
        with suppress(ValueError), session.assistant() as reply:
            raise ValueError
    assert turn.state == "failed"
    with session.turn("hi", "r") as turn:
        turn.retry()
        said = answer(session)
    assert (turn.state, turn.answer) == ("done", (said,))
    assert events(session, ev.MessageRemoved) == [ev.MessageRemoved(failed), ev.MessageRemoved(reply.id)]
    attempts = [event.kind for event in events(session, ev.PartStarted) if isinstance(event, ev.PartStarted)]
    assert [kind for kind in attempts if isinstance(kind, Retry)] == [
        Retry(1, MessageError("unknown", "KeyError")),
        Retry(2, MessageError("unknown", "ValueError")),
    ]
    with pytest.raises(RefusedError):
        turn.retry()


def test_a_retry_waits_for_the_task_that_runs_the_session(store: Store) -> None:
    """As long as its turn waits: the page's program ends without an error, also as a task."""
    for is_async in (False, True):
        session = store.create_session()
        broken(session, KeyError)
        session.user("later", request_id="later")
        began = Event()

        def later(session: Session = session, began: Event = began) -> None:
            with session.turn("later", "later"):
                began.set()
                time.sleep(0.2)
                answer(session)

        async def again(session: Session = session) -> str:
            async with AsyncSession(session).turn("hi", "r", wait=10.0) as turn:
                await turn.retry()
                return turn.state

        other = Thread(target=later)
        other.start()
        began.wait()
        if is_async:
            assert asyncio.run(again()) == "done"
        else:
            with session.turn("hi", "r", wait=10.0) as turn:
                turn.retry()
                assert turn.state == "done"
        other.join()
        assert not session.executor.holds_lease


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, asyncio.CancelledError, ConnectionResetError])
def test_a_stopped_program_leaves_its_turn_to_be_resumed(engine: Engine, stop: type[BaseException]) -> None:
    """After Ctrl-C and the like the text is there, the lease is free, and the turn goes on."""
    session = engine.open().create_session(id="s")
    reply = broken(session, stop)
    assert [event.text for event in events(session, ev.PartDelta) if isinstance(event, ev.PartDelta)] == ["half"]
    other = engine.open().session("s")
    with other.turn("hi", "r") as turn:
        assert (turn.state, turn.answer) == ("resumed", ())
        answer(other)
    assert turn.state == "done"
    assert events(other, ev.MessageRemoved) == [ev.MessageRemoved(reply)]


def test_a_reply_of_unknown_end_is_no_answer(store: Store) -> None:
    """A reply of unknown end leaves the turn to go on; calls that the provider ran do not."""
    session = store.create_session()
    with session.turn("hi", "r") as turn:
        answer(session, "unknown")
    assert turn.state == "new"
    assert asked(session).state == "resumed"
    with session.turn("hi", "r") as turn, session.assistant() as reply:
        reply.tool("search", call_id="c", input={}, provider_executed=True).succeed("found")
        reply.finish("stop")
    assert turn.state == "done"


def test_a_queued_question_waits_for_its_promotion(store: Store) -> None:
    """The answer to an earlier question is none to one that is queued and not promoted."""
    session = store.create_session()
    with session.turn("first", "r1"):
        with session.turn("second", "r2", delivery="queue"):
            pass
        answer(session)
    with session.turn("second", "r2", delivery="queue") as turn:
        assert seen(turn) == ("resumed", True, ())
        session.context.promote(turn.message)
        said = answer(session)
    assert seen(turn) == ("done", False, (said,))


def test_the_right_to_answer_goes_to_children_and_ends_with_the_block(store: Store) -> None:
    """Threads and tasks that the holder starts may write; afterwards they are fenced."""
    chat = AsyncSession(store.create_session())
    session = chat.sync

    def set_todos() -> None:
        session.set_todos([])

    async def child() -> None:
        await asyncio.to_thread(set_todos)

    async def parent() -> None:
        async with chat.turn("hi", "r") as turn:
            assert (turn.state, turn.mine) == ("new", True)
            await asyncio.create_task(child())
            late = copy_context()
            with pytest.raises(LeaseHeldError):
                await asyncio.get_running_loop().run_in_executor(None, set_todos)
            async with chat.assistant() as reply:
                text = reply.stream_text()
                await asyncio.get_running_loop().run_in_executor(None, text.append, "from any thread")
                await reply.end(text)
                await reply.finish()
        assert (turn.state, turn.mine) == ("done", False)
        with pytest.raises(FencedError):
            late.run(set_todos)

    asyncio.run(parent())
    assert not session.executor.holds_lease


def test_a_task_that_is_cancelled_while_it_asks_leaves_no_lease(store: Store) -> None:
    """Cancelling a turn at any point gives its lease back."""
    chat = AsyncSession(store.create_session())

    async def ask(request: str) -> None:
        async with chat.turn("hi", request):
            await asyncio.sleep(60.0)

    async def cancelled(number: int) -> None:
        task = asyncio.create_task(ask(f"r{number}"))
        for _ in range(number):
            await asyncio.sleep(0)
        await asyncio.sleep(number / 20_000)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    async def each() -> None:
        for number in range(60):
            await cancelled(number)
        async with chat.lease(wait=60.0):  # once the threads of the cancelled tasks are done
            pass

    asyncio.run(each())
    assert not chat.sync.executor.holds_lease


def test_a_failed_call_is_made_again_in_the_same_reply(store: Store) -> None:
    """The parts of a failed attempt are removed, and a retry part stands for it."""
    session = store.create_session()
    api = MessageError("api", "429")

    def said(reply: Reply) -> tuple[TextStream, ToolCall]:
        text, thought = reply.stream_text(), reply.stream_reasoning()
        text.append("half")
        thought.append("well")
        reply.tool("search", call_id="s", input={}, provider_executed=True).succeed("found")
        call = reply.tool("bash", call_id="c")
        call.stream_input("{")
        return text, call

    with session.turn("hi", "r") as turn, session.assistant() as reply:
        reply.step()
        before = reply.add_text("kept")
        reply.end_step()
        reply.step()
        for _ in range(2):
            text, call = said(reply)
            reply.retry(api)
            with pytest.raises(RefusedError):
                text.append("more")
            with pytest.raises(NotFoundError):
                reply.call(call.id)
        text, call = said(reply)
        call.start({})
        with pytest.raises(RefusedError):
            reply.retry(api)
        call.succeed("out")
        reply.finish("tool-calls")
        with pytest.raises(RefusedError):
            reply.retry(api)
    kinds = {event.part: event.kind for event in events(session, ev.PartStarted) if isinstance(event, ev.PartStarted)}
    assert [kind for kind in kinds.values() if isinstance(kind, Retry)] == [Retry(1, api), Retry(2, api)]
    removed = [event.part for event in events(session, ev.PartRemoved) if isinstance(event, ev.PartRemoved)]
    assert [type(kinds[part]) for part in removed] == [Text, Reasoning, Tool, Tool] * 2
    assert before not in removed
    assert text.id not in removed
    assert [event.text for event in events(session, ev.PartDelta) if isinstance(event, ev.PartDelta)].count("half") == 3
    assert turn.answer == (reply.id,)


def test_a_turn_without_a_text_is_the_question_that_waits(engine: Engine) -> None:
    """A program that did not ask goes on with the newest question, and the half answer goes."""
    session = engine.open().create_session(id="s")
    half = broken(session, KeyboardInterrupt)
    session = engine.open().session("s")
    with session.turn() as turn:
        assert (turn.state, turn.mine, turn.answer) == ("resumed", True, ())
        whole = answer(session)
    assert seen(turn) == ("done", False, (whole,))
    assert [event.message for event in events(session, ev.MessageRemoved)] == [half]  # type: ignore[attr-defined]
    assert asked(session).answer == (whole,)
    with session.turn() as again:
        assert seen(again) == ("done", False, (whole,))


def test_a_turn_without_a_text_is_the_users_question_where_it_was_compacted(engine: Engine) -> None:
    """A message that a compaction adds is no question of its own, answered or not."""
    with engine.open() as store:
        session = store.create_session(id="s")
        with session.turn("Why two tides?", "r1") as turn:
            compacted(session, goes_on="c1")
            compacted(session, goes_on="c2")
    with engine.open() as store, store.session("s").turn() as again:
        assert (again.message, again.state) == (turn.message, "resumed")
        answer(store.session("s"))
    with engine.open() as store:
        session = store.session("s")
        with session.turn() as done:
            assert (done.message, done.state) == (turn.message, "done")
        session.rollback(before=done.answer[0])
        with session.turn() as again:
            assert (again.message, again.state) == (turn.message, "resumed")
            answer(session)
        assert store.unfinished() == []


def test_a_compaction_that_goes_on_without_its_question_is_a_turn_itself(store: Store) -> None:
    """Without a question before it, what a compaction adds is the turn that waits."""
    session = store.create_session(id="s")
    compacted(session, goes_on="c1")
    with session.turn() as turn:
        assert (turn.message, turn.state) == ("c1", "resumed")
        answer(session)
    asked = session.user("Why?")
    compacted(session, goes_on="c2")
    session.remove_message(asked)
    with session.turn() as turn:
        assert (turn.message, turn.state) == ("c2", "resumed")
        answer(session)
    assert store.unfinished() == []


def test_a_turn_without_a_text_may_be_one_that_is_queued(store: Store) -> None:
    """Once the newest question is answered, the oldest queued one is what waits."""
    session = store.create_session()
    first = session.user("first")
    queued = [session.user(f"later {number}", delivery="queue") for number in range(2)]
    with session.turn() as turn:
        assert turn.message == first
        answer(session)
    with session.turn() as turn:
        assert (turn.message, turn.mine) == (queued[0], True)
        session.context.promote(turn.message)
        answer(session)
    assert turn.state == "done"


def test_a_turn_without_a_text_needs_a_question(store: Store) -> None:
    """A session in which nothing was asked, and half of the arguments, are refused."""
    session = store.create_session()
    with pytest.raises(RefusedError, match="nothing was asked"), session.turn():
        pass
    for text, request in (("hi", None), (None, "r")):
        with pytest.raises(CallError, match="or neither"), session.turn(text, request):
            pass

    async def ask() -> None:
        session.user("hi")
        async with AsyncSession(session).turn() as turn:
            assert turn.mine

    asyncio.run(ask())


@pytest.mark.parametrize("is_queued_first", [True, False], ids=["queued, stopped", "stopped, queued"])
def test_a_fork_of_half_an_answer_is_stopped_and_goes_on(engine: Engine, *, is_queued_first: bool) -> None:
    """A stop ends what was open when the fork was made; a later queued question comes next."""
    with engine.open() as store:
        session = store.create_session()
        session.user("start")
        with session.assistant() as reply:
            reply.stream_text().append("half an ans")
            session.flush()
            fork = session.fork()
        if not is_queued_first:
            fork.interrupt()
        queued = fork.user("afterwards", delivery="queue")
        if is_queued_first:
            fork.interrupt()
        assert [info.id for info in store.unfinished()] == [fork.id]
        with fork.turn() as turn:
            assert (turn.message == queued, turn.state) == (
                (False, "stopped") if is_queued_first else (True, "resumed")
            )
