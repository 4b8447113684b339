"""Work on whole stores, broken off at any system call and repeated: nothing is lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.tally import SLOW, tally
from tests.faults.test_full_disk import program
from tests.support.faults.encrypted_stores import SIZED, is_large, said_of
from tests.support.faults.planned_appends import scratch
from tests.support.faults.upkeep import OF_PLAIN_STORES, WORKS

pytestmark = pytest.mark.usefixtures("tracing")

TRIES = {"kill": (4, 40, 2), "moment": (1, 20, 1), "power": (1, 60, 1), "errors": (1, 60, 2)}
"""Tries of each kind of work: short form, long form, long form with a large store."""
HEAVY = {
    "200 MB": ("backup", "restore", "repair", "vacuum", "scrub", "erase", "an agent's turns"),
    "encrypted 200 MB": ("repair", "vacuum", "scrub", "erase", "an agent's turns"),
}
"""Works on large stores."""
KEYED = ("appends", "making", "vacuum", "scrub", "erase", "expire", "an agent's turns")
"""Works that make or destroy keys."""
TOLD = {
    "kill": "kill -9 at a system call: ",
    "moment": "kill -9 at any moment: ",
    "power": "power failure, LMDB's writes included: ",
    "errors": "a system call fails: ",
}


@pytest.mark.promise(1, 2, 3, 7, 11, 12)
@pytest.mark.parametrize("kind", SIZED)
@pytest.mark.parametrize("way", TRIES)
def test_work_on_a_store_is_broken_off(way: str, kind: str, place_of: Callable[[str], Path]) -> None:
    """Promises 1-3, 7, 11, 12: killed, refused or without power at any call, nothing is lost."""
    works = HEAVY[kind] if is_large(kind) else KEYED if kind == "encrypted" and not SLOW else tuple(WORKS)
    works = tuple(work for work in works if kind in {"plain", "200 MB"} or work not in OF_PLAIN_STORES)
    tries = TRIES[way][2 if is_large(kind) else SLOW]
    seconds = 3600 if SLOW else 280
    done = program("upkeep_crash", place_of(kind), 1, tries, kind, way, *works, seconds=seconds)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    tried: dict[str, int] = found["tried"]
    assert sum(tried.values()) >= len(works) * (1 if way == "moment" else tries) // 2, tried
    for work, times in tried.items():
        tally(TOLD[way] + work + said_of(kind), times)
    tally(TOLD[way] + "all of these" + said_of(kind), sum(tried.values()), **found["errors"])


@pytest.mark.promise(12)
def test_a_repair_without_room_tells_no_loss() -> None:
    """Promise 12: a repair without space lists no loss; it is refused and done later."""
    with scratch() as directory:
        done = program(
            "upkeep_crash", directory, 2, 40 if SLOW else 4, "plain", "ENOSPC", "repair", seconds=1800 if SLOW else 280
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(json.loads(done.stdout)["errors"]) == {"BusyError"}


@pytest.mark.parametrize(
    ("kind", "work"),
    [("plain", work) for work in ("appends", "making", "backup", "repair", "vacuum", "scrub")]
    + [("encrypted", "making")],
)
def test_the_images_lose_what_was_not_flushed(work: str, kind: str) -> None:
    """Work whose flushes do nothing loses data in the built images."""
    with scratch() as directory:
        done = program("upkeep_crash", directory, 1, 1, kind, "unflushed", work)
    assert done.returncode
    assert f"{work}, power, lost, after call" in done.stderr
