"""Opening a path again whose partition here is poisoned, closed, or deleted."""

from __future__ import annotations

import errno
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Barrier

import pytest

from eventlog.errors import EventlogError, PoisonedError, StopError, UnknownOutcomeError
from eventlog.log.commit import LeaseState
from eventlog.log.embedded.engine import EmbeddedLog, open_log
from eventlog.store import Store
from projections import ModelView
from projections.verify.verify import verify
from projections.view.neutral import Text
from tests.support.embedded_log import abandon, put
from tests.support.faulty_io import FaultyIO
from tests.support.python_process import printed


def held(log: EmbeddedLog) -> list[bytes]:
    """Return the payloads of a log."""
    return [commit.payload for commit in log.read("s")]


def elsewhere(path: Path) -> list[bytes]:
    """Return the payloads that another process finds there."""
    code = (
        "import sys; from eventlog.log.embedded.engine import open_log\n"
        "log = open_log(sys.argv[1], read_only=True)\n"
        "print(' '.join(commit.payload.decode() for commit in log.read('s')))"
    )
    return printed(code, path).encode().split()


def poisoned(path: Path, call: str) -> EmbeddedLog:
    """A poisoned log with two folded appends, one unfolded one, and a failed fourth."""
    log = open_log(path)
    put(log, b"one")
    put(log, b"two")
    log.close()
    io = FaultyIO()
    log = open_log(path, io=io)
    put(log, b"three")
    io.faults = [(call, errno.EIO)]
    with pytest.raises(UnknownOutcomeError):
        put(log, b"four", request="r")
    return log


@pytest.mark.promise(1)
@pytest.mark.parametrize("call", ["pwrite", "fdatasync"])
def test_a_poisoned_log_makes_way_for_a_fresh_one(tmp_path: Path, call: str) -> None:
    """Promise 1: after a failed write the path opens again at once, and loses nothing."""
    path = tmp_path / "s"
    old = poisoned(path, call)
    assert old.stopped
    fresh = open_log(path)
    assert not fresh.stopped
    assert held(fresh)[:3] == [b"one", b"two", b"three"]
    put(fresh, b"four", request="r")
    other = open_log(path)
    put(other, b"five")
    assert held(fresh) == held(other) == [b"one", b"two", b"three", b"four", b"five"]
    uses = (lambda: put(old, b"six"), old.sync, lambda: held(old), lambda: old.partition)
    for use in uses:
        with pytest.raises(PoisonedError):
            use()
    old.close()
    old.close()
    put(fresh, b"six")
    assert fresh.check() == []
    other.close()
    fresh.close()
    assert elsewhere(path) == [b"one", b"two", b"three", b"four", b"five", b"six"]


@pytest.mark.promise(12)
def test_a_poisoned_log_can_be_read(tmp_path: Path) -> None:
    """Promise 12: a poisoned log still gives all that was committed, until it is reopened."""
    log = poisoned(tmp_path / "s", "fdatasync")
    assert held(log) == [b"one", b"two", b"three"]
    assert [commit.payload for commit in log.commits_after(0)] == [b"one", b"two", b"three"]
    assert not log.wait_after([3], 0.01)
    assert log.check() == []
    log.close()


def test_all_who_open_it_again_share_one(tmp_path: Path) -> None:
    """Threads that open a poisoned path again at once get one log."""
    old = poisoned(tmp_path / "s", "pwrite")
    barrier = Barrier(8)

    def again(number: int) -> EmbeddedLog:
        barrier.wait()
        log = open_log(tmp_path / "s")
        put(log, b"by %d" % number)
        return log

    with ThreadPoolExecutor(8) as pool:
        logs = list(pool.map(again, range(8)))
    assert len({id(log._partition) for log in logs}) == 1
    old.close()
    assert sorted(held(logs[0]))[:8] == [b"by %d" % number for number in range(8)]
    for log in logs:
        log.close()


@pytest.mark.parametrize("call", ["pwrite", "fdatasync"])
def test_a_store_goes_on_where_a_poisoned_one_stopped(tmp_path: Path, call: str) -> None:
    """A session whose owner's disk failed is taken over at once when it is opened again."""
    path = tmp_path / "s"
    io = FaultyIO()
    old = Store(open_log(path, io=io), flush_interval=30)
    session = old.create_session(id="a")
    session.user("question")
    broken = ExitStack()
    text = broken.enter_context(session.assistant(model="acme/one")).stream_text()
    text.append("half an ")
    session.flush()
    io.faults = [(call, errno.EIO)]
    text.append("answer")
    with pytest.raises((UnknownOutcomeError, StopError)):
        session.flush()
    with Store(open_log(path)) as store:
        again = store.session("a")
        again.user("again")
        with again.assistant(model="acme/one") as other:  # waits for no lease to expire
            other.add_text("a whole answer")
            other.finish("stop")
        parts = [part for message in ModelView.of(again).messages for part in message.parts]
        assert [part.text for part in parts if isinstance(part, Text)] == [
            "question",
            "half an ",
            "again",
            "a whole answer",
        ]
        with pytest.raises(EventlogError):
            broken.close()
        with suppress(EventlogError):  # all that was lost was told of
            old.close()
        again.user("and on")
        assert verify(store, deep=True).sound


@pytest.mark.promise(12)
def test_a_directory_that_was_deleted_and_made_again(tmp_path: Path) -> None:
    """Promise 12: appends to a store made anew at a deleted path go into the new files."""
    path = tmp_path / "s"
    old = open_log(path)
    put(old, b"lost")
    for _ in range(3):  # the system may give the directory the same number again
        shutil.rmtree(path)
        fresh = open_log(path)
        put(fresh, b"kept")
        assert elsewhere(path) == [b"kept"]
        with suppress(EventlogError):
            old.close()
        assert held(fresh) == [b"kept"]
        old = fresh
    old.close()


def test_a_relative_path_keeps_its_meaning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store opened by a relative path stays the same when the working directory changes."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    log = open_log("s", journal_bytes=32 << 10, fold_bytes=8 << 10)
    monkeypatch.chdir(tmp_path / "elsewhere")
    for _ in range(20):
        put(log, os.urandom(4096))
    again = open_log(tmp_path / "s", journal_bytes=32 << 10, fold_bytes=8 << 10)
    assert again._partition is log._partition
    again.close()
    log.close()
    assert list((tmp_path / "elsewhere").iterdir()) == []
    log = open_log(tmp_path / "s")
    assert len(held(log)) == 20
    log.close()


@pytest.mark.promise(1, 4)
def test_a_lease_that_came_with_an_append_outlives_a_crash(tmp_path: Path) -> None:
    """Another process and the next opening see a journal that was not folded."""
    log = open_log(tmp_path / "store")
    put(log)
    put(log, epoch=1, lease=LeaseState(1, b"me", 100), replaces=LeaseState())
    put(log, session="begun", epoch=1, lease=LeaseState(1, b"begun", 7), replaces=LeaseState())
    heads = list(log.heads())
    assert [head.lease.owner for head in heads] == [b"begun", b"me"]
    code = (
        "import sys; from eventlog.log.embedded.engine import open_log\n"
        "log = open_log(sys.argv[1], read_only=True)\n"
        "print([(head.session, head.version, head.lease.epoch, head.lease.owner, head.lease.until) for head in log.heads()])"
    )
    assert printed(code, tmp_path / "store").strip() == "[('begun', 1, 1, b'begun', 7), ('s', 2, 1, b'me', 100)]"
    abandon(log)
    for _ in range(2):
        log = open_log(tmp_path / "store")
        assert list(log.heads()) == heads
        assert log.check() == []
        log.close()
