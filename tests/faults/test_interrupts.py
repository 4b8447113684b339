"""Ctrl-C at every place of a turn: the caller sees it, the store stays sound."""

from __future__ import annotations

import asyncio
import gc
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from eventlog import events as ev
from eventlog.errors import BusyError, LeaseHeldError, RefusedError
from eventlog.log.commit import LeaseState
from eventlog.open_store import open_store
from eventlog.session.session import Session
from eventlog.store import Store
from tests.faults.tally import SLOW, tally
from tests.support.faulty_log import FaultyLog
from tests.support.interrupter import Interrupter
from tests.support.sample_sessions import last

INTERRUPTS: tuple[type[BaseException], ...] = (KeyboardInterrupt, SystemExit, asyncio.CancelledError)
STEP = 1 if SLOW else 41
"""Which places are tried: each, or one of so many."""


@pytest.fixture
def store(log: FaultyLog) -> Store:
    """A store whose deltas are flushed by commands only."""
    return Store(log, flush_interval=1000.0)


@pytest.fixture
def session(store: Store) -> Session:
    """A session of the store."""
    return store.create_session(id="s", title="t")


def turn(session: Session, told: list[str]) -> None:
    """Run an answer with two texts and a tool; report what is known to be durable."""
    with session.assistant(id="m") as reply:
        text = reply.stream_text(id="text")
        text.append("a")
        text.append("b")
        text.end()
        told.append("text")
        call = reply.tool("bash", call_id="c", input={"x": 1}, id="call")
        told.append("running")
        call.succeed("out")
        told.append("result")
        reply.stream_text(id="more").append("c")
        reply.finish("stop")
        told.append("finish")


def durable(session: Session) -> list[str]:
    """The parts of the turn that are in the log."""
    found: list[str] = []
    text = ""
    for event in (recorded.event for recorded in session.events()):
        match event:
            case ev.PartDelta(part="text", text=piece):
                text += piece
            case ev.PartEnded(part="text") if text == "ab":
                found.append("text")
            case ev.ToolRunning(part="call"):
                found.append("running")
            case ev.ToolCompleted(part="call"):
                found.append("result")
            case ev.MessageFinished(message="m", reason="stop"):
                found.append("finish")
            case _:
                pass
    return found


def interrupted(session: Session, at: int, kind: type[BaseException]) -> list[str] | None:
    """Run a turn interrupted at the n-th place; return its outcomes, None without a place."""
    told: list[str] = []
    interrupter = Interrupter(at, kind)
    session.user("asked")
    seen: BaseException | None = None
    gc.disable()  # errors in finalizers are not visible
    sys.setprofile(interrupter)
    try:
        turn(session, told)
    except BaseException as error:  # noqa: BLE001 - compared below
        seen = error
    finally:
        sys.setprofile(None)
        gc.enable()
    if interrupter.left > 0:
        return None
    assert type(seen) is kind, f"place {at}: {seen!r}"
    session.user("later")
    with session.assistant() as reply:
        reply.finish()
    return told


@pytest.mark.promise(1, 12)
@pytest.mark.parametrize("kind", INTERRUPTS)
def test_an_interrupt_at_any_place_of_a_turn_is_seen_and_leaves_a_sound_store(
    tmp_path: Path, kind: type[BaseException]
) -> None:
    """Promises 1 and 12: Ctrl-C at any place reaches the caller; acknowledged events are once."""
    told: dict[str, list[str]] = {}
    place = 1 + INTERRUPTS.index(kind)
    with open_store(tmp_path / "store", flush_interval=1000.0) as store:
        while (known := interrupted(session := store.create_session(id=f"s{place}"), place, kind)) is not None:
            told[session.id] = known
            place += STEP
    with open_store(tmp_path / "store") as again:
        assert again.log.check() == []
        for name, known in told.items():
            session = again.session(name)
            with session.lease():
                assert session.reader.state().open_messages() == (), name
            assert durable(session)[: len(known)] == known, name
    assert len(told) * STEP > 600
    tally(f"{kind.__name__} in a turn", len(told))


@pytest.mark.parametrize("kind", INTERRUPTS)
def test_an_interrupted_finish_is_finished(
    session: Session, monkeypatch: pytest.MonkeyPatch, kind: type[BaseException]
) -> None:
    """Ctrl-C while `finish` waits leaves the block, and the message is finished."""
    wait = session.executor.writer.wait

    def broken_off(*given: Any, **options: Any) -> Any:
        monkeypatch.undo()
        wait(*given, **options)
        raise kind

    def talk() -> None:
        with session.assistant() as reply:
            monkeypatch.setattr(session.executor.writer, "wait", broken_off)
            reply.finish("stop")

    with pytest.raises(kind):
        talk()
    assert isinstance(finished := last(session), ev.MessageFinished)
    assert (finished.reason, finished.error) == ("stop", None)
    assert not session.executor.holds_lease


@pytest.mark.parametrize("block", ["reply", "lease", "store"])
def test_what_fails_while_a_block_is_closed_does_not_hide_an_interrupt(
    log: FaultyLog, store: Store, session: Session, block: str
) -> None:
    """Ctrl-C leaves a block as itself, with a failed close as its note."""

    def full() -> None:
        log.refuse = 100
        raise KeyboardInterrupt

    def talk() -> None:
        if block == "reply":
            with session.assistant():
                full()
        elif block == "lease":
            with session.lease():
                session.assistant().begin()
                full()
        else:
            session.executor.acquire()
            with store:
                session.assistant().begin()
                full()

    with pytest.raises(KeyboardInterrupt) as seen:
        talk()
    assert ["full" in note for note in seen.value.__notes__] == [True]
    log.refuse = 0
    with suppress(RefusedError):  # events accepted under the lost lease can no longer be written
        store.close()


@pytest.mark.promise(4)
@pytest.mark.parametrize("way", ["flush", "tick", "say", "finish", "abort", "leave"])
def test_a_lease_lost_before_the_reply_began_is_told(log: FaultyLog, store: Store, session: Session, way: str) -> None:
    """Promise 4: a reply whose start lost the lease ends with `LeaseHeldError`."""

    def talk() -> None:
        with session.assistant() as reply:
            head = log.head("s")
            assert head is not None
            assert log.set_lease("s", LeaseState(head.lease.epoch + 1), replaces=head.lease)
            if way == "flush":
                session.flush()
            elif way == "tick":
                store.host.flusher.tick()
            elif way == "say":
                reply.add_text("x")
            elif way == "finish":
                reply.finish()
            elif way == "abort":
                reply.abort()

    with pytest.raises(LeaseHeldError):
        talk()
    assert isinstance(last(Store(log).session("s")), ev.SessionStarted)


def test_a_full_disk_is_told_to_a_block_that_no_interrupt_left(log: FaultyLog, store: Store, session: Session) -> None:
    """A disk error while a block closes after a program error is reported with it."""

    def talk() -> None:
        with session.assistant():
            log.refuse = 100
            raise KeyError

    with pytest.raises(BusyError):
        talk()
    log.refuse = 0
    with suppress(RefusedError):
        store.close()
