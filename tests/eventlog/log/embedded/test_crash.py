"""The log after processes died, and between processes that share it (promises 1, 3, 4, 5)."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from eventlog.log.commit import Append
from eventlog.log.embedded.engine import open_log
from tests.support.log_worker import SMALL

ROOT = Path(__file__).resolve().parents[4]


def start(task: str, *arguments: object) -> subprocess.Popen[bytes]:
    """Start a worker process."""
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "tests.support.log_worker", task, *map(str, arguments)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def line_of(process: subprocess.Popen[bytes]) -> str:
    """Return the next line that a worker prints."""
    assert process.stdout is not None
    return process.stdout.readline().decode().strip()


def require_ready(process: subprocess.Popen[bytes]) -> None:
    """Wait until a worker has opened the store."""
    assert line_of(process) == "ready"


def go(process: subprocess.Popen[bytes]) -> None:
    """Let a worker go on."""
    assert process.stdin is not None
    process.stdin.write(b"go\n")
    process.stdin.flush()


def output(process: subprocess.Popen[bytes]) -> list[str]:
    """Return all lines that a worker printed, once it has ended."""
    printed, _ = process.communicate(timeout=120)
    lines = printed.decode().split("\n")
    return [line for line in lines[:-1] if line]


def race(task: str, path: Path, rounds: int) -> list[list[str]]:
    """Let two workers, a and b, go off at once; return what each printed."""
    workers = [start(task, path, name, rounds) for name in ("a", "b")]
    for worker in workers:
        require_ready(worker)
    for worker in workers:
        go(worker)
    return [output(worker) for worker in workers]


@pytest.mark.promise(1)
@pytest.mark.parametrize(("mode", "first", "step"), [("before", 1, 3), ("half", 2, 3), ("power", 1, 1)])
def test_killed_at_every_fault_point(tmp_path: Path, mode: str, first: int, step: int) -> None:
    """Killed at any call of the journal's I/O, the log keeps all that was acknowledged.

    The recovered log is a prefix of what was submitted, checks as whole, and a retry with the same
    request ids completes it without a duplicate (promises 1, 3 and 5).
    """
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.support.log_crasher", str(tmp_path), mode, str(first), str(step)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "acknowledged at the end 62" in done.stdout


@pytest.mark.promise(1)
def test_killed_again_and_again_while_others_go_on(tmp_path: Path) -> None:
    """`kill -9` of one writer loses nothing it acknowledged and stops no other (promise 1)."""
    path = tmp_path / "store"
    open_log(path, **SMALL).close()
    chance = random.Random(11)
    survivor = start("stream", path, "survivor")
    acknowledged: list[str] = []
    for _ in range(6):
        victim = start("stream", path, "victim")
        acknowledged.append(line_of(victim))
        time.sleep(chance.uniform(0.0, 0.15))
        victim.kill()
        acknowledged += output(victim)
    survivor.kill()
    acknowledged += output(survivor)
    log = open_log(path, **SMALL)
    found = {f"{c.session} {c.last} {c.position}" for c in log.commits_after(0, 10**7)}
    assert set(acknowledged) <= found
    assert log.check() == []
    for name in ("victim", "survivor"):
        commits = list(log.read(name))
        assert [c.first for c in commits] == list(range(1, len(commits) + 1))
        assert all(c.payload == b"%s %d " % (name.encode(), c.first) * 40 for c in commits)
    log.close()


@pytest.mark.promise(4)
def test_two_processes_contend_for_versions(tmp_path: Path) -> None:
    """Of two processes with expected versions one wins each version, without a livelock."""
    path = tmp_path / "store"
    log = open_log(path, **SMALL)
    log.submit(Append(session="shared", payload=b"", count=1, time=1, creates_at=0)).wait(30)
    rounds = 300
    lines = race("contend", path, rounds)
    won = [[int(line.split()[1]) for line in said if line.startswith("won")] for said in lines]
    assert sorted(won[0] + won[1]) == list(range(2, 2 * rounds + 2))
    for name, versions in zip((b"a", b"b"), won, strict=True):
        assert [c.first for c in log.read("shared") if c.payload == name] == versions
    assert log.check() == []
    log.close()


@pytest.mark.promise(2)
def test_two_processes_append_in_turn(tmp_path: Path) -> None:
    """Promise 2: a process counts positions on from what another has committed."""
    path = tmp_path / "store"
    workers = {name: start("alternate", path, name) for name in ("a", "b")}
    for worker in workers.values():
        require_ready(worker)
    positions: list[int] = []
    for name in "abaabbab" * 4:
        go(workers[name])
        positions.append(int(line_of(workers[name])))
    for worker in workers.values():
        assert output(worker) == []
    log = open_log(path, **SMALL)
    assert positions == list(range(1, len(positions) + 1))
    assert [len(list(log.read(name))) for name in ("a", "b")] == [16, 16]
    assert log.check() == []
    log.close()


def test_two_processes_pass_a_lease_on(tmp_path: Path) -> None:
    """A lease goes to one process at a time, and the old epoch is fenced."""
    path = tmp_path / "store"
    log = open_log(path, **SMALL)
    log.submit(Append(session="shared", payload=b"begin", count=1, time=1, creates_at=0)).wait(30)
    rounds = 60
    lines = race("hold", path, rounds)
    assert sorted(lines[0] + lines[1]) == sorted(f"held {epoch}" for epoch in range(1, 2 * rounds + 1))
    written = [c.payload.decode().split() for c in log.read("shared", 1)]
    assert [(int(epoch), int(step)) for _, epoch, step in written] == [
        (epoch, step) for epoch in range(1, 2 * rounds + 1) for step in range(2)
    ]
    log.close()


def test_leaving_the_interpreter_makes_durable(tmp_path: Path) -> None:
    """Appends that no caller waited for are on disk after the interpreter's exit."""
    path = tmp_path / "store"
    worker = start("forgetful", path, "s")
    assert output(worker) == []
    assert worker.returncode == 0
    log = open_log(path, **SMALL)
    assert log.last_position() == 100
    log.close()


@pytest.mark.promise(2)
def test_a_reader_follows_another_process(tmp_path: Path) -> None:
    """A read-only log in another process sees commits in order, without a gap."""
    path = tmp_path / "store"
    open_log(path, **SMALL).close()
    log = open_log(path, read_only=True)
    writer = start("stream", path, "live")
    position = 0
    versions: list[int] = []
    deadline = time.monotonic() + 200
    while len(versions) < 2000 and time.monotonic() < deadline:
        assert log.wait_after([position], 30)
        for commit in log.commits_after(position, 100):
            versions.append(commit.first)
            position = commit.position + commit.count - 1
    writer.kill()
    output(writer)
    assert versions == list(range(1, len(versions) + 1))
    assert len(versions) >= 2000
    assert log.last_position() >= position
    log.close()
