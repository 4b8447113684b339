"""The lines of the logger `eventlog` hold no word of a conversation, no id and no address."""

from __future__ import annotations

import ast
import errno
import logging
import time
from contextlib import suppress
from pathlib import Path
from threading import Thread

import pytest

import eventlog
from eventlog.errors import BusyError, EventlogError, FencedError
from eventlog.log.embedded.engine import open_log
from eventlog.logger import kind_of
from eventlog.store import Store
from tests.support.faulty_io import FaultyIO
from tests.support.python_process import ROOT

ID = "alice@example.org"
WORDS = {
    "kind_of(error)",
    "kind_of(partition.failure)",
    "len(events)",
    "reason",  # of settling: one of two words of the program
    "survives.sentence()",  # the settings of a server
}
"""All that lines of the logger have beside their own constant words."""


def calls(file: Path) -> list[ast.Call]:
    """Return the calls that log a line; the logger is asked for nowhere else."""
    found = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)]
    asked = [node for node in found if ast.unparse(node) == "logger()"]
    logged = [node for node in found if node not in asked and any(each in ast.walk(node.func) for each in asked)]
    assert all(any(each in ast.walk(node.func) for node in logged) for each in asked), file
    return logged


FILES = [file for package in ("eventlog", "projections") for file in sorted((ROOT / package).rglob("*.py"))]


def test_every_line_is_made_of_words_of_the_program() -> None:
    """No line of any module is given an id, a path, an address or a text of an error."""
    lines = 0
    for file in FILES:
        for call in calls(file):
            lines += 1
            words, *given = call.args
            assert isinstance(words, ast.Constant), f"{file}:{call.lineno}: the words of a line are constant"
            assert {ast.unparse(each) for each in given} <= WORDS, f"{file}:{call.lineno}"
            assert not call.keywords, f"{file}:{call.lineno}: a traceback has the text of its error"
    assert lines > 15


def test_an_error_is_named_without_its_text() -> None:
    """The kind of an error says what the system refused, and not where."""
    full = OSError(errno.ENOSPC, "No space left", "/home/alice")
    assert kind_of(full) == "OSError ENOSPC"
    busy = BusyError("session alice")
    busy.__cause__ = full
    assert kind_of(busy) == "BusyError caused by OSError ENOSPC"
    assert kind_of(FencedError(ID, 1, 2)) == "FencedError"


def test_a_lease_that_another_took(caplog: pytest.LogCaptureFixture) -> None:
    """Settled events are counted, and the line does not say of which session."""
    caplog.set_level(logging.DEBUG, "eventlog")
    with eventlog.open("memory:") as store:
        session = store.create_session(id=ID, title="Tides", scope="tenant of alice")

        def take_over() -> None:
            with session.lease(take_over=True):
                session.user("Why two a day?")

        with suppress(EventlogError), session.assistant(model="acme/one") as reply:
            text = reply.stream_text()
            text.append("The moon")
            thread = Thread(target=take_over)
            thread.start()
            thread.join()
            text.append(" pulls")
            reply.finish()
    assert "settling what the former owner" in caplog.text
    for word in (ID, "alice", "Tides", "moon", "Why"):
        assert word not in caplog.text


def test_a_disk_that_is_full(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Failures in the background are named by their errors, not by a session or a path."""
    io = FaultyIO()
    with suppress(EventlogError), Store(open_log(tmp_path / ID, io=io, fold_bytes=4096), flush_interval=0.01) as store:
        session = store.create_session(id=ID)
        io.refused["fold: begun"] = OSError(errno.ENOSPC, "No space left", ID)
        with session.assistant(model="acme/one") as reply:
            reply.add_text("x" * 5000)
            until = time.monotonic() + 20
            while "folding failed" not in caplog.text and time.monotonic() < until:
                time.sleep(0.01)
            io.faults = [("pwrite", errno.ENOSPC)]
            reply.stream_text().append("streamed")
            while "flush failed" not in caplog.text and time.monotonic() < until:
                time.sleep(0.01)
            io.refused.clear()
    assert "folding failed, and will be tried again: OSError ENOSPC" in caplog.text
    assert "an append failed: BusyError caused by OSError ENOSPC" in caplog.text
    assert "a flush failed: BusyError" in caplog.text
    assert ID not in caplog.text
