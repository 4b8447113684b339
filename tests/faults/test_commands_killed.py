"""Commands on a whole store, killed and given again: they complete and lose nothing."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from projections.cli.exits import Exit
from tests.faults.tally import SLOW, tally
from tests.support.crash_writer import must_succeed
from tests.support.faults.encrypted_stores import SIZED, is_large, keys_of, said_of
from tests.support.faults.upkeep import WORKS
from tests.support.faults.whole_stores import make_templates, patched

ROOT = Path(__file__).resolve().parents[2]
COMMANDS: dict[str, tuple[tuple[str, ...], str, tuple[Exit, ...]]] = {
    "backup": (("--store", "s", "backup", "b"), "b", (Exit.OK,)),
    "backup in place of another": (("--store", "s", "backup", "b"), "b/next", (Exit.OK,)),
    "restore": (("restore", "b", "--into", "r"), "r", (Exit.OK, Exit.USAGE)),
    "repair": (("--store", "s", "repair", "--into", "r"), "r", (Exit.OK, Exit.USAGE)),
    "vacuum": (("--store", "s", "vacuum"), "s/next", (Exit.OK,)),
    "scrub": (("--store", "s", "scrub"), "s/next", (Exit.OK,)),
    "erase": (
        ("--store", "s", "erase", "a", "--forks", "keep", "--subsessions", "cascade", "--yes"),
        "",
        (Exit.OK, Exit.MISSING),
    ),
    "expire": (("--store", "s", "expire", "--count", "0", "--yes"), "", (Exit.OK,)),
}
"""The command, the sign that it has begun ("": none), and the ends allowed on a repeat."""
SHORT = [("plain", "backup"), ("plain", "repair"), ("plain", "scrub"), ("encrypted", "erase"), ("encrypted", "vacuum")]
LONG = [
    (kind, work) for kind in SIZED for work in COMMANDS if not is_large(kind) or work in {"backup", "repair", "scrub"}
]
TIMES = {"plain": 12 if SLOW else 1, "encrypted": 6 if SLOW else 1, "200 MB": 2, "encrypted 200 MB": 2}


def start(command: tuple[str, ...], place: Path) -> subprocess.Popen[bytes]:
    """Start the program in a place."""
    return subprocess.Popen(
        [sys.executable, "-c", "from projections.cli import main; main()", *command],
        cwd=place,
        env={"PYTHONPATH": str(ROOT), **({} if keys_of(place) is None else {"EVENTLOG_KEY_FILE": str(keys_of(place))})},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def prepared(job: Callable[[Path], object], place: Path) -> None:
    """Run a function in its own process, without this one's threads and patches."""

    def work() -> None:
        patched()
        job(place)

    must_succeed(work)


@pytest.mark.promise(1, 11, 12)
@pytest.mark.parametrize(("kind", "work"), LONG if SLOW else SHORT)
def test_a_command_is_killed_and_given_again(work: str, kind: str, place_of: Callable[[str], Path]) -> None:
    """Promises 1, 11, 12: a killed command loses no event and completes when given again."""
    command, sign, ends = COMMANDS[work]
    chance = random.Random(work)
    killed = 0
    directory = place_of(kind)
    templates = directory / "templates"
    if not templates.exists():
        templates.mkdir()
        prepared(partial(make_templates, kind=kind), templates)
    for number in range(TIMES[kind]):
        place = directory / f"{number}"
        shutil.copytree(templates / WORKS[work].template, place)
        process = start(command, place)
        while process.poll() is None and sign and not (place / sign).exists():
            time.sleep(0.0005)
        time.sleep(chance.uniform(0, 2.0 if is_large(kind) else 0.05 if sign else 0.6))
        process.kill()
        process.communicate()
        killed += process.returncode < 0
        prepared(WORKS[work].look, place)
        again = start(command, place)
        _, said = again.communicate(timeout=120)
        assert again.returncode in ends, said
        prepared(WORKS[work].done, place)
        shutil.rmtree(place)
    tally("kill -9 of the command: " + work + said_of(kind), killed)
