"""Exceptions, signals and forks in the middle of a commit, and the end of the store there."""

from __future__ import annotations

import errno
import fcntl
import gc
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import eventlog
from eventlog.errors import BusyError, ClosedError, EventlogError, PoisonedError, StopError, UnknownOutcomeError
from eventlog.log.commit import Append, Committed, Ticket
from eventlog.log.embedded.engine import EmbeddedLog, open_log
from tests.faults.tally import SLOW, tally
from tests.support.decisions import MARKED, at_decision
from tests.support.embedded_log import put
from tests.support.watched_io import T, WatchedIO

ROOT = Path(__file__).resolve().parents[2]
ENGINE = str(Path(eventlog.__file__).parent)
SMALL = {"journal_bytes": 4096, "fold_bytes": 1 << 20}


def append(payload: bytes = b"p", **more: Any) -> Append:
    """Make an append to the session that all tests use."""
    given: dict[str, Any] = {"session": "s", "payload": payload, "count": 1, "time": 1, **more}
    return Append(**given)


def payloads(log: EmbeddedLog) -> list[bytes]:
    """Return the payloads that the session holds."""
    return [commit.payload for commit in log.read("s")]


class ActingIO(WatchedIO):
    """Journal I/O that acts at the next flush, refuses one call, or opens no file."""

    def __init__(self) -> None:
        self.act: Callable[[], object] | None = None
        self.refused: tuple[str, int] = ("", 0)
        self.closed = 0

    def call(self, name: str, run: Callable[..., T], *given: Any) -> T:
        """Act, refuse, or make the call."""
        if name == "fdatasync" and self.act is not None:
            act, self.act = self.act, None
            act()
        code = self.closed if name == "open" else 0
        if name == self.refused[0]:
            code, self.refused = self.refused[1], ("", 0)
        if code:
            raise OSError(code, os.strerror(code))
        return run(*given)


class Thrown(BaseException):
    """The exception that is thrown."""


class Thrower:
    """A profiler that throws at some of the places where Python looks for signals."""

    def __init__(self, *places: int) -> None:
        self.left = list(places)

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Throw at this place, if it is the one in the engine."""
        if event in {"call", "c_return"} and frame.f_code.co_filename.startswith(ENGINE) and self.left:
            self.left[0] -= 1
            if not self.left[0]:
                self.left.pop(0)
                raise Thrown


@contextmanager
def thrown_at(*places: int) -> Generator[Thrower]:
    """Throw at the n-th place of the block, and again after so many places."""
    thrower = Thrower(*places)
    gc.disable()  # an exception of a finalizer is seen by no caller
    sys.setprofile(thrower)
    try:
        yield thrower
    finally:
        sys.setprofile(None)
        gc.enable()


def throw_everywhere(
    log: EmbeddedLog, work: Callable[[Ticket], object], *more: int, begun: Sequence[bytes] = (b"begun",)
) -> list[bytes]:
    """Wait for appends with an exception at each place in turn; return the log's payloads."""
    expected = list(begun)
    place = 0
    reached = True
    while reached:
        place += 1
        payload = b"%d" % place * 40
        ticket = log.submit(append(payload))
        seen = None
        with thrown_at(place, *more) as thrower:
            try:
                work(ticket)
            except Thrown as error:
                seen = error
        reached = len(thrower.left) <= len(more)
        assert (seen is not None) == reached, f"place {place}: what was thrown got lost"
        # Another thread finds the leadership free, and finishes what is unfinished.
        expected.append(payload)
        assert ticket.wait(30).first == len(expected)
    return expected


@pytest.mark.promise(1)
@pytest.mark.parametrize("more", [(), (1,), (2,), (9,), (30,), (3, 3)])
def test_an_exception_at_any_place_of_a_commit_is_seen_and_leaves_it_whole(
    tmp_path: Path, more: tuple[int, ...]
) -> None:
    """The waiter sees each exception, and the append is there once."""
    log = open_log(tmp_path / "s", **SMALL)
    put(log, b"begun")
    expected = throw_everywhere(log, lambda ticket: ticket.wait(), *more)
    assert len(expected) > 60
    assert payloads(log) == expected
    with (tmp_path / "s" / "lock").open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert log.check() == []
    log.close()
    log = open_log(tmp_path / "s", read_only=True)
    assert payloads(log) == expected
    assert log.check() == []
    tally("exceptions in a commit", len(expected))


