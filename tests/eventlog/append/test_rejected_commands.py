"""A command that was refused is not in the log, and never will be."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from eventlog import events as ev
from eventlog.aio import AsyncSession
from eventlog.codec.large_texts import INLINE
from eventlog.errors import BusyError, ConflictError, EventlogError, FencedError, LimitError, UnknownOutcomeError
from eventlog.log.commit import LeaseState
from eventlog.session.session import Session
from eventlog.store import Store
from tests.support.faulty_log import FaultyLog, bound_runs, together
from tests.support.sample_sessions import said


def users(log: FaultyLog) -> list[str]:
    """The committed user messages."""
    stored = Store(log, flush_interval=1000.0).session("s")
    return [r.event.message for r in stored.events() if isinstance(r.event, ev.UserMessageAdded)]


@pytest.mark.promise(4)
@pytest.mark.parametrize("way", ["refuse", "fail"])
def test_a_refused_pipeline_is_not_committed_later(log: FaultyLog, session: Session, way: str) -> None:
    """Promise 4: when a pipeline has no room, none of its commands is ever in the log."""
    setattr(log, way, 1)
    with pytest.raises(BusyError):
        together(session, lambda: session.user("a", id="a"), lambda: session.user("b", id="b"))
    session.rename("later")
    session.store.flush()
    assert users(log) == []
    with session.pipeline():
        session.user("a", id="a")
    assert users(log) == ["a"]


@pytest.mark.promise(4)
@pytest.mark.parametrize("way", ["refuse", "fail"])
def test_a_refused_command_of_asyncio_is_not_committed_later(log: FaultyLog, session: Session, way: str) -> None:
    """Promise 4: a refused awaited command is not committed later; repeated, it is there once."""
    chat = AsyncSession(session)

    async def say() -> None:
        setattr(log, way, 1)
        with pytest.raises(BusyError):
            await chat.user("a")
        await chat.flush()
        assert users(log) == []
        await chat.user("a")

    asyncio.run(say())
    assert len(users(log)) == 1


def test_a_cancelled_await_is_not_forgotten(log: FaultyLog) -> None:
    """A command whose await was cancelled is tried again in the background when it failed."""
    session = Store(log, flush_interval=0.005).create_session(id="s")
    chat = AsyncSession(session)

    async def give_up() -> None:
        log.held = []
        task = asyncio.create_task(chat.user("a"))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        ticket = log.held.pop()
        log.held = None
        ticket.fail(BusyError("full"))

    asyncio.run(give_up())
    assert log.wait_after([1], 20.0)
    assert len(users(log)) == 1


@pytest.mark.promise(1)
@pytest.mark.parametrize("way", ["refuse", "fail"])
def test_what_others_had_accepted_stays_when_a_pipeline_is_refused(log: FaultyLog, session: Session, way: str) -> None:
    """Promise 1: only the caller's own commands are refused; other accepted events go in next."""
    with session.assistant() as reply:
        text = reply.stream_text(id="p")
        text.append("a")
        setattr(log, way, 1)
        with pytest.raises(BusyError):
            together(session, lambda: session.user("refused"), lambda: text.append("b"))
        text.append("c")
        reply.finish()
    assert said(session) == {"p": "abc"}
    assert users(log) == []


