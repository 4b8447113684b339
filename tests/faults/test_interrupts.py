"""Ctrl-C and its like at every place of a turn where Python lets one in: the caller sees it, and the store is as sound as after a crash."""

from __future__ import annotations

import asyncio
import gc
import sys
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import eventlog
from eventlog import events as ev
from eventlog.errors import BusyError, LeaseHeldError, RefusedError
from eventlog.log.contract import LeaseState
from eventlog.session.session import Session
from eventlog.store import Store, open_store
from tests.faults.tally import SLOW, tally
from tests.support.faulty_log import FaultyLog
from tests.support.sample_sessions import last

INTERRUPTS: tuple[type[BaseException], ...] = (KeyboardInterrupt, SystemExit, asyncio.CancelledError)
ENGINE = str(Path(eventlog.__file__).parent)
STEP = 1 if SLOW else 41
"""Which of the places are tried: each, or one of so many."""


@pytest.fixture
def store(log: FaultyLog) -> Store:
    """A store whose deltas are flushed by commands only."""
    return Store(log, flush_interval=1000.0)


@pytest.fixture
def session(store: Store) -> Session:
    """A session in it."""
    return store.create_session(id="s", title="t")


class Interrupter:
    """A profiler that throws at the n-th place: where a function begins, and where a built-in returns, as a signal would."""

    def __init__(self, at: int, kind: type[BaseException]) -> None:
        self.left = at
        self.kind = kind

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """One place, if it is in the engine."""
        if event not in {"call", "c_return"} or not frame.f_code.co_filename.startswith(ENGINE):
            return
        self.left -= 1
        if not self.left:
            sys.setprofile(None)
            raise self.kind


def turn(session: Session, told: list[str]) -> None:
    """An answer with a text, a tool and another text; tells what it knows to be durable."""
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
    """What of the turn is in the log."""
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
    """A turn that is interrupted at the n-th place, and what comes after; returns what was told, None without such a place."""
    told: list[str] = []
    interrupter = Interrupter(at, kind)
    session.user("asked")
    seen: BaseException | None = None
    gc.disable()  # what a finalizer raises nobody sees
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
    """Promises 1 and 12: wherever it comes, the caller sees it, what was told is there once, the handle goes on, what is open is settled."""
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
    """Ctrl-C while `finish` waits for the disk is what leaves the block, and the message is finished as was asked."""
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
    assert not session.holds_lease


@pytest.mark.parametrize("block", ["reply", "lease", "store"])
def test_what_fails_while_a_block_is_closed_does_not_hide_an_interrupt(
    log: FaultyLog, store: Store, session: Session, block: str
) -> None:
    """Ctrl-C leaves a block as what it is; that the disk was full then is a note on it."""

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
    with suppress(RefusedError):  # what was accepted under the lease has no place any more
        store.close()


@pytest.mark.promise(4)
@pytest.mark.parametrize("way", ["flush", "tick", "say", "finish", "abort", "leave"])
def test_a_lease_lost_before_the_reply_began_is_told(log: FaultyLog, store: Store, session: Session, way: str) -> None:
    """Promise 4: a reply whose beginning was never committed, because the lease was lost, ends as `LeaseHeldError`."""

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
    """An error of the program does not keep what closing it could not write from being told."""

    def talk() -> None:
        with session.assistant():
            log.refuse = 100
            raise KeyError

    with pytest.raises(BusyError):
        talk()
    log.refuse = 0
    with suppress(RefusedError):
        store.close()
