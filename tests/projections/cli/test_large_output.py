"""A command that prints one large output holds it in memory once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import eventlog
from tests.faults.tally import SLOW
from tests.support.cli_runner import ROOT

BYTES = (100 if SLOW else 30) * 1_000_000
ONCE = 1.05
"""The text with its numbered lines is a little longer than that."""
MARGIN = 14_000_000
"""Bytes that a command may hold beside the text."""
TOKENIZER = 75_000_000
"""Bytes of the tokenizer's tables while they are built; 50 MB of them stay."""


def peak(store: Path, *arguments: str) -> int:
    """Peak memory of a command, in bytes."""
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
    """A closed store with one large output of many lines."""
    line = "a line of an output that goes on and on, number "
    with eventlog.open(tmp_path / "large") as store:
        session = store.create_session(id="big")
        session.user("do it")
        with session.assistant("acme/one") as reply:
            call = reply.tool("bash", call_id="c", input={})
            call.succeed("\n".join(f"{line}{number}" for number in range(BYTES // (len(line) + 7))))
            reply.finish()
    return tmp_path / "large"


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_show_holds_a_large_output_once(large: Path, form: list[str]) -> None:
    """`show` needs the memory of the largest output and a small margin."""
    assert peak(large, "show", "big", *form) - peak(large, "sessions") < BYTES * ONCE + MARGIN


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_view_holds_it_once_beside_the_tokenizer(large: Path, form: list[str]) -> None:
    """`view` needs the memory of its text, the token tables, and a small margin."""
    assert peak(large, "view", "big", *form) - peak(large, "sessions") < BYTES * ONCE + TOKENIZER + MARGIN


def test_view_for_a_provider_holds_it_once(large: Path) -> None:
    """The request of a provider is printed piece by piece, without counting tokens."""
    assert peak(large, "view", "big", "--format", "anthropic") - peak(large, "sessions") < BYTES * ONCE + MARGIN


def test_an_export_holds_it_a_few_times(large: Path) -> None:
    """A document built whole holds a text as it is and as JSON, not five times."""
    assert peak(large, "export", "big", "--format", "opencode") - peak(large, "sessions") < 3 * BYTES + 60_000_000
