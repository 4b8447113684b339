"""The lease of a turn costs no wait: it comes and goes with appends."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest

import eventlog
from eventlog import ConflictError, LeaseHeldError, Session
from eventlog import events as ev
from eventlog.aio import AsyncSession
from eventlog.records.feed import Feed
from eventlog.session.turn import Turn
from tests.support.engines import Engine
from tests.support.toy_records import ToyMapping

ELSEWHERE = """
import sys, eventlog
with eventlog.open(sys.argv[1]) as store:
    session = store.session("s")
    with session.turn("and now?", "elsewhere") as turn:
        assert turn.state == "new", turn.state
        with session.assistant("p/m") as reply:
            reply.finish()
    with session.lease(wait=5.0):
        pass
"""


def answered(session: Session, request: str) -> None:
    """A turn with four waits: the question, the call, its result, the end."""
    with session.turn("a question", request) as turn:
        assert (turn.mine, turn.state) == (True, "new")
        with session.assistant("p/m") as reply:
            reply.stream_text().append("an answer")
            reply.tool("bash", call_id="c", input={}).succeed("done")
            reply.finish()
    assert turn.answer == (reply.id,)


def test_a_turn_waits_for_the_disk_four_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn with four waits takes four flushes of the disk: none is for its lease."""
    flushes: list[int] = []
    flush = os.fdatasync

    def counted(fd: int) -> None:
        flushes.append(fd)
        flush(fd)

    with eventlog.open(tmp_path / "s", flush_interval=60.0) as store:
        session = store.create_session(id="s")
        answered(session, "first")
        monkeypatch.setattr(os, "fdatasync", counted)
        for number in range(8):
            answered(session, f"r{number}")
        assert len(flushes) == 4 * 8


def test_the_claim_goes_in_with_the_user_message(engine: Engine) -> None:
    """The first append of a turn has the message, and the lease that the caller then holds."""
    with engine.open() as store:
        session = store.create_session(id="s")
        with session.turn("a question", "r"):
            head = store.log.head("s")
            assert head is not None
            assert head.lease.owner == store.host.owner.encode()
            assert [type(found.event) for found in session.events(1)] == [ev.UserMessageAdded, ev.PartStarted]
            assert store.log.head("s").appends == 2  # type: ignore[union-attr]


def test_a_lease_that_rests_stands_in_no_way(engine: Engine) -> None:
    """After a turn any store of the process runs, appends to, and erases the session at once."""
    with engine.open(flush_interval=1000.0) as store, engine.open(flush_interval=1000.0) as other:
        session, beside = store.create_session(id="s"), other.create_session(id="b") and other.session("s")
        answered(session, "r0")
        assert not session.executor.holds_lease
        answered(beside, "r1")
        answered(session, "r2")
        with beside.lease():
            beside.rename("b")
        answered(session, "r3")
        beside.append([(1, ev.SessionRenamed("raw"))])
        answered(session, "r4")
        session.user("more")
        assert "s" in {info.id for info in other.unfinished()}
        other.erase("s")


def test_a_refused_command_over_a_resting_lease_leaves_the_session_free(engine: Engine) -> None:
    """Another store's command that is refused takes a resting lease, and gives it back."""
    with engine.open(flush_interval=30) as store, engine.open(flush_interval=30) as other:
        session = store.create_session(id="s")
        answered(session, "r")
        with pytest.raises(ConflictError):
            Feed(other.session("s"), ToyMapping()).add([{"kind": "user", "text": "no"}], expected=7)
        for each in (store, other):
            assert [info.state for info in each.newest_sessions().sessions] != ["running"]
        with store.session("s").lease(), pytest.raises(LeaseHeldError), other.session("s").lease():
            pass


@pytest.mark.parametrize("interval", [0.1, 0.4])
def test_a_turn_in_another_process_waits_for_a_resting_lease(tmp_path: Path, interval: float) -> None:
    """A turn follows one that ended in another process, within its flush interval."""
    with eventlog.open(tmp_path / "s", flush_interval=interval) as store:
        session = store.create_session(id="s")
        for number in range(4):
            answered(session, f"here {number}")
            subprocess.run(
                [
                    sys.executable,
                    "-c",
                    ELSEWHERE.replace("elsewhere", str(number)).replace(
                        "open(sys.argv[1])", f"open(sys.argv[1], flush_interval={interval})"
                    ),
                    str(tmp_path / "s"),
                ],
                check=True,
            )


@pytest.mark.parametrize("step", ["ask", "patience", "decide"])
@pytest.mark.parametrize("when", ["before", "behind"])
def test_a_cancelled_turn_leaves_no_lease(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, step: str, when: str
) -> None:
    """Cancelled while its thread works, a turn frees its lease as that ends."""
    reached, goes_on = Event(), Event()
    original: Callable[..., object] = getattr(Turn, step)

    def slow(turn: Turn, **more: bool) -> object:
        result = original(turn, **more) if when == "behind" else None
        reached.set()
        assert goes_on.wait(30.0)
        return original(turn, **more) if when == "before" else result

    async def main(session: Session) -> None:
        turn = AsyncSession(session).turn("a question", "r")
        task = asyncio.ensure_future(turn.__aenter__())
        await asyncio.to_thread(reached.wait, 30.0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        goes_on.set()
        async with asyncio.timeout(30.0):
            while turn.sync.mine or session.executor.leases.running is not None:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        with other.session("s").turn("a question", "r") as again:
            assert again.mine

    with engine.open() as store, engine.open() as other:
        session = store.create_session(id="s")
        with monkeypatch.context() as patch:
            patch.setattr(Turn, step, slow)
            asyncio.run(main(session))


@pytest.mark.parametrize("step", ["patience", "decide"])
def test_a_turn_that_breaks_off_leaves_no_lease(engine: Engine, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """An exception between the message and the decision frees the lease that came with it."""

    def broken(_: Turn, **__: bool) -> None:
        raise KeyboardInterrupt

    with engine.open() as store, engine.open() as other:
        session = store.create_session(id="s")
        turn = session.turn("a question", "r")
        with monkeypatch.context() as patch:
            patch.setattr(Turn, step, broken)
            with pytest.raises(KeyboardInterrupt):
                turn.__enter__()
        with other.session("s").turn("a question", "r") as again:
            assert again.mine
        assert not turn.mine
