"""Appends, and an agent's turns, are killed or lose their power anywhere: nothing is lost."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from eventlog.open_log import open_log
from tests.faults.tally import SLOW, tally
from tests.faults.test_full_disk import program
from tests.support.faults.abandoned_store import copied_as_left
from tests.support.faults.encrypted_stores import KINDS, said_of
from tests.support.faults.planned_appends import OPTIONS, compare, workload
from tests.support.python_process import ROOT

TRIES = {
    ("power", "appends"): (6000, 2000) if SLOW else (80, 24),
    ("power", "an agent's turns"): (3000, 1000) if SLOW else (16, 6),
    ("kill", "appends"): (400, 100) if SLOW else (60, 16),
}
TOLD = {
    ("power", "appends"): "power failure, appends",
    ("power", "an agent's turns"): "power failure, an agent with tools and compactions",
    ("kill", "appends"): "kill -9 at a system call: appends",
}
PLAN = workload()


@pytest.mark.usefixtures("tracing")
@pytest.mark.promise(1, 2, 3, 5, 7, 11, 12)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("way", "work"), TRIES)
def test_nothing_acknowledged_is_lost(way: str, work: str, kind: str, place_of: Callable[[str], Path]) -> None:
    """Promises 1-3, 5, 7, 11, 12: acknowledged ⊆ recovered in order, nothing half, it goes on."""
    tries = TRIES[way, work][KINDS.index(kind)]
    done = program("upkeep_crash", place_of(kind), 5, tries, kind, way, work, seconds=7200 if SLOW else 280)
    assert done.returncode == 0, done.stdout + done.stderr
    tried = json.loads(done.stdout)["tried"][work]
    assert tried >= tries // 2
    tally(TOLD[way, work] + said_of(kind), tried)


@pytest.mark.promise(2, 12)
def test_a_mark_that_never_reached_the_disk(tmp_path: Path) -> None:
    """Promises 2, 12: a store with an empty watermark file is read to its end and followed."""
    path = tmp_path / "store"
    log = open_log(path, **OPTIONS)
    acknowledged = [log.submit(append).wait(30) for append in PLAN[:20]]
    copied_as_left(path, tmp_path / "left")
    log.close()
    (tmp_path / "left" / "mark").write_bytes(b"")
    reader = open_log(tmp_path / "left", read_only=True, **OPTIONS)
    assert compare(reader, PLAN, acknowledged) == 20
    goes_on = (
        "import sys; from eventlog.log.embedded.engine import open_log; from tests.support.faults.planned_appends import OPTIONS, workload\n"
        "log = open_log(sys.argv[1], **OPTIONS)\n"
        "[log.submit(append).wait(30) for append in workload()[20:30]]\n"
        "log.close()\n"
    )
    subprocess.run([sys.executable, "-c", goes_on, str(tmp_path / "left")], cwd=ROOT, check=True, timeout=60)
    assert compare(reader, PLAN, acknowledged) == 30
    reader.close()
