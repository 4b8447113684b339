"""An append that stands alone is committed by the thread that waits for it, and what interrupts that thread harms nothing."""

from __future__ import annotations

import _thread
import asyncio
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from eventlog.errors import BusyError, NotFoundError, PoisonedError, UnknownOutcomeError
from eventlog.log import frames, inbox, journal
from eventlog.log.base import Append, Log
from eventlog.log.batch import Salts
from eventlog.log.embedded import EmbeddedLog, open_log
from eventlog.log.filesystem import JournalIO
from eventlog.log.inbox import Inbox
from eventlog.log.journal import Journal
from eventlog.log.locks import WriterLock
from eventlog.log.partition import Partition
from eventlog.log.tail import Generation
from eventlog.log.ticket import QueuedTicket


class WatchedIO(JournalIO):
    """Notes which thread flushes, and does something before or after that."""

    def __init__(self) -> None:
        self.flushed_in: list[int] = []
        self.before: Callable[[], object] = lambda: None
        self.after: Callable[[], object] = lambda: None

    def fdatasync(self, fd: int) -> None:
        """Flush."""
        self.flushed_in.append(threading.get_ident())
        self.before()
        super().fdatasync(fd)
        self.after()


def waited(number: int) -> Append:
    """An append that is waited for."""
    return Append(session="s", payload=b"%d" % number, count=1, time=1, waited=True)


def begun(directory: Path, io: JournalIO, **options: Any) -> EmbeddedLog:
    """A log with a session of one event."""
    log = open_log(directory / "log", io=io, **options)
    log.submit(Append(session="s", payload=b"0", count=1, time=1, creates_at=0)).wait(30)
    return log


def payloads(log: Log) -> list[int]:
    """What the session holds."""
    return [int(commit.payload) for commit in log.read("s")]


def test_who_waits_commits(tmp_path: Path) -> None:
    """The waiting thread itself flushes an append that stands alone, the writer's thread everything else."""
    io = WatchedIO()
    log = begun(tmp_path, io)
    here = threading.get_ident()
    io.flushed_in.clear()
    assert log.submit(waited(1)).wait().first == 2
    assert io.flushed_in == [here]
    log.submit(Append(session="s", payload=b"2", count=1, time=1)).wait()
    log.submit(waited(3)).wait(30)
    first, second = log.submit(waited(4)), log.submit(waited(5))
    assert [first.wait().first, second.wait().first] == [5, 6]
    assert len(io.flushed_in) > 1
    assert here not in io.flushed_in[1:]
    with pytest.raises(NotFoundError):
        log.submit(Append(session="other", payload=b"", count=1, time=1, waited=True)).wait()
    assert payloads(log) == [0, 1, 2, 3, 4, 5]
    log.close()


def test_others_come_after_who_commits_alone(tmp_path: Path) -> None:
    """What others submit while a thread commits its own append is committed right after it, by the writer's thread."""
    io = WatchedIO()
    log = begun(tmp_path, io)
    outcomes: list[int] = []
    threads: list[threading.Thread] = []

    def write(number: int) -> None:
        outcomes.append(log.submit(waited(number)).wait().first)

    def others() -> None:
        io.before = lambda: None
        for number in range(2, 6):
            threads.append(threading.Thread(target=write, args=(number,)))
            threads[-1].start()
        plain = log.submit(Append(session="s", payload=b"6", count=1, time=1))
        time.sleep(0.05)
        assert not plain.done()
        assert not outcomes

    io.before = others
    start = time.monotonic()
    assert log.submit(waited(1)).wait().first == 2
    for thread in threads:
        thread.join(30)
    log.sync()
    assert time.monotonic() - start < inbox.RECHECK, "the writer was not woken"
    assert sorted(outcomes) == sorted(set(range(3, 8)) - {payloads(log).index(6) + 1})
    assert payloads(log)[:2] == [0, 1]
    log.close()


def test_who_cannot_commit_has_it_done_at_once(tmp_path: Path) -> None:
    """A task, and a thread with a time limit, leave the commit to the writer's thread, which is woken for it."""
    io = WatchedIO()
    log = begun(tmp_path, io)
    here = threading.get_ident()

    async def write(number: int) -> int:
        return (await log.submit(waited(number))).first

    io.flushed_in.clear()
    start = time.monotonic()
    assert asyncio.run(write(1)) == 2
    assert log.submit(waited(2)).wait(30).first == 3
    assert time.monotonic() - start < inbox.RECHECK
    assert here not in io.flushed_in
    log.close()