BESIDE = """
import sys
from eventlog.log.embedded.engine import open_log
from eventlog.log.commit import Append
log = open_log(sys.argv[1], journal_bytes=4096, fold_bytes=1 << 20)
log.submit(Append(session="beside", payload=b"begun", count=1, time=1, creates_at=0)).wait()
print("begun", flush=True)
while True:
    log.submit(Append(session="beside", payload=b"more", count=2, time=1)).wait()
"""


@pytest.mark.promise(1, 2)
def test_an_exception_at_any_place_of_a_commit_while_another_process_commits(tmp_path: Path) -> None:
    """Promises 1 and 2: with another process beside, the log has each append once, in order."""
    path = tmp_path / "s"
    log = open_log(path, **SMALL)
    put(log, b"begun")
    expected = [b"begun"]
    with subprocess.Popen([sys.executable, "-c", BESIDE, str(path)], cwd=ROOT, stdout=subprocess.PIPE) as other:
        try:
            assert other.stdout is not None
            other.stdout.readline()
            for number in range(10 if SLOW else 2):
                expected = throw_everywhere(
                    log, lambda ticket: ticket.wait(), *([number] if number else []), begun=expected
                )
        finally:
            other.kill()
    assert payloads(log) == expected
    assert log.check() == []
    log.close()
    log = open_log(path)
    assert payloads(log) == expected
    assert log.check() == []
    assert {commit.payload for commit in log.read("beside")} == {b"begun", b"more"}
    log.close()
    tally("exceptions in a commit", len(expected))


