"""A command that prints one large output holds it once or twice, never many times."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import eventlog
from tests.faults.tally import SLOW
from tests.support.cli_runner import ROOT

BYTES = (100 if SLOW else 20) * 1_000_000
MARGIN = 60 << 20
"""What a command may hold beside the text."""


def peak(store: Path, *arguments: str) -> int:
    """The most memory, in bytes, that a command took at a time."""
    script = (
        "import resource, subprocess, sys\n"
        "subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)\n"
    )
    command = [sys.executable, "-m", "projections", "--store", str(store), *arguments]
    done = subprocess.run(
        [sys.executable, "-c", script, *command], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return int(done.stdout)


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A store with one large output of many lines, in a store that was closed."""
    line = "a line of an output that goes on and on, number "
    with eventlog.open(tmp_path / "large") as store:
        session = store.create_session(id="big")
        session.user("do it")
        with session.assistant("acme/one") as reply:
            call = reply.tool("bash", call_id="c", input={})
            call.succeed("\n".join(f"{line}{number}" for number in range(BYTES // (len(line) + 7))))
            reply.finish()
    return tmp_path / "large"


def test_show_holds_a_large_output_little_more_than_once(large: Path) -> None:
    """`show` takes the text of the largest output and a margin beside what any command takes."""
    assert peak(large, "show", "big") - peak(large, "sessions") < 1.4 * BYTES + MARGIN / 2


@pytest.mark.parametrize("arguments", [["view", "big"], ["export", "big", "--format", "opencode"]])
def test_others_hold_it_a_few_times(large: Path, arguments: list[str]) -> None:
    """`view` counts its tokens, and an export writes it as JSON: neither holds five of it."""
    assert peak(large, *arguments) - peak(large, "sessions") < 3 * BYTES + MARGIN
