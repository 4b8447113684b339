"""Summaries in the background beside other processes: one is killed, one takes over."""

from __future__ import annotations

import os
import signal
import sys

import pytest

import eventlog
from eventlog import events as ev
from projections.loop import CallModel
from projections.reports.audit import audit
from tests.support.background import Writer, answer, begun, is_writing, outcomes, shown, subsession, until_written
from tests.support.engines import ENCRYPTED, Engine, places
from tests.support.python_process import Program

engine = places("embedded", ENCRYPTED, "postgres")


def _program(place: str, keys: str) -> None:
    """Begin a summary in a session, say so, and end it when told to."""
    with eventlog.open(place, keys=True if keys else None) as store:
        session, writer = store.session("s"), Writer()
        begun(session, writer)
        subsession(session).executor.writer.flush()
        print(os.getpid(), flush=True)
        sys.stdin.readline()
        writer.go.set()
        until_written(session)
        print("written", flush=True)
        sys.stdin.readline()


def started(engine: Engine) -> tuple[Program, int]:
    """Start a program that has a summary on its way."""
    program = Program("-m", __name__, engine.place, "keys" if engine.name == ENCRYPTED else "")
    return program, int(program.hear())


@pytest.mark.promise(1)
def test_a_killed_writer_loses_the_summary_alone(engine: Engine) -> None:
    """The session goes on, nothing waits for the dead, and the next window begins another."""
    store = engine.open()
    session, writer = store.create_session(id="s"), Writer()
    program, process = started(engine)
    os.kill(process, signal.SIGKILL)
    with pytest.raises(AssertionError):
        program.end()
    assert store.unfinished() == []  # the summary is no work that a loop has to go on with
    session.user("question5")
    with writer.window(session) as window:
        assert isinstance(window.next_step(), CallModel)
        assert outcomes(session) == []
        assert is_writing(session)
        writer.go.set()
        until_written(session)
        assert isinstance(window.next_step(), CallModel)
        assert window.waits == 0
        until_written(session)
    assert outcomes(session) == [""]
    ends = (span.item for span in subsession(session).reader.spans())
    lost = next(item for item in ends if isinstance(item, ev.MessageFinished))
    assert lost.error is not None
    assert lost.error.message == "interrupted"


def test_another_owner_puts_it_in(engine: Engine) -> None:
    """While one process writes, another answers; it begins no summary, and takes the first."""
    store = engine.open()
    session, writer = store.create_session(id="s"), Writer()
    program, _ = started(engine)
    session.user("question5 of another process")
    with writer.window(session) as window:
        answer(window, "answer5")
        session.user("question6")
        assert isinstance(window.next_step(), CallModel)
        assert not writer.requests
        program.tell("go on")
        assert program.hear() == "written"
        assert isinstance(window.next_step(), CallModel)
        writer.go.set()
        until_written(session)
    program.tell("end")
    program.end()
    assert outcomes(session) == [""]
    assert "summary 1" in shown(session)
    assert "question5" in shown(session)
    assert [step.verdict for step in audit(session) if step.purpose == "summary"] == ["match"]


if __name__ == "__main__":
    _program(*map(str, sys.argv[1:]))
