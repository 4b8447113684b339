"""The writer under faults: appends that fail, are refused, or come behind another's."""

from __future__ import annotations

from concurrent.futures import wait
from typing import Any

import pytest

from eventlog import events as ev
from eventlog.codec.large_texts import INLINE
from eventlog.errors import BusyError, ConflictError
from eventlog.session.session import Session
from eventlog.state.decide import decide
from eventlog.state.state import State
from eventlog.store import Store
from eventlog.values import File
from tests.support.faulty_log import FaultyLog, bound_runs
from tests.support.sample_sessions import begin, said


def other(log: FaultyLog) -> Session:
    """Return the same session as another program has it."""
    return Store(log, flush_interval=1000.0).session("s")


@pytest.mark.parametrize("place", ["before", "after"])
def test_an_interrupt_leaves_no_handle_behind_its_own_appends(
    session: Session, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """After Ctrl-C while an outcome is taken in, the next look sees what was committed."""
    settle = State.commit_to

    def interrupted(state: State, version: int) -> None:
        if place == "after":
            settle(state, version)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(State, "commit_to", interrupted)
        with pytest.raises(KeyboardInterrupt):
            session.user("one")
    head = session.store.log.head("s")
    assert head is not None
    assert session.version == head.version == session.executor.writer.newest() == 3
    assert len(list(session.events())) == head.version


@pytest.mark.promise(1)
@pytest.mark.parametrize("number", range(4))
def test_an_interrupt_loses_and_doubles_nothing(
    log: FaultyLog, session: Session, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Promise 1: Ctrl-C while accepted events are decided anew loses and doubles none."""
    calls = 0

    def interrupted(*given: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == number + 1:
            raise KeyboardInterrupt
        return decide(*given)

    with session.assistant() as reply:
        text = reply.stream_text(id="p")
        session.flush()
        for piece in "abc":
            text.append(piece)
            reply.part(File("text/plain", piece))
        log.fail = 1
        with monkeypatch.context() as patch:
            patch.setattr("eventlog.append.accepted_commands.decide", interrupted)
            with pytest.raises(KeyboardInterrupt if number < 3 else BusyError):
                session.flush()
        reply.finish()
    assert said(session) == {"p": "abc"}
    assert said(other(log)) == {"p": "abc"}
    kinds = [event.kind for recorded in session.events() if isinstance(event := recorded.event, ev.PartStarted)]
    assert [kind.url for kind in kinds if isinstance(kind, File)] == ["a", "b", "c"]


@pytest.mark.promise(1)
@pytest.mark.parametrize("way", ["refuse", "fail"])
def test_a_failed_flush_keeps_what_was_accepted(log: FaultyLog, session: Session, way: str) -> None:
    """Promise 1: deltas and events whose flush failed go in, in order, with the next append."""
    with session.assistant() as reply:
        text = reply.stream_text(id="p")
        text.append("a")
        reply.part(File("text/plain", "x" * 2 * INLINE))
        text.append("b")
        setattr(log, way, 1)
        with pytest.raises(BusyError):
            session.flush()
        text.append("c")
        setattr(log, way, 1)
        with pytest.raises(BusyError):
            session.rename("lost")
        session.rename("kept")
        text.append("d")
        reply.finish()
    assert said(session) == {"p": "abcd"}
    assert said(other(log)) == {"p": "abcd"}
    kinds = [type(recorded.event).__name__ for recorded in session.events(2)]
    assert kinds[:6] == ["PartStarted", "PartDelta", "PartStarted", "PartDelta", "PartDelta", "SessionRenamed"]
    assert [recorded.event.title for recorded in session.events() if isinstance(recorded.event, ev.SessionRenamed)] == [
        "kept"
    ]
    file = next(
        r.event.kind for r in session.events() if isinstance(r.event, ev.PartStarted) and isinstance(r.event.kind, File)
    )
    assert session.store.text(file.url) == "x" * 2 * INLINE


@pytest.mark.promise(1)
def test_the_background_flush_tries_again(log: FaultyLog) -> None:
    """Promise 1: when a disk has room again, accepted deltas are committed without an error."""
    store = Store(log, flush_interval=0.005)
    session = store.create_session(id="s")
    watcher = other(log)
    with session.assistant() as reply:
        text = reply.stream_text(id="p")
        session.flush()
        log.fail = 3
        text.append("kept")
        for _ in range(6000):
            if said(watcher):
                break
            log.wait_after(log.last_positions(), 0.01)
        assert said(watcher) == {"p": "kept"}
        reply.finish()
    assert log.fail == 0
    store.close()


@pytest.mark.promise(1)
def test_a_full_buffer_stays_bounded_while_nothing_can_be_written(log: FaultyLog, session: Session) -> None:
    """Promise 1: a buffer that cannot be emptied refuses more deltas, and drops none."""
    session.executor.writer.buffer.capacity = session.executor.writer.buffer.limit = 3 * 4
    with session.assistant() as reply:
        text = reply.stream_text(id="p")
        session.flush()
        log.refuse = 8
        accepted: list[str] = []
        for number in range(20):
            try:
                text.append(str(number))
            except BusyError:
                continue
            accepted.append(str(number))
        assert log.refuse == 0
        reply.finish()
    assert accepted == ["0", "1", "2", "3", *(str(number) for number in range(12, 20))]
    assert said(session) == {"p": "".join(accepted)}


@pytest.mark.promise(2)
def test_an_append_that_follows_a_failed_one_is_decided_anew(log: FaultyLog, session: Session) -> None:
    """Promise 2: an event decided after an append that failed never goes in before it."""
    with session.assistant() as reply:
        text = reply.stream_text(id="p")
        text.append("a")
        log.fail = 1
        session.executor.writer.hand_over()
        text.append("b")
        session.rename("t2")
        reply.finish()
    assert said(other(log)) == {"p": "ab"}
    assert [commit.count for commit in log.read("s")][:2] == [1, 5]


@pytest.mark.promise(4)
def test_a_user_message_between_decision_and_commit_is_taken_in(log: FaultyLog, session: Session) -> None:
    """Promise 4: a user message, which needs no lease, and a streaming writer both commit."""
    stranger = other(log)
    with session.assistant(id="a") as reply:
        text = reply.stream_text(id="p")
        for number in range(4):
            text.append(str(number))
            log.meanwhile.append(lambda number=number: stranger.user("hi", id=f"m{number}"))  # type: ignore[misc]  # bound now
            session.flush()
        log.meanwhile.append(lambda: stranger.rename("theirs"))
        reply.finish()
    assert said(session) == {"p": "0123"}
    assert [recorded.event for recorded in session.events()] == [recorded.event for recorded in stranger.events()]
    assert session.reader.find("m3") < session.version


def test_two_programs_change_the_card_at_once(log: FaultyLog, session: Session) -> None:
    """When a title change and an archiving cross, the catalog shows what the events say."""
    stranger = other(log)
    log.meanwhile.append(lambda: stranger.rename("theirs"))
    session.archive()
    info = session.store.info("s")
    assert (info.title, info.archived) == ("theirs", True)
    stranger.rename("again")
    session.unarchive()
    info = session.store.info("s")
    assert (info.title, info.archived) == ("again", False)


@pytest.mark.promise(4)
def test_an_expected_version_is_checked_inside_the_commit(log: FaultyLog, session: Session) -> None:
    """Promise 4: a version that is wrong at the commit is a conflict; nothing is written."""
    stranger = other(log)
    log.meanwhile.append(lambda: stranger.rename("theirs"))
    with pytest.raises(ConflictError) as caught:
        session.append([(1, ev.Custom("n", "{}"))], expected_version=1)
    assert (caught.value.expected, caught.value.actual) == (1, 2)
    log.meanwhile.append(lambda: stranger.rename("theirs again"))
    with pytest.raises(ConflictError):
        session.append([(1, ev.TodosSet(()))])
    assert [type(recorded.event) for recorded in session.events()] == [
        ev.SessionStarted,
        ev.SessionRenamed,
        ev.SessionRenamed,
    ]


@pytest.mark.promise(5)
def test_a_request_in_flight_is_not_made_twice(log: FaultyLog, session: Session) -> None:
    """Promise 5: a request repeated before its outcome is known is the same append."""
    log.held = []
    renames = [begin(lambda: session.append([(1, ev.SessionRenamed("a"))], request_id="r")) for _ in range(2)]
    assert wait(renames, 0.1).done == set()
    log.let_go()
    assert [rename.result(60).first for rename in renames] == [2, 2]
    assert session.version == 2


@pytest.mark.promise(1)
def test_pieces_that_could_not_be_handed_over_are_not_lost(
    log: FaultyLog, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise 1: all deltas of a run come in order when one of its appends was refused first."""
    bound_runs(monkeypatch, 10)
    session.user("go")
    with session.assistant(model="m") as reply:
        text = reply.stream_text()
        session.flush()
        for piece in ("one two ", "three ", "four five ", "six"):
            text.append(piece)
        log.refuse = 1
        with pytest.raises(BusyError):
            session.flush()
        text.append(" seven")
        session.flush()
        reply.finish("stop")
    assert list(said(session).values()) == ["one two three four five six seven"]


@pytest.mark.promise(4)
def test_a_command_that_was_refused_by_a_full_queue_is_not_committed_later(
    log: FaultyLog, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise 4: an event that was refused by a full queue is not committed later."""
    monkeypatch.setattr("eventlog.append.accepted_commands.MAX_ACCEPTED", 1)
    with session.assistant() as reply:
        log.refuse = 1
        with pytest.raises(BusyError):
            reply.part(File("text/plain", "twice"))
        reply.finish()
    assert not any(isinstance(recorded.event, ev.PartStarted) for recorded in session.events())
