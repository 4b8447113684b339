"""A program that kills its own streaming writer again and again and checks what is left.

Usage: `python -m tests.support.crash_writer DIRECTORY MODE SEED KILLS`.
"""

from __future__ import annotations

import mmap
import os
import random
import signal
import struct
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Lock, Thread
from typing import Any

from eventlog import events as ev
from eventlog.log.embedded.engine import open_log
from eventlog.log.embedded.filesystem import JournalIO
from eventlog.store import Store
from tests.support.watched_io import T, WatchedIO

FLUSH = 0.01
"""Flush interval of the writers, in seconds."""
SLACK = 0.2
"""Seconds that a commit may take on top of the interval."""
ROUNDS = 20
"""Rounds that the writer's second thread must have made since: a busy machine delays all."""
SESSION = "session"
SMALL = {"journal_bytes": 64 << 10, "fold_bytes": 32 << 10, "map_bytes": 64 << 20}
MOST = 20_000


class Shared:
    """Shared memory of a writer: words accepted and durable, times, and when it died."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 8 * (FIRST + MOST))

    def get(self, slot: int) -> int:
        """The number in a slot."""
        value: int = struct.unpack_from("q", self._memory, 8 * slot)[0]
        return value

    def put(self, slot: int, value: int) -> None:
        """Write a number into a slot."""
        struct.pack_into("q", self._memory, 8 * slot, value)

    def clear(self) -> None:
        """Reset all slots."""
        for slot in range(FIRST):
            self.put(slot, 0)

    def accepted(self) -> list[int]:
        """When each word was accepted, in nanoseconds."""
        return [self.get(FIRST + number) for number in range(self.get(ACCEPTED))]

    def rounds_ago(self) -> int:
        """Start of the other thread's last `ROUNDS` rounds, in nanoseconds."""
        return min(self.get(ROUND + number) for number in range(ROUNDS))


ACCEPTED, DURABLE, STARTED, KILLED, ROUND = range(5)
"""Slots of `Shared`."""
FIRST = ROUND + ROUNDS
"""The first slot of the times at which the words were accepted."""