@pytest.mark.promise(1, 12)
@pytest.mark.parametrize("code", [errno.EMFILE, errno.EACCES, errno.EIO])
def test_an_exception_where_no_file_can_be_opened(tmp_path: Path, code: int) -> None:
    """Promises 1 and 12: an append that is on disk when an exception comes is never refused."""
    told: set[str] = set()
    place = 0
    reached = True
    while reached:
        place += 1 if SLOW else 3
        io = ActingIO()
        path = tmp_path / f"{place}"
        log = open_log(path, io=io)
        put(log, b"begun")
        ticket = log.submit(append(b"more"))
        io.closed = code
        with thrown_at(place) as thrower, suppress(Thrown, EventlogError):
            ticket.wait()
        reached = not thrower.left
        io.closed = 0
        outcome = "done"
        try:
            ticket.wait(30)
        except EventlogError as error:
            outcome = type(error).__name__
        told.add(outcome)
        log.close()
        log = open_log(path)
        assert log.check() == []
        there = b"more" in payloads(log)
        log.close()
        assert there if outcome == "done" else outcome == "UnknownOutcomeError" or not there, (place, outcome)
        shutil.rmtree(path)
    assert {"done", "UnknownOutcomeError"} <= told
    tally("exceptions in a commit", place if SLOW else place // 3)


def test_an_exception_at_any_place_of_a_wait_behind_a_leader_disturbs_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that waits behind a leader may be interrupted anywhere; all appends go on."""
    log = open_log(tmp_path / "s")
    put(log, b"begun")
    expected = [b"begun"]
    place = 0
    reached = True
    while reached:
        place += 1
        standing, let_go = threading.Event(), threading.Event()

        def hold(standing: threading.Event = standing, let_go: threading.Event = let_go) -> None:
            standing.set()
            let_go.wait(30)

        with monkeypatch.context() as patch:
            at_decision(patch, hold)
            leader = threading.Thread(target=log.submit(append(b"led", time=MARKED)).wait)
            leader.start()
            assert standing.wait(30)
        ticket = log.submit(append(b"%d" % place))
        timer = threading.Timer(0.01, let_go.set)
        timer.start()
        with thrown_at(place) as thrower, suppress(Thrown):
            ticket.wait()
        reached = not thrower.left
        let_go.set()
        assert ticket.wait(30).first == 2 * place + 1
        leader.join(30)
        timer.join(30)
        expected += [b"led", b"%d" % place]
    assert place > 5
    assert payloads(log) == expected
    log.close()


@pytest.mark.promise(1)
def test_exceptions_thrown_into_all_threads_lose_nothing(tmp_path: Path) -> None:
    """Exceptions thrown into all threads and tasks lose, double and hang no append."""
    goal = 100_000 if SLOW else 3_000
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.commit_interrupter", str(tmp_path / "s"), str(goal)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=1200,
    )
    numbers = re.match(r"(\d+) acknowledged, (\d+) thrown, (\d+) of (\d+) interrupts, wrong: \[\]$", done.stdout)
    assert numbers is not None, done.stdout + done.stderr
    acknowledged, thrown, caught, interrupts = map(int, numbers.groups())
    assert acknowledged >= goal
    assert thrown > goal // 100
    assert caught == interrupts
    tally("exceptions thrown into threads", thrown + caught)


def inside(log: EmbeddedLog, refused: list[BaseException]) -> Ticket:
    """Act as a signal handler might, record the errors, and return what it only queued."""
    written = log.last_position()
    for use in (lambda: put(log, b"inner"), lambda: log.submit(append(b"inner")).wait(5), log.sync, log.close):
        try:
            use()
        except EventlogError as error:
            refused.append(error)
    assert log.last_position() == written
    return log.submit(append(b"queued"))


@pytest.mark.parametrize("way", ["finalizer", "signal"])
def test_a_wait_inside_a_commit_is_refused_and_nothing_of_it_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """A wait inside a commit of the same thread is refused; what it queues goes in later."""
    io = ActingIO()
    log = open_log(tmp_path / "s", io=io)
    put(log, b"begun")
    refused: list[BaseException] = []
    queued: list[Ticket] = []

    def act(*_: object) -> None:
        queued.append(inside(log, refused))

    class Finalized:
        def __del__(self) -> None:
            act()

    if way == "finalizer":
        at_decision(monkeypatch, Finalized)

    before = signal.signal(signal.SIGUSR1, act)
    try:
        if way == "signal":
            io.act = lambda: signal.raise_signal(signal.SIGUSR1)
        assert log.submit(append(b"outer", time=MARKED)).wait().first == 2
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert [type(error) for error in refused] == [BusyError] * 4
    assert all("same thread" in str(error) for error in refused)
    assert queued[0].wait().first == 3
    assert payloads(log) == [b"begun", b"outer", b"queued"]
    log.close()


def test_a_wait_for_what_the_same_thread_is_writing(tmp_path: Path) -> None:
    """A signal handler that waits for the append in flight hears that its outcome is unknown."""
    io = ActingIO()
    log = open_log(tmp_path / "s", io=io)
    put(log, b"begun")
    ticket = log.submit(append(b"outer"))
    seen: list[BaseException] = []

    def act() -> None:
        try:
            ticket.wait()
        except UnknownOutcomeError as error:
            seen.append(error)

    io.act = act
    assert ticket.wait().first == 2
    assert len(seen) == 1
    log.close()


@pytest.mark.parametrize(
    ("refused", "lasting"),
    [(("pwrite", errno.ENOSPC), False), (("pwrite", errno.EIO), True), (("fdatasync", errno.EIO), True)],
)
def test_a_refusal_in_the_leader_is_told_to_all_who_wait(
    tmp_path: Path, refused: tuple[str, int], *, lasting: bool
) -> None:
    """A full disk fails one batch, a failed flush all that follows; every waiter hears of it."""
    io = ActingIO()
    log = open_log(tmp_path / "s", io=io)
    put(log, b"begun")
    acknowledged: list[Committed] = []
    errors: list[EventlogError] = []

    def work() -> None:
        for _ in range(30):
            try:
                acknowledged.append(log.submit(append()).wait())
            except EventlogError as error:
                errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    while len(acknowledged) < 100:
        pass
    io.refused = refused
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert len(acknowledged) + len(errors) == 16 * 30
    kinds = {type(error) for error in errors}
    if lasting:
        assert kinds == {UnknownOutcomeError, PoisonedError}
        with pytest.raises(StopError):
            put(log)
    else:
        assert kinds == {BusyError}
        put(log, b"more")
    with suppress(EventlogError):
        log.close()
    log = open_log(tmp_path / "s")
    found = {(commit.first, commit.position) for commit in log.read("s")}
    assert {(committed.first, committed.position) for committed in acknowledged} <= found
    assert log.check() == []
    log.close()


@pytest.mark.parametrize("closers", [1, 2])
def test_closing_while_others_wait(tmp_path: Path, closers: int) -> None:
    """A thread that waits when the store is closed gets an outcome or `ClosedError`."""
    log = open_log(tmp_path / "s")
    put(log, b"begun")
    acknowledged: list[Committed] = []

    def work(seconds: float | None) -> None:
        with suppress(ClosedError):
            while True:
                acknowledged.append(log.submit(append()).wait(seconds))

    threads = [threading.Thread(target=work, args=(30 if number % 4 else None,)) for number in range(16)]
    for thread in threads:
        thread.start()
    while len(acknowledged) < 50:
        pass
    ends = [threading.Thread(target=log.close) for _ in range(closers)]
    for thread in ends:
        thread.start()
    for thread in [*ends, *threads]:
        thread.join(60)
        assert not thread.is_alive()
    log = open_log(tmp_path / "s")
    found = {(commit.first, commit.position) for commit in log.read("s")}
    assert {(committed.first, committed.position) for committed in acknowledged} <= found
    assert len(found) - 1 == len(acknowledged)
    log.close()


FORKS = """
import os, signal, sys, threading, time
from eventlog.errors import ForkedProcessError
from eventlog.log.commit import Append
from eventlog.log.embedded.engine import open_log
from eventlog.log.embedded.filesystem import JournalIO

path, forks = sys.argv[1], int(sys.argv[2])
class Forking(JournalIO):
    due = False
    def fdatasync(self, fd):
        if Forking.due and threading.current_thread() is threading.main_thread():
            Forking.due = False
            signal.raise_signal(signal.SIGUSR1)
        super().fdatasync(fd)

children = []
def fork(*_):
    child = os.fork()
    if child:
        children.append(child)
    else:
        signal.alarm(20)

def write(number):
    return log.submit(Append(session=f"s{number}", payload=b"x", count=1, time=1, creates_at=None)).wait()

log = open_log(path, io=Forking())
for number in range(5):
    log.submit(Append(session=f"s{number}", payload=b"x", count=1, time=1, creates_at=0)).wait()
signal.signal(signal.SIGUSR1, fork)
stop, acknowledged = threading.Event(), []
def work(number):
    while not stop.is_set():
        acknowledged.append(write(number))
        if sys.argv[3] == "inside":
            time.sleep(0.005)  # so that the main thread leads, too
threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
for thread in threads:
    thread.start()
parent = os.getpid()
for round in range(forks):
    Forking.due = sys.argv[3] == "inside"
    try:
        if Forking.due:
            while not children:
                acknowledged.append(write(4))
        else:
            fork()
            if os.getpid() != parent:
                write(4)
    except ForkedProcessError:
        if os.getpid() == parent:
            raise
        os._exit(7)
    if os.getpid() != parent:
        os._exit(1)
    while children:
        _, status = os.waitpid(children.pop(), 0)
        assert os.waitstatus_to_exitcode(status) == 7, status
stop.set()
for thread in threads:
    thread.join()
log.close()
log = open_log(path)
print(len(acknowledged) + 5 - log.last_position(), log.check(), len(acknowledged) > forks)
"""


@pytest.mark.parametrize("where", ["beside", "inside"])
def test_forks_while_threads_lead(tmp_path: Path, where: str) -> None:
    """A fork beside a leader waits for its batch; one inside a commit leaves it to the parent."""
    forks = 1000 if SLOW else 25
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKS, str(tmp_path / "s"), str(forks), where],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert (done.stdout, done.stderr) == ("0 [] True\n", "")


@pytest.mark.promise(1)
def test_an_exception_at_any_place_of_closing_leaves_a_store_that_opens(tmp_path: Path) -> None:
    """The closing caller sees each exception; the path opens again, with each append once."""
    place = 0
    reached = True
    step = 1 if SLOW else 7
    while reached:
        place += step
        path = tmp_path / f"s{place}"
        log = open_log(path)
        put(log, b"begun")
        queued = log.submit(append(b"queued"))
        with thrown_at(place) as thrower, suppress(Thrown):
            log.close()
        reached = not thrower.left
        with suppress(ClosedError):
            queued.wait(30)
        again = open_log(path)
        assert payloads(again) in ([b"begun", b"queued"], [b"begun"]), place
        put(again, b"more")
        assert again.check() == []
        again.close()
        log.close()
    assert place > 100
