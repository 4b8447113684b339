"""Processes contend for sessions, are killed and stopped: the log is linearizable."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from eventlog import open_log as open_log_module
from eventlog.log.commit import Append
from eventlog.log.embedded.engine import open_log
from tests.faults.tally import SLOW, tally
from tests.support.faults.contender import OPTIONS, SESSIONS, read_record
from tests.support.faults.encrypted_stores import KINDS, keys_for, said_of
from tests.support.faults.linearizability import Entry, Operation, faults

ROOT = Path(__file__).resolve().parents[2]
PROCESSES, THREADS, SECONDS = (8, 4, 60.0) if SLOW else (3, 3, 4.0)

WANTED = {
    "append done",
    "append conflict",
    "append fenced",
    "lease done",
    "read done",
    "taking append done",
    "taking append fenced",
}
"""Least content of a history that can show anything."""


def said(one: Operation) -> str:
    """Return the kind of a call and its outcome."""
    return f"{'taking ' * one.takes}{one.kind} {one.outcome}"


class Crowd:
    """The processes of a run; a dead one is replaced by another."""

    def __init__(self, directory: Path, kind: str) -> None:
        self.store = directory / "store"
        self.keys = keys_for(self.store, kind)
        self.records = directory / "records"
        self.records.mkdir()
        self.started = 0

    def start(self, seconds: float) -> subprocess.Popen[str]:
        """Start another process, for this long."""
        self.started += 1
        name = f"p{self.started}"
        arguments = [self.store, self.keys or "", self.records / name, name, THREADS, seconds, self.started]
        return subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "tests.support.faults.contender", *map(str, arguments)],
            cwd=ROOT,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, chance: random.Random) -> tuple[int, int]:
        """Run until the time is over; return the numbers of kills and of pauses."""
        begun = time.monotonic()
        crowd = [self.start(SECONDS) for _ in range(PROCESSES)]
        killed = stopped = 0
        while (left := begun + SECONDS - time.monotonic()) > 1.2:
            time.sleep(chance.uniform(0.2, 0.9))
            place = chance.randrange(PROCESSES)
            if chance.random() < 0.5:
                crowd[place].send_signal(signal.SIGSTOP)
                time.sleep(chance.uniform(0.02, 0.2))
                crowd[place].send_signal(signal.SIGCONT)
                stopped += 1
            elif list(self.records.iterdir()):
                crowd[place].kill()
                crowd[place].communicate()
                crowd[place] = self.start(left)
                killed += 1
        errors = [process.communicate(timeout=120)[1] for process in crowd]
        assert not any(process.returncode for process in crowd), errors
        return killed, stopped


@pytest.mark.promise(2, 4, 5)
@pytest.mark.parametrize("kind", KINDS)
def test_what_everybody_saw_is_one_thing_after_another(tmp_path: Path, kind: str) -> None:
    """Promises 2, 4, 5: versions follow real time, refusals are true, fenced writers stay out."""
    crowd = Crowd(tmp_path, kind)
    log = open_log_module.open_log(crowd.store, keys=crowd.keys, **OPTIONS)
    begun: list[Operation] = []
    for session in SESSIONS:
        begun.append(Operation(f"begin {session}", "", session, "append", 0, 1, outcome="done", first=1))
        log.submit(Append(session=session, payload=begun[-1].name.encode(), count=1, time=1, creates_at=0)).wait(30)
    chance = random.Random(9)
    killed = stopped = 0
    operations: list[Operation] = []
    for _ in range(10):  # on a busy machine not everything comes up at once
        more = crowd.run(chance)
        killed, stopped = killed + more[0], stopped + more[1]
        operations = begun + [one for record in sorted(crowd.records.iterdir()) for one in read_record(record)]
        if {said(one) for one in operations} >= WANTED:
            break
    for session in SESSIONS:
        held = [Entry(one.payload.decode(), one.first, one.last, one.epoch) for one in log.read(session)]
        assert faults(session, operations, held) == []
    assert log.check() == []
    log.close()
    outcomes = Counter(map(said, operations))
    assert set(outcomes) >= WANTED, outcomes
    tally(
        f"{PROCESSES} processes x {THREADS} threads" + said_of(kind),
        len(operations),
        killed=killed,
        stopped=stopped,
        won=outcomes["append done"],
        conflicts=outcomes["append conflict"],
        fenced=outcomes["append fenced"],
        leases=outcomes["lease done"],
        taken=outcomes["taking append done"],
    )


@pytest.mark.promise(2)
def test_a_read_beside_one_that_catches_up_sees_as_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise 2: a read beside a thread that catches up sees as much as that thread."""
    path = tmp_path / "store"
    open_log(path, **OPTIONS).close()
    reader = open_log(path, read_only=True)
    write = (
        "import sys; from eventlog.log.contract import Append; from eventlog.log.embedded.engine import open_log\n"
        "log = open_log(sys.argv[1])\n"
        "log.submit(Append(session='s', payload=b'x', count=1, time=1, creates_at=0)).wait(30)\n"
        "log.close()\n"
    )
    subprocess.run([sys.executable, "-c", write, str(path)], cwd=ROOT, check=True, timeout=60)
    tail = reader._partition.tail
    catch_up, begun, go_on = tail._catch_up, threading.Event(), threading.Event()

    def slowly(until: int) -> None:
        begun.set()
        assert go_on.wait(30)
        catch_up(until)

    monkeypatch.setattr(tail, "_catch_up", slowly)
    seen: list[int] = []
    first = threading.Thread(target=lambda: seen.append(reader.last_position()))
    second = threading.Thread(target=lambda: seen.append(reader.last_position()))
    first.start()
    assert begun.wait(30)
    second.start()
    second.join(0.2)
    go_on.set()
    first.join(30)
    second.join(30)
    assert seen == [1, 1]
    reader.close()