class KillingIO(WatchedIO):
    """Journal I/O that kills the process at the n-th call, or half way through a write."""

    def __init__(self, shared: Shared, calls: int, mode: str) -> None:
        self._shared = shared
        self._left = calls
        self._half = mode == "half"
        self._lock = Lock()  # no other call runs while the process dies
        self.armed = False

    def call(self, name: str, run: Callable[..., T], *given: Any) -> T:
        """Make the call; or die before it, or half way."""
        if self.armed and name not in {"open", "pread"}:
            with self._lock:
                self._left -= 1
                if self._left <= 0:
                    if self._half and name == "pwrite":
                        fd, data, offset = given
                        run(fd, bytes(data)[: len(bytes(data)) // 2], offset)
                    die(self._shared)
        return run(*given)


def die(shared: Shared) -> None:
    """Kill this process with `kill -9`."""
    shared.put(KILLED, time.monotonic_ns())
    os.kill(os.getpid(), signal.SIGKILL)


def word(number: int) -> str:
    """The n-th word of every message."""
    return f"{number} "


def go_round(file: Path, shared: Shared) -> None:
    """Do endlessly what the flush thread does: wake, write, sync."""
    fd = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    number = 0
    while True:
        begun = time.monotonic_ns()
        time.sleep(FLUSH)
        os.pwrite(fd, b"round", 0)
        os.fdatasync(fd)
        shared.put(ROUND + number % ROUNDS, begun)
        number += 1


def write(directory: Path, shared: Shared, io: JournalIO, round_: int, seed: int) -> None:
    """Stream one endless message and report progress in `shared`; slowly if a parent kills."""
    chance = random.Random(seed)
    flushes = round_ % 2 == 1 or isinstance(io, KillingIO)  # otherwise only the store's own flushes make words durable
    log = open_log(directory, io=io, **SMALL)
    store = Store(log, flush_interval=FLUSH)
    session = store.session(SESSION)
    session.user(f"question {round_}")
    if not isinstance(io, KillingIO):
        Thread(target=go_round, args=(directory.with_name("rounds"), shared), daemon=True).start()
    with session.assistant(id=f"answer {round_}") as reply:
        text = reply.stream_text(id=f"text {round_}")
        call = reply.tool("bash", call_id="c", id=f"call {round_}", input="{}")
        shared.put(STARTED, 1)
        if isinstance(io, KillingIO):
            io.armed = True
        for number in range(MOST):
            text.append(word(number))
            shared.put(FIRST + number, time.monotonic_ns())
            shared.put(ACCEPTED, number + 1)
            if flushes and chance.random() < 0.02:
                session.flush()
                shared.put(DURABLE, number + 1)
            elif chance.random() < 0.005:
                call.progress(f"{number}")
            if not isinstance(io, KillingIO):
                time.sleep(0.0005)
    raise AssertionError("the writer was not killed")


def look(directory: Path, shared: Shared, round_: int, *, timed: bool) -> None:
    """Compare what is left with what was promised, read-only first, then under the lease."""
    with Store(open_log(directory, **SMALL)) as store:
        session = store.session(SESSION)
        before = session.version
        recorded = list(session.events())
        assert [entry.version for entry in recorded] == list(range(1, before + 1)), "versions have gaps"
        positions = [entry.position for entry in recorded]
        assert positions == sorted(set(positions)), "positions are not in the order of versions"
        words = [
            entry.event.text
            for entry in recorded
            if isinstance(entry.event, ev.PartDelta) and entry.event.part == f"text {round_}"
        ]
        assert words == [word(number) for number in range(len(words))], "words are missing or out of order"
        durable, accepted, killed = shared.get(DURABLE), shared.accepted(), shared.get(KILLED)
        assert len(words) >= durable, f"{durable} words were durable, {len(words)} are left"
        if timed:
            due = sum(1 for at in accepted if at < min(killed - int((FLUSH + SLACK) * 1e9), shared.rounds_ago()))
            assert len(words) >= due, f"{due} words were older than the flush interval, {len(words)} are left"
        assert len(words) <= len(accepted) + 1, "more words than were accepted"
        assert session.version == store.info(SESSION).version == before, "looking wrote something"
        settled = sum(isinstance(entry.event, ev.Settled) for entry in recorded)
        unfinished = session.reader.state().open_messages()
        assert unfinished == ((f"answer {round_}",) if shared.get(STARTED) else unfinished[:1]), (
            "the message is not open"
        )
        with session.lease():
            after = list(session.events(before))
        assert not session.reader.state().open_messages(), "a message is open after it was settled"
        closing = [type(entry.event).__name__ for entry in after]
        if shared.get(STARTED):
            assert closing == ["PartEnded", "ToolFailed", "MessageFinished", "Settled"], closing
        with session.lease():
            assert session.version == before + len(after), "settled twice"
        total = sum(isinstance(entry.event, ev.Settled) for entry in session.events())
        assert total == settled + bool(after), "settled more than once"
        assert store.log.check() == [], "the log is damaged"


def child(work: Callable[[], object]) -> int:
    """Run something in a process of its own; returns its id."""
    process = os.fork()
    if process:
        return process
    try:
        work()
    except BaseException:  # noqa: BLE001 - the parent only sees the status
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def must_succeed(work: Callable[[], object]) -> None:
    """Run something in a process of its own, and stop if it fails."""
    _, status = os.waitpid(child(work), 0)
    if status:
        sys.exit(f"a child ended with status {status}")


def begin(directory: Path) -> None:
    """Make the store and its session."""
    with Store(open_log(directory, **SMALL)) as store:
        store.create_session(id=SESSION)


def main(directory: Path, mode: str, seed: int, kills: int) -> None:
    """Kill as many writers as asked for."""
    chance = random.Random(seed)
    shared = Shared()
    must_succeed(partial(begin, directory))
    for round_ in range(kills):
        shared.clear()
        timed = mode == "moment"
        io = JournalIO() if timed else KillingIO(shared, chance.randrange(1, 60), mode)
        number = chance.randrange(1 << 30)
        process = child(partial(write, directory, shared, io, round_, number))
        if timed:
            time.sleep(chance.uniform(0.02, 0.45))
            shared.put(KILLED, time.monotonic_ns())
            os.kill(process, signal.SIGKILL)
        _, status = os.waitpid(process, 0)
        if not (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL):
            sys.exit(f"a writer ended with status {status}")
        must_succeed(partial(look, directory, shared, round_, timed=timed))
    print(kills)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
