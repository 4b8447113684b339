"""Each byte of a store flipped in turn: reads are right or a typed error; no crash."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import pytest

from tests.faults.tally import SLOW, tally
from tests.support.faults.encrypted_stores import SAID, said_of
from tests.support.python_process import ROOT

pytestmark = pytest.mark.promise(12)

KINDS: dict[str, tuple[int, int]] = (
    {
        "closed": (1, 7),
        "left": (1, 7),
        "large": (7, 700),
        "encrypted": (5, 200),
        "200 MB": (48, 0),
        "encrypted 200 MB": (24, 0),
    }
    if SLOW
    else {"closed": (250, 9000), "left": (250, 9000), "encrypted": (800, 40_000)}
)
"""Whether to try every byte, for an hour; else a sample of about fifty bytes per store."""


@pytest.mark.parametrize("kind", KINDS)
def test_no_flipped_byte_is_a_wrong_view_or_a_dead_process(kind: str) -> None:
    """A flipped byte changes nothing or is found before it does harm."""
    seed = os.environ.get("EVERDELTA_SEED") or str(random.randrange(1 << 30))
    step, zero_step = KINDS[kind]
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.byte_flipper", kind, str(step), str(zero_step), seed],
        cwd=ROOT,
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, f"seed {seed}:\n{done.stdout}{done.stderr}"
    assert "same=" in done.stdout
    found = {name: int(count) for name, count in (word.split("=") for word in done.stdout.split())}
    store = "closed" + said_of(kind) if kind in SAID else kind
    tally(f"a byte flipped: {store}", sum(found.values()), **found)
