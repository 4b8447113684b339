"""`kill -9` of an agent at any work: nothing durable is lost, and the agent goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eventlog.history.checkpoint_store import versions
from eventlog.log.memory import MemoryLog
from eventlog.state.loader import STATE
from eventlog.store import Store
from projections.verify.verify import verify
from tests.faults.tally import SLOW, tally
from tests.faults.test_full_disk import program
from tests.support.faults.crash_agent import WORK
from tests.support.faults.encrypted_stores import SIZED, said_of

KILLS = {"plain": 1200 if SLOW else 10, "encrypted": 400 if SLOW else 6, "200 MB": 16, "encrypted 200 MB": 8}
RUNS = {"plain": 12 if SLOW else 1, "encrypted": 4 if SLOW else 1, "200 MB": 1, "encrypted 200 MB": 1}
"""The kills are divided among this many programs."""
WORKS = {kind: tuple(WORK) for kind in SIZED}
if not SLOW:
    WORKS["encrypted"] = ("stream", "settling", "moment")


@pytest.mark.promise(1, 2, 3, 7, 11)
@pytest.mark.parametrize(("kind", "seed"), [(kind, seed) for kind in SIZED for seed in range(RUNS[kind])])
def test_an_agent_is_killed_at_every_kind_of_work(tmp_path: Path, seed: int, kind: str) -> None:
    """Promises 1-3, 7, 11: an agent killed at any kind of work loses nothing and goes on."""
    kills = KILLS[kind] // RUNS[kind]
    done = program("crash_agent", tmp_path, seed, kills, kind, *WORKS[kind], seconds=3600 if SLOW else 280)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, int] = json.loads(done.stdout)
    killed = {work: found.pop(work, 0) for work in WORKS[kind]}
    assert sum(killed.values()) >= kills
    missed = [work for work, count in killed.items() if not count]
    assert len(missed) <= (0 if SLOW else 2), killed  # a point that the work does not reach kills no agent
    for work, times in killed.items():
        tally(f"kill -9: {work}{said_of(kind)}", times)
    tally("kill -9: all of these" + said_of(kind), sum(killed.values()), **found)


@pytest.mark.promise(7)
def test_a_long_session_is_sound_however_its_state_is_packed() -> None:
    """Promise 7: in a session with archived state no sound checkpoint differs from a replay."""
    with Store(MemoryLog(), checkpoint_events=90) as store:
        session = store.create_session(id="s")
        for number in range(200):
            session.user(f"message {number}", id=f"m{number}")
        with session.lease():
            session.remove_message("m3")
            for number in range(200):
                session.user(f"another {number}", id=f"n{number}")
        report = verify(store, deep=True)
        assert versions(store.log, STATE, "s")
    assert report.sound, report
