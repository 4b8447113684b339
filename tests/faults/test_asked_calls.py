"""Attack on calls that wait: programs, kills, rollbacks, forks, deploys, and a journal.

The journal of executions is not in the store. No call is executed twice, none that was denied is,
and none is lost.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from eventlog import Session, events
from eventlog.history.effective_history import History
from tests.faults.tally import SLOW
from tests.support.asking_worker import KILLED, opened
from tests.support.engines import Engine, places
from tests.support.pages import ROOT

engine = places("embedded", "postgres")

SESSIONS, QUESTIONS = (12, 60) if SLOW else (3, 6)
ANSWERERS = 4
MOST_KILLS = 5_000


def start(role: str, engine: Engine, journal: Path, seed: int, names: list[str]) -> subprocess.Popen[bytes]:
    """Start one of the programs."""
    words = [role, str(engine.place), str(journal), str(seed), str(QUESTIONS), *names]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.asking_worker", *words], env={**os.environ, "PYTHONPATH": str(ROOT)}
    )


def check(session: Session, executed: dict[str, object]) -> int:
    """Check each call of a session, and each run of one; returns the number of answers."""
    asked: dict[str, str] = {}
    answers: dict[str, dict[int, events.CallAnswered]] = {}
    history = History()
    for found in session.events():
        match found.event:
            case events.RolledBack() as back:
                history.roll_back(found.version, back.to)
            case events.CallAsked() as ask:
                asked[ask.part] = session.text(ask.input)
            case events.CallAnswered() as answer:
                answers.setdefault(answer.part, {})[found.version] = answer
                if answer.edit is not None:
                    asked[answer.part] = session.text(answer.edit)
            case events.ToolRunning() as running if running.part in asked:
                held = [answer for at, answer in answers[running.part].items() if history.holds(at)]
                assert held[-1].verdict == "allow"  # a redo brings one back that another came behind
                if running.part in executed:  # its process may have died before
                    assert executed[running.part] == json.loads(session.text(running.input))
            case _:
                pass
    with session.reader.deciding() as state:
        for part in asked:
            if state.has_part(part) and state.history.holds(state.parts[part].added):
                status = state.status(state.parts[part])
                assert status in {"completed", "failed", "interrupted", "removed"}
                assert status != "completed" or part in executed
    return sum(map(len, answers.values()))


@pytest.mark.timeout(3_600 if SLOW else 240)
def test_no_call_is_executed_twice_and_none_is_lost(engine: Engine, tmp_path: Path) -> None:
    """An allowed call has run once, or tells of an interruption, in spite of all attacks."""
    names, journal = [f"s{number}" for number in range(SESSIONS)], tmp_path / "journal"
    journal.touch()
    with engine.open() as store:
        for name in names:
            store.create_session(id=name)
    answerers = [start("answer", engine, journal, 1_000 + number, names) for number in range(ANSWERERS)]
    kills = 0
    try:
        while True:
            looper = start("loop", engine, journal, kills, names)
            code = looper.wait()
            if code == 0:
                break
            assert code == KILLED
            kills += 1
            assert kills < MOST_KILLS
    finally:
        for program in answerers:
            program.kill()
            program.wait()
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    executed = dict(lines)
    assert len(executed) == len(lines)  # none was executed twice, in a fork neither
    with opened(str(engine.place)) as store:
        sessions = [store.session(name) for name in names]
        assert [session.asked_calls() for session in sessions] == [[] for _ in names]
        answers = sum(check(session, executed) for session in sessions)
        assert not {found.id for found in store.unfinished()} & set(names)
    print(f"{answers} answers, {len(executed)} executions, {kills} kills")
    assert answers >= SESSIONS * QUESTIONS // 2