@pytest.mark.promise(4)
@pytest.mark.parametrize("place", ["accepted_commands.MAX_ACCEPTED", "queue.MAX_RUN"])
def test_a_long_pipeline_goes_in_whole_or_not_at_all(
    log: FaultyLog, session: Session, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Promise 4: a pipeline of very many commands or bytes is one append all the same."""
    monkeypatch.setattr(f"eventlog.append.{place}", 2)

    def commands() -> None:
        with session.pipeline():
            for number in range(5):
                session.user("u" * 2 * INLINE, id=f"{number}")

    log.fail = 1
    with pytest.raises(BusyError):
        commands()
    session.store.flush()
    assert users(log) == []
    commands()
    assert users(log) == ["0", "1", "2", "3", "4"]
    assert [commit.count for commit in log.read("s")] == [1, 10]


@pytest.mark.promise(4)
@pytest.mark.parametrize("bound", ["characters", "deltas"])
def test_a_pipeline_with_much_text_goes_in_whole(
    log: FaultyLog, session: Session, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    """Promise 4: more deltas than the buffer holds are part of the pipeline's one append."""
    bound_runs(monkeypatch, 9_000)
    if bound == "deltas":
        session.executor.writer.buffer.capacity = session.executor.writer.buffer.limit = 3 * 2
    with session.assistant() as reply:
        text = reply.stream_text(id="p")
        session.flush()
        with session.pipeline():
            session.user("before", id="before")
            for number in range(5):
                text.append(str(number) * (5_000 if bound == "characters" else 2))
            session.user("after", id="after")
            assert users(log) == []
        appends = [commit.count for commit in log.read("s")]
        reply.finish()
    assert users(log) == ["before", "after"]
    assert appends == [1, 2, 2 + 5 + 2]


@pytest.mark.promise(4)
def test_a_pipeline_that_is_in_the_log_is_told_so(log: FaultyLog, session: Session) -> None:
    """Promise 4: a pipeline that its block has committed hears of no later failure."""
    with session.assistant() as reply:
        text = reply.stream_text(id="p")
        with session.pipeline():
            session.user("mine", id="m")
            session.flush()
            text.append("a")
            log.refuse = 1
        assert users(log) == ["m"]
        log.refuse = 0
        reply.finish()
    assert said(session) == {"p": "a"}


@pytest.mark.promise(4)
def test_a_pipeline_whose_flush_failed_is_committed_whole(log: FaultyLog, session: Session) -> None:
    """Promise 4: a flush that fails inside a pipeline takes none of its commands away."""
    with session.pipeline():
        session.user("a", id="a")
        log.fail = 1
        with pytest.raises(BusyError):
            session.flush()
        session.user("b", id="b")
    assert users(log) == ["a", "b"]
    assert [commit.count for commit in log.read("s")] == [1, 4]


@pytest.mark.promise(4)
def test_a_fenced_pipeline_is_refused_whole(log: FaultyLog, session: Session) -> None:
    """Promise 4: of a pipeline under a lost lease not even a user message is committed."""

    def commands() -> None:
        with session.pipeline():
            session.user("a", id="a")
            session.set_todos([])
            head = log.head("s")
            assert head is not None
            stolen = LeaseState(head.lease.epoch + 1, b"thief", head.lease.until)
            assert log.set_lease("s", stolen, replaces=head.lease)

    with session.lease(), pytest.raises(FencedError):
        commands()
    session.rename("later")
    session.store.flush()
    assert users(log) == []


@pytest.mark.promise(1)
def test_a_flush_waits_for_what_others_handed_over_again(log: FaultyLog, session: Session) -> None:
    """Promise 1: `flush` returns when all is durable, also if another thread tried again."""
    with session.assistant() as reply:
        reply.stream_text(id="p").append("a")
        log.fail = 1
        log.before_telling.append(session.executor.writer.hand_over)
        session.flush()
        assert said(Store(log).session("s")) == {"p": "a"}
        reply.finish()


@pytest.mark.promise(4)
def test_a_failure_that_others_hear_of_first_is_the_callers(log: FaultyLog, session: Session) -> None:
    """Promise 4: a failed pipeline stays out when another thread learns of the failure first."""

    def others() -> None:
        with suppress(BusyError):
            session.flush()
        session.rename("theirs")

    log.fail = 1
    log.before_telling.append(others)
    with pytest.raises(BusyError):
        together(session, lambda: session.user("a", id="a"))
    log.fail = 0
    session.store.flush()
    assert users(log) == []
    assert session.info.title == "theirs"


@pytest.mark.promise(4)
@pytest.mark.parametrize(("times", "error"), [(1, UnknownOutcomeError("gone")), (1_000, ConflictError("s", 1, 2))])
def test_an_outcome_that_is_no_commit_is_told_as_such(
    log: FaultyLog, session: Session, monkeypatch: pytest.MonkeyPatch, times: int, error: EventlogError
) -> None:
    """Promise 4: an unknown outcome, or an endless conflict, is raised; nothing is written."""
    monkeypatch.setattr("eventlog.append.backoff.PATIENCE", 0.05)
    log.fail, log.error = times, error
    with pytest.raises(type(error)):
        together(session, lambda: session.user("a", id="a"))
    log.fail = 0
    session.store.flush()
    assert users(log) == []


@pytest.mark.promise(12)
def test_what_was_accepted_outlives_a_look_that_failed(
    log: FaultyLog, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise 12: accepted events outlive a failed append and a log that cannot be read."""
    with session.assistant() as reply:
        text = reply.stream_text(id="p")
        text.append("a")
        session.flush()
        text.append("b")
        log.fail = 1
        session.executor.writer.hand_over()
        text.append("c")
        with monkeypatch.context() as patch:
            patch.setattr(log, "head", _busy)
            for _ in range(2):
                with pytest.raises(BusyError):
                    session.flush()
            assert session.executor.writer.is_ahead
        reply.finish()
    assert said(session) == {"p": "abc"}


def _busy(_: object) -> None:
    raise BusyError("too many readers at once")


@pytest.mark.promise(1)
def test_a_long_delta_that_was_refused_is_not_committed_later(
    log: FaultyLog, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise 1: a delta over the bound of the buffer is refused before it is accepted."""
    bound_runs(monkeypatch, 9_000)
    with session.assistant() as reply:
        text = reply.stream_text(id="p")
        session.flush()
        text.append("a" * 5_000)
        log.refuse = 1
        with pytest.raises(BusyError):
            text.append("b" * 5_000)
        text.append("c" * 5_000)
        reply.finish()
    assert said(session) == {"p": "a" * 5_000 + "c" * 5_000}


@pytest.mark.promise(4)
def test_a_command_under_a_lease_of_its_own_is_told_its_own_outcome(
    log: FaultyLog, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise 4: a committed command says so, also if its own lease cannot be given back."""
    give_back = log.set_lease

    def busy_at_the_end(session: str, state: LeaseState, *, replaces: LeaseState) -> bool:
        if not state.until:
            raise BusyError("locked")
        return give_back(session, state, replaces=replaces)

    monkeypatch.setattr(log, "set_lease", busy_at_the_end)
    session.set_todos([])
    assert isinstance(list(session.events())[-1].event, ev.TodosSet)
    assert not session.executor.holds_lease
    session.set_todos([])
    with session.pipeline():
        session.set_todos([])
    assert session.version == 4


@pytest.mark.promise(4)
def test_deltas_of_a_refused_pipelines_part_are_refused_with_it(log: FaultyLog, session: Session) -> None:
    """Promise 4: text for a part of a refused pipeline fails no later caller."""
    with session.assistant() as reply:
        kept = reply.stream_text(id="kept")

        def whole() -> None:
            with session.pipeline():
                reply.stream_text(id="p").append("refused")
                kept.append("stays")
                session.store.log.sync()
                log.fail = 1

        with pytest.raises(BusyError):
            whole()
        session.user("next", id="next")
        reply.finish()
    assert said(session) == {"kept": "stays"}
    assert users(log) == ["next"]


@pytest.mark.promise(4)
def test_a_pipeline_above_the_largest_append_is_refused_alone(
    log: FaultyLog, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise 4: of commands too large together, those that are small enough go in one by one."""
    monkeypatch.setattr("eventlog.append.command.MAX_APPEND_BYTES", 3_000)
    text = "u" * 700
    with session.executor.collecting() as before:
        session.user(text, id="before")
    with session.executor.collecting() as large:
        for number in range(5):
            session.user(text, id=f"{number}")
    with session.executor.collecting() as after:
        for number in range(3):
            session.user(text, id=f"after {number}")
    before.commit()
    with pytest.raises(LimitError):
        large.commit()
    after.commit()
    assert users(log) == ["before", "after 0", "after 1", "after 2"]
    session.rename("later")


def test_a_flush_that_is_always_too_late_ends(
    log: FaultyLog, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flush that always meets another writer raises so; what waits goes in later."""
    monkeypatch.setattr("eventlog.append.backoff.PATIENCE", 0.05)
    with session.executor.collecting():
        session.user("a", id="a")
    log.fail, log.error = 1_000, ConflictError("s", 1, 2)
    with pytest.raises(ConflictError):
        session.flush()
    assert log.fail > 0
    log.fail = 0
    session.flush()
    assert users(log) == ["a"]
