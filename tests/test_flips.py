"""Every byte of a store flipped in turn: what is read is right, or a typed error, and nobody's process dies."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SLOW = bool(os.environ.get("EVERDELTA_SLOW"))
"""The whole form takes an hour; without it, a sample of about fifty bytes of each store, others in every run."""
KINDS = {"closed": (1, 7), "left": (1, 7), "large": (7, 700)} if SLOW else {"closed": (250, 9000), "left": (250, 9000)}


@pytest.mark.parametrize("kind", KINDS)
def test_no_flipped_byte_is_a_wrong_view_or_a_dead_process(kind: str) -> None:
    """Spec §2.12: a flipped byte, wherever it is, changes nothing, or is found before it does harm."""
    seed = os.environ.get("EVERDELTA_SEED") or str(random.randrange(1 << 30))
    step, zero_step = KINDS[kind]
    done = subprocess.run(
        [sys.executable, "-m", "tests.flipper", kind, str(step), str(zero_step), seed],
        cwd=ROOT,
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, f"seed {seed}:\n{done.stdout}{done.stderr}"
    assert "same=" in done.stdout
