"""The log after processes died, and between processes that share it (promises 1, 3, 4, 5)."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from eventlog.log.embedded.engine import open_log
from tests.support.log_worker import SMALL
from tests.support.python_process import ROOT


def start(path: Path, name: str) -> subprocess.Popen[bytes]:
    """Start a worker process."""
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "tests.support.log_worker", str(path), name],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def line_of(process: subprocess.Popen[bytes]) -> str:
    """Return the next line that a worker prints."""
    assert process.stdout is not None
    return process.stdout.readline().decode().strip()


def output(process: subprocess.Popen[bytes]) -> list[str]:
    """Return all lines that a worker printed, once it has ended."""
    printed, _ = process.communicate(timeout=120)
    lines = printed.decode().split("\n")
    return [line for line in lines[:-1] if line]


@pytest.mark.promise(1)
def test_killed_again_and_again_while_others_go_on(tmp_path: Path) -> None:
    """`kill -9` of one writer loses nothing it acknowledged and stops no other (promise 1)."""
    path = tmp_path / "store"
    open_log(path, **SMALL).close()
    chance = random.Random(11)
    survivor = start(path, "survivor")
    acknowledged: list[str] = []
    for _ in range(6):
        victim = start(path, "victim")
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


@pytest.mark.promise(2)
def test_a_reader_follows_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A read-only log sees commits in order, without a gap, and leaves folding to the writer."""
    monkeypatch.setattr("eventlog.log.embedded.partition.LOOK_AFTER", 0.01)
    path = tmp_path / "store"
    open_log(path, **SMALL).close()
    log = open_log(path, read_only=True, fold_bytes=1)
    writer = start(path, "live")
    position = 0
    versions: list[int] = []
    deadline = time.monotonic() + 200
    while len(versions) < 500 and time.monotonic() < deadline:
        assert log.wait_after([position], 30)
        for commit in log.commits_after(position, 100):
            versions.append(commit.first)
            position = commit.position + commit.count - 1
    writer.kill()
    output(writer)
    assert versions == list(range(1, len(versions) + 1))
    assert len(versions) >= 500
    assert log.last_position() >= position
    log.close()
    assert not caplog.text