def test_an_append_that_nobody_waits_for_after_all(tmp_path: Path) -> None:
    """One that was to be waited for is committed all the same if its caller was stopped before it could wait."""
    log = begun(tmp_path, JournalIO())
    ticket = log.submit(waited(1))
    deadline = time.monotonic() + 30
    while not ticket.done() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert payloads(log) == [0, 1]
    log.close()


def test_a_signal_handler_may_append(tmp_path: Path) -> None:
    """A program's own signal handler may append and wait, also if the signal comes while its append is flushed."""
    io = WatchedIO()
    log = begun(tmp_path, io)
    told: list[int] = []

    def handler(*_: object) -> None:
        told.append(log.submit(waited(2)).wait().first)

    def strike() -> None:
        io.after = lambda: None
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
        time.sleep(0.02)

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        io.after = strike
        assert log.submit(waited(1)).wait().first == 2
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert told == [3]
    assert payloads(log) == [0, 1, 2]
    log.close()


class Once:
    """Raises `KeyboardInterrupt` before or after a function's own work, in the main thread and once."""

    @classmethod
    def in_place_of(cls, patch: pytest.MonkeyPatch, owner: Any, name: str, *, after: bool) -> Once:
        """Put one into the place of a function or method."""
        once = cls(getattr(owner, name), after=after)

        def call(*given: Any, **named: Any) -> Any:
            return once(*given, **named)

        patch.setattr(owner, name, call)
        return once

    def __init__(self, function: Callable[..., Any], *, after: bool) -> None:
        self._function = function
        self._after = after
        self.struck = False

    def __call__(self, *given: Any, **named: Any) -> Any:
        """Call it."""
        if not self._after:
            self._strike()
        result = self._function(*given, **named)
        self._strike()
        return result

    def _strike(self) -> None:
        if not self.struck and threading.current_thread() is threading.main_thread():
            self.struck = True
            raise KeyboardInterrupt


PLACES: dict[str, tuple[Any, str]] = {
    "claim": (Inbox, "claim"),
    "lock": (WriterLock, "acquire"),
    "catch up": (Partition, "catch_up_to_write"),
    "salt": (Salts, "take"),
    "append": (Partition, "append"),
    "journal": (Journal, "append"),
    "put": (Journal, "_put"),
    "write": (journal, "write_all"),
    "flush": (JournalIO, "fdatasync"),
    "switch": (Journal, "_switch"),
    "end": (frames, "encode_end"),
    "publish": (Partition, "_publish"),
    "merge": (Generation, "merge"),
    "unlock": (WriterLock, "release"),
    "settle": (Inbox, "settle"),
}


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("place", PLACES)
def test_interrupted_while_it_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, *, after: bool
) -> None:
    """Wherever Ctrl-C strikes, the append is in whole and once, the log goes on at once, and another process agrees."""
    small = {"journal_bytes": 4096}
    log = begun(tmp_path, JournalIO(), **small)
    number = 1
    if place in {"switch", "end"}:  # up to right before the next file
        while not log._partition.journal.address & 0xFFF > 4096 - 300:
            log.submit(waited(number)).wait()
            number += 1
    owner, name = PLACES[place]
    once = Once.in_place_of(monkeypatch, owner, name, after=after)
    while True:
        ticket = log.submit(waited(number))
        with suppress(KeyboardInterrupt):
            ticket.wait()
        if once.struck:
            break
        number += 1
    start = time.monotonic()
    assert log.submit(waited(number + 1)).wait(30).first == number + 2
    assert ticket.wait(30).first == number + 1
    if (place, after) != ("claim", False):  # before it began nobody knows that it is to be done, until the writer looks
        assert time.monotonic() - start < inbox.RECHECK
    log.submit(waited(number + 2)).wait()
    assert payloads(log) == list(range(number + 3))
    assert log.check() == []
    other = open_log(tmp_path / "log", **small, io=log._partition.options.io)
    assert [commit.position for commit in other.follow(0)] == list(range(1, number + 4))
    other.close()
    log.close()
    log = open_log(tmp_path / "log", **small)
    assert payloads(log) == list(range(number + 3))
    assert log.check() == []
    log.close()


class _Torn(deque[Any]):
    """A queue whose first `clear` is interrupted."""

    once = staticmethod(Once(lambda: None, after=False))

    def clear(self) -> None:
        """Empty it."""
        self.once()
        super().clear()


def test_interrupted_while_it_claims(tmp_path: Path) -> None:
    """An append that is claimed and still queued is committed once."""
    log = begun(tmp_path, JournalIO())
    writer = log._partition.writer
    assert writer is not None
    writer._inbox._queue = _Torn()
    ticket = log.submit(waited(1))
    with pytest.raises(KeyboardInterrupt):
        ticket.wait()
    assert ticket.wait(30).first == 2
    assert log.submit(waited(2)).wait(30).first == 3
    assert payloads(log) == [0, 1, 2]
    log.close()


