"""A lease taken from a live owner (`session.lease(take_over=True)`), who hears of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import pytest

import eventlog
from eventlog import AsyncSession
from eventlog import events as ev
from eventlog.errors import CallError, EventlogError, FencedError, LeaseHeldError
from eventlog.session.session import Session
from eventlog.store import Store
from projections.verify.verify import verify
from tests.support.engines import ENCRYPTED, ENGINES, Engine, places
from tests.support.faulty_log import FaultyLog
from tests.support.python_process import Program
from tests.support.sample_sessions import apart, begin

OWNER = """
import sys
import eventlog
from eventlog.errors import FencedError
with eventlog.open(sys.argv[1], flush_interval=1000.0) as store:
    session = store.session("s")
    try:
        with session.assistant(id="old") as reply:
            text = reply.stream_text(id="t")
            text.append("written ")
            session.flush()
            for word in ("not ", "written"):
                text.append(word)
            print("ready", flush=True)
            sys.stdin.readline()
            reply.finish()
    except FencedError as error:
        print(error.deltas, error.characters, error.current - error.epoch, flush=True)
"""


engine = places(*ENGINES, ENCRYPTED)


def texts(session: Session) -> dict[str, str]:
    """The streamed text of each part."""
    found: dict[str, str] = {}
    for recorded in session.events():
        if isinstance(recorded.event, ev.PartDelta):
            found[recorded.event.part] = found.get(recorded.event.part, "") + recorded.event.text
    return found


def settled(session: Session) -> list[str]:
    """The reasons with which what an owner left open was closed."""
    return [recorded.event.reason for recorded in session.events() if isinstance(recorded.event, ev.Settled)]


@contextmanager
def fenced() -> Generator[list[FencedError]]:
    """Have the block end by a `FencedError`, which is returned."""
    caught: list[FencedError] = []
    try:
        yield caught
    except FencedError as error:
        caught.append(error)
        return
    raise AssertionError("the block was not fenced")


def begun(store: Store) -> Session:
    """A session with a question."""
    session = store.create_session(id="s")
    session.user("hi", id="q")
    return session


def test_another_handle_takes_a_live_lease(engine: Engine) -> None:
    """First the epoch changes, then the session is settled; its old owner hears what it lost."""
    with engine.open(flush_interval=1000.0) as store, engine.open() as second:
        session = begun(store)
        with fenced() as caught, session.assistant(id="old") as reply:
            text = reply.stream_text(id="t")
            text.append("written ")
            session.flush()
            for word in ("not ", "writ", "ten"):
                text.append(word)
            with pytest.raises(LeaseHeldError), second.session("s").lease():
                pass
            with second.session("s").lease(take_over=True) as lease:
                assert lease.epoch == 2
                with second.session("s").assistant(id="new") as other:
                    other.add_text("mine")
                    other.finish()
            calls: list[Callable[[], object]] = [reply.finish, lambda: text.append("x"), text.end]
            for call in calls:
                with pytest.raises(FencedError) as first:
                    call()
                assert first.value.deltas == 3
            reply.finish()
        assert (caught[0].deltas, caught[0].characters) == (3, 11)
        assert (caught[0].epoch, caught[0].current) == (1, 2)
        assert "3 accepted deltas of 11 characters are not written" in str(caught[0])
        assert texts(session)["t"] == "written "
        assert settled(session) == ["taken over"]
        session.user("again")
        with session.assistant() as reply:
            reply.finish()
        assert verify(store, deep=True).sound


@pytest.mark.parametrize("first", ["delta", "finish", "tool", "lease", "rollback", "end"])
def test_every_call_of_the_old_owner_is_fenced(engine: Engine, first: str) -> None:
    """The old owner's next call is `FencedError`, whichever it is, in another store or task."""
    for same in (False, True):
        with engine.open(flush_interval=1000.0) as store, engine.open() as second:
            session = store.create_session(id=f"s{same}")
            session.user("hi")
            with fenced(), session.assistant() as reply:
                text = reply.stream_text()
                text.append("word")
                call = reply.tool("bash", call_id="c", input="{}")
                other = (store if same else second).session(session.id)

                def take(other: Session = other) -> None:
                    with other.lease(take_over=True):
                        pass

                apart(take)
                calls: dict[str, Callable[[], object]] = {
                    "delta": lambda text=text: [text.append("x"), text.end()],  # type: ignore[misc]
                    "finish": reply.finish,
                    "tool": lambda call=call: call.succeed("out"),  # type: ignore[misc]
                    "lease": lambda session=session: session.lease().__enter__().require_live(),  # type: ignore[misc]
                    "rollback": lambda session=session: session.rollback(1),  # type: ignore[misc]
                    "end": text.end,
                }
                if first == "lease" and not same:  # this handle has not looked since
                    first_call: Callable[[], object] = reply.finish
                else:
                    first_call = calls[first]
                first_call()
            assert session.reader.state().open_messages() == ()
            assert verify(store, deep=True).sound


def test_another_task_of_the_process_takes_the_lease(engine: Engine) -> None:
    """Within a handle nothing accepted is lost: it is written before the lease ends."""
    with engine.open(flush_interval=1000.0) as store:
        session = begun(store)
        with fenced() as caught, session.assistant(id="old") as reply:
            text = reply.stream_text(id="t")
            text.append("all of it")

            def take() -> int:
                with session.lease(take_over=True) as lease, session.assistant(id="new") as other:
                    other.add_text("mine")
                    with pytest.raises(FencedError):
                        text.append("too late")
                    other.finish()
                    return lease.epoch

            assert apart(take) == 2
            with pytest.raises(FencedError):
                text.append("too late")
            with pytest.raises(FencedError), session.lease():
                pass
            reply.finish()
        assert (caught[0].deltas, caught[0].epoch, caught[0].current) == (0, 1, 2)
        assert texts(session)["t"] == "all of it"
        assert settled(session) == ["taken over"]
        assert not session.executor.holds_lease
        with session.lease() as lease:
            assert lease.epoch == 3
        assert verify(store, deep=True).sound


