"""Writes that wait while another process holds the writers' lock: none waits twice."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from eventlog.errors import BusyError
from eventlog.log.embedded.engine import open_log
from eventlog.store import Store

TIMEOUT = 1.0
_HOLDER = """
import fcntl, sys
with open(sys.argv[1], "rb") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A store with the sessions `a` and `b`."""
    with closing(open_log(tmp_path / "store", busy_timeout=TIMEOUT)) as log, Store(log) as store:
        for name in ("a", "b"):
            store.create_session(id=name).user("before")
        yield store


@pytest.mark.parametrize("sessions", ["ab", "aa"], ids=["of another session", "of the same session"])
def test_a_write_behind_one_that_waits_does_not_wait_twice(store: Store, tmp_path: Path, sessions: str) -> None:
    """Both hear together that the lock is held, write nothing, and go in later."""

    def ask(name: str) -> float:
        begun = time.monotonic()
        with pytest.raises(BusyError):
            store.session(name).user("now")
        return time.monotonic() - begun

    holder = [sys.executable, "-c", _HOLDER, str(tmp_path / "store" / "lock")]
    with subprocess.Popen(holder, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(ask, sessions[0])
            time.sleep(0.3 * TIMEOUT)
            second = pool.submit(ask, sessions[1])
            assert TIMEOUT * 0.9 < first.result() < TIMEOUT * 1.4
            assert second.result() < TIMEOUT * 1.1
    for name in sessions:
        assert store.info(name).messages == 1
    for name in sessions:
        store.session(name).user("later")
    assert store.info("a").messages == 1 + sessions.count("a")