def test_another_process_comes_between(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What another process appends behind the back of who was interrupted is not taken for what that one wanted to append."""
    log = begun(tmp_path, JournalIO())
    Once.in_place_of(monkeypatch, journal, "write_all", after=False)
    leave = Inbox.leave
    program = (
        "import sys; from eventlog.log.base import Append; from eventlog.log.embedded import open_log\n"
        "log = open_log(sys.argv[1])\n"
        "log.submit(Append(session='s', payload=b'7', count=2, time=1)).wait(30)\n"
    )

    def leave_late(left_in: Inbox, ticket: QueuedTicket[Any, Any]) -> None:
        subprocess.run([sys.executable, "-c", program, str(tmp_path / "log")], check=True)
        leave(left_in, ticket)

    monkeypatch.setattr(Inbox, "leave", leave_late)
    ticket = log.submit(waited(1))
    with pytest.raises(KeyboardInterrupt):
        ticket.wait()
    assert ticket.wait(30).first == 4
    assert payloads(log) == [0, 7, 1]
    log.close()


def test_a_thread_without_room_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the waiting thread has no stack left to commit, the writer's thread does it."""
    log = begun(tmp_path, JournalIO())
    full = [RecursionError("the stack is full")]
    append = Journal.append

    def deep(*given: Any) -> int:
        if full:
            raise full.pop()
        return append(*given)

    monkeypatch.setattr(Journal, "append", deep)
    assert log.submit(waited(1)).wait().first == 2
    assert payloads(log) == [0, 1]
    log.close()


def test_interrupted_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the interrupted thread is interrupted again, before it can say so, the writer finds out by itself."""
    monkeypatch.setattr(inbox, "RECHECK", 0.05)
    log = begun(tmp_path, JournalIO())
    time.sleep(1.1)  # so that the new pause is the writer's
    once = Once.in_place_of(monkeypatch, Partition, "_publish", after=False)
    again = Once.in_place_of(monkeypatch, Inbox, "leave", after=False)
    ticket = log.submit(waited(1))
    with pytest.raises(KeyboardInterrupt):
        ticket.wait()
    assert once.struck
    assert again.struck
    assert log.submit(waited(2)).wait(30).first == 3
    assert ticket.wait(30).first == 2
    assert payloads(log) == [0, 1, 2]
    log.close()


def test_a_failed_flush_poisons_also_alone(tmp_path: Path) -> None:
    """A flush that fails in the waiting thread means what it means in the writer's."""
    io = WatchedIO()
    log = begun(tmp_path, io)

    def fail() -> None:
        raise OSError(5, "the disk is gone")

    io.before = fail
    with pytest.raises(UnknownOutcomeError):
        log.submit(waited(1)).wait()
    with pytest.raises(PoisonedError):
        log.submit(waited(2)).wait()
    io.before = lambda: None
    with suppress(PoisonedError, BusyError):
        log.close()


def test_a_fault_nobody_thought_of_poisons_also_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no error of the log is met by the writer's thread again, and ends the log there."""
    log = begun(tmp_path, JournalIO())

    def fault(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Journal, "append", fault)
    with pytest.raises(UnknownOutcomeError):
        log.submit(waited(1)).wait()
    with pytest.raises(PoisonedError):
        log.submit(waited(2)).wait()
    monkeypatch.undo()
    log.close()


def test_interrupts_out_of_the_blue(tmp_path: Path) -> None:
    """Real interrupts at any moment of many appends: what was acknowledged is there once, in order, and nothing is torn."""
    log = begun(tmp_path, JournalIO(), fold_bytes=1 << 14)
    done = threading.Event()

    def strike() -> None:
        while not done.wait(0.004):
            _thread.interrupt_main()

    thread = threading.Thread(target=strike)
    acknowledged: list[int] = []
    interrupts = 0
    number = 1
    try:
        thread.start()
        while interrupts < 150:
            try:
                while True:
                    log.submit(waited(number)).wait()
                    acknowledged.append(number)
                    number += 1
            except KeyboardInterrupt:
                interrupts += 1
                number += 1
    finally:
        done.set()
        while thread.is_alive():
            with suppress(KeyboardInterrupt):
                thread.join()
    log.sync()
    found = payloads(log)
    assert found == sorted(set(found))
    assert set(acknowledged) <= set(found)
    assert [commit.first for commit in log.read("s")] == list(range(1, len(found) + 1))
    assert log.check() == []
    log.close()