def test_what_cannot_be_written_is_counted(log: FaultyLog) -> None:
    """Deltas that a failing log did not take before the lease ended are in the error."""
    with Store(log, flush_interval=1000.0) as store:
        session = begun(store)
        with fenced() as caught, session.assistant() as reply:
            text = reply.stream_text(id="t")
            session.flush()
            text.append("four")

            def take() -> None:
                log.fail = True
                with pytest.raises(EventlogError), session.lease(take_over=True):
                    pass
                log.fail = False
                with session.lease(take_over=True):
                    pass

            apart(take)
            reply.finish()
        assert (caught[0].deltas, caught[0].characters) == (1, 4)
        assert texts(session) == {}


def test_a_pipeline_of_the_old_owner_goes_in_not_at_all(engine: Engine) -> None:
    """A pipeline that is open when its lease is taken over is refused whole, at its end."""
    with engine.open() as store:
        session = begun(store)
        taken, done = Event(), Event()

        def old() -> None:
            with session.lease(), session.pipeline():
                session.set_todos([])
                taken.set()
                assert done.wait(30)
                with pytest.raises(FencedError):
                    session.set_todos([])

        outcome = begin(old)
        assert taken.wait(30)
        with session.lease(take_over=True), session.pipeline():
            session.set_todos([eventlog.Todo("mine", "pending")])
            done.set()
            assert isinstance(outcome.exception(30), EventlogError)
        todos = [recorded.event.todos for recorded in session.events() if isinstance(recorded.event, ev.TodosSet)]
        assert [len(each) for each in todos] == [1]


def test_a_take_over_waits_first(engine: Engine) -> None:
    """With a wait the lease is taken over only if its owner still holds it then."""
    with engine.open() as store, engine.open() as second:
        session = begun(store)
        leased, go = Event(), Event()

        def briefly() -> None:
            with session.lease():
                leased.set()
                go.wait(30)

        owner = begin(briefly)
        assert leased.wait(30)
        other = second.session("s")
        waiting = begin(lambda: _epoch(other))
        go.set()
        owner.result(30)
        assert waiting.result(30) == 2
        assert settled(session) == []


def _epoch(session: Session) -> int:
    with session.lease(wait=30, take_over=True) as lease:
        return lease.epoch


def test_a_turn_is_taken_over_and_answered(engine: Engine) -> None:
    """A turn whose task hangs goes on in another: what broke off leaves the view."""
    with engine.open() as store, engine.open() as second:
        session = store.create_session(id="s")
        with fenced(), session.turn("hi", "r1") as turn:
            assert turn.mine
            with session.assistant(id="hung") as reply:
                reply.stream_text().append("half")
                session.flush()
                with second.session("s").turn("hi", "r1") as refused:
                    assert refused.state == "running"
                with second.session("s").turn("hi", "r1", take_over=True) as other:
                    assert other.state == "resumed"
                    with second.session("s").assistant(id="answer") as answer:
                        answer.add_text("whole")
                        answer.finish()
                assert other.answer == ("answer",)
                reply.finish()
        with session.turn("hi", "r1", take_over=True) as again:
            assert (again.state, again.mine) == ("done", False)
        assert verify(store, deep=True).sound


def test_nothing_is_taken_from_a_dead_owner(engine: Engine) -> None:
    """Where no owner is live, `take_over` changes nothing: the lease is taken as any other."""
    with engine.open() as store:
        session = begun(store)
        with session.lease(take_over=True) as lease, session.lease(take_over=True) as inner:
            assert inner is lease
        assert settled(session) == []
        with pytest.raises(CallError):
            session.lease(take_over=1).__enter__()  # type: ignore[arg-type]


def test_a_process_that_was_taken_over_hears_of_it(tmp_path: Path) -> None:
    """An owner in another process loses what it had not written, and is told how much."""
    path = tmp_path / "s"
    with eventlog.open(path) as store:
        session = begun(store)
        owner = Program("-c", OWNER, path)
        assert owner.hear() == "ready"
        with pytest.raises(LeaseHeldError), session.lease():
            pass
        with session.lease(take_over=True):
            owner.tell("go")
            assert owner.hear() == "2 11 1"
        owner.end()
        assert texts(session) == {"t": "written "}
        assert verify(store, deep=True).sound


def test_an_asyncio_task_takes_the_lease_of_another(engine: Engine) -> None:
    """In one event loop a task takes over from a task that hangs; that one hears of it."""

    async def main(store: Store) -> None:
        chat = AsyncSession(begun(store))
        begun_, taken = asyncio.Event(), asyncio.Event()

        async def hung() -> None:
            async with chat.assistant() as reply:
                text = reply.stream_text()
                text.append("half")
                begun_.set()
                await taken.wait()
                await reply.finish()

        task = asyncio.create_task(hung())
        await begun_.wait()
        with pytest.raises(LeaseHeldError):
            async with chat.lease():
                pass
        async with chat.lease(take_over=True), chat.assistant("x/y") as reply:
            await reply.finish()
        taken.set()
        with pytest.raises(FencedError):
            await task
        assert settled(chat.sync) == ["taken over"]

    with engine.open() as store:
        asyncio.run(main(store))
