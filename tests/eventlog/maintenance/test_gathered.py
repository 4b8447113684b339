"""The bytes of what was erased go from the files without a call for it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import eventlog
from eventlog.errors import BusyError
from eventlog.log.embedded import generations
from eventlog.maintenance import gathered
from eventlog.store import Store
from eventlog.testing.file_search import files_with
from tests.eventlog.maintenance.test_beside import SECRET, said, seeded
from tests.support.python_process import ROOT

ENDING: dict[str, Callable[[Store], object]] = {
    "erase": lambda store: store.erase("going"),
    "expire": lambda store: store.expire(count=1),
    "a scope": lambda store: store.erase_scope("scope"),
    "a shelf": lambda store: store.drop_shelf("shelf"),
}


def gone(path: Path, seconds: float = 20.0) -> bool:
    """Whether the text is gone from the files in time."""
    until = time.monotonic() + seconds
    while left := files_with(path, SECRET):
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return not left


@pytest.mark.parametrize("way", ENDING)
def test_what_was_erased_is_in_no_file_once_the_store_is_closed(tmp_path: Path, way: str) -> None:
    """Erased by id, limits, scope or shelf, bytes are gone when the store is closed."""
    with eventlog.open(tmp_path / "s") as store:
        if way == "a shelf":
            store.shelf("shelf").values.put("plan", SECRET)
        else:
            store.create_session(id="going", scope="scope").user(SECRET)
        time.sleep(0.01)  # the newest of all, for `expire`
        store.create_session(id="kept").user("hello")
        ENDING[way](store)
    assert not files_with(tmp_path, SECRET)
    with eventlog.open(tmp_path / "s") as store:
        assert said(store, "kept") == ["hello"]


def test_erasures_are_gathered_for_one_rewriting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions erased one after the other go with one rewriting, while the store is open."""
    monkeypatch.setattr(gathered, "DELAY", 1.0)
    with seeded(tmp_path / "s") as store:
        for number in range(5):
            store.create_session(id=f"g{number}").user(SECRET)
            store.erase(f"g{number}")
        store.erase("going")
        assert gone(tmp_path)
        assert max(generations.of(tmp_path / "s")) == 2
        assert said(store, "kept") == ["hello"]
        assert not gathered.waiting(store.log)
    assert max(generations.of(tmp_path / "s")) == 2


KILLED = """
import os, signal, sys
import eventlog
eventlog.open(sys.argv[1]).erase("going")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_next_program_removes_what_a_killed_one_has_erased(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that dies behind an erasure leaves its rewriting to the next one."""
    seeded(tmp_path / "s").close()
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "s")], cwd=ROOT, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert files_with(tmp_path, SECRET)
    eventlog.open(tmp_path / "s", read_only=True).close()
    assert files_with(tmp_path, SECRET)
    monkeypatch.setattr(gathered, "DELAY", 0.1)
    with eventlog.open(tmp_path / "s"):
        assert gone(tmp_path)


def test_a_rewriting_that_is_refused_is_left_to_the_next_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A store closes although its rewriting is refused, and says that bytes are left."""

    def refuse(_: Store) -> None:
        raise BusyError("another program rewrites it")

    with monkeypatch.context() as patch:
        patch.setattr(Store, "vacuum", refuse)
        store = seeded(tmp_path / "s")
        store.erase("going")
        store.close()
    assert "not removed from the files yet: BusyError" in caplog.text
    assert files_with(tmp_path, SECRET)
    eventlog.open(tmp_path / "s").close()
    assert not files_with(tmp_path, SECRET)
