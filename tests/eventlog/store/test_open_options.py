"""The options of the log that `eventlog.open` takes."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import eventlog
from eventlog.errors import BusyError, CallError
from eventlog.log.embedded.engine import EmbeddedLog


@contextmanager
def another_writes(path: Path) -> Generator[None]:
    """Hold the writers' lock of a store, as another process does."""
    fd = os.open(path / "lock", os.O_RDWR)
    fcntl.flock(fd, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(fd)


@pytest.mark.parametrize("encrypted", [False, True])
def test_a_call_waits_as_long_as_the_program_says(tmp_path: Path, *, encrypted: bool) -> None:
    """A store waits `busy_timeout` seconds for another program, plain or encrypted."""
    keys = tmp_path / "keys" if encrypted else None
    with eventlog.open(tmp_path / "s", busy_timeout=0.2, keys=keys) as store:
        session = store.create_session()
        with another_writes(tmp_path / "s"):
            begun = time.monotonic()
            with pytest.raises(BusyError, match=r"0\.2 s"):
                session.user("Why two a day?")
            assert time.monotonic() - begun < 5
        session.user("And now?")
    with eventlog.open(tmp_path / "s", keys=keys) as store:
        assert isinstance(store.log.engine, EmbeddedLog)
        assert store.log.engine.options.busy_timeout == 30
        assert store.info(session.id).messages == 1


def test_all_stores_of_a_directory_wait_equally_long(tmp_path: Path) -> None:
    """Stores of one process share a log, so a second one with another time is refused."""
    with eventlog.open(tmp_path / "s", busy_timeout=2), eventlog.open(tmp_path / "s", busy_timeout=2.0) as same:
        same.create_session()
        with pytest.raises(CallError, match="busy_timeout"):
            eventlog.open(tmp_path / "s")


WRONG: list[dict[str, Any]] = [
    *({"busy_timeout": value} for value in (0, -1, float("nan"), float("inf"), 1 << 70, "3", None)),
    *({"connections": value} for value in (0, -1, 1.5, "3")),
]


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_no_time_or_number_is_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    """A value that makes no sense is `CallError` that names the option, and opens nothing."""
    for place in (tmp_path / "s", "memory:", "host=127.0.0.1 port=1 dbname=none"):
        with pytest.raises(CallError, match=next(iter(wrong))):
            eventlog.open(place, **wrong)
    assert not (tmp_path / "s").exists()


def test_only_a_server_has_connections(tmp_path: Path) -> None:
    """Connections that nothing would open are refused."""
    for place in (tmp_path / "s", "memory:"):
        with pytest.raises(CallError, match="leave it out"):
            eventlog.open(place, connections=2)
    assert not (tmp_path / "s").exists()
