"""Any bytes for stored or foreign ones: a typed error or sound values, nothing else."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings, target
from hypothesis import strategies as st

from tests.faults.tally import SLOW, tally
from tests.support.faults.hostile_input import TARGETS, corpus
from tests.support.shared import shared_path

DATA = shared_path("data")
EXAMPLES = {"stored": 300, "frame": 100, "kept": 100, "head": 150, "importers": 40, "commands": 40}
TIMES = 60 if SLOW else 1

Edit = tuple[str, int, int, bytes]
EDITS = st.lists(
    st.tuples(
        st.sampled_from(["replace", "insert", "delete", "repeat", "truncate"]),
        st.integers(0, 1 << 16),
        st.integers(1, 64),
        st.binary(min_size=1, max_size=12)
        | st.sampled_from(
            [b"\xff" * 8, b"1e999999999", b"9" * 400, b"[" * 300, b'{"a":' * 200, b"\0", b"\n", b"\\ud800"]
        ),
    ),
    max_size=6,
)


def edited(data: bytes, edits: list[Edit]) -> bytes:
    """The bytes after some edits."""
    for what, at, length, piece in edits:
        place = at % (len(data) + 1)
        match what:
            case "replace":
                data = data[:place] + piece + data[place + len(piece) :]
            case "insert":
                data = data[:place] + piece + data[place:]
            case "delete":
                data = data[:place] + data[place + length :]
            case "repeat":
                data = data[: place + length] + data[place:]
            case _:
                data = data[:place]
    return data


@pytest.mark.promise(12)
@pytest.mark.parametrize("name", sorted(TARGETS))
def test_any_bytes_are_sound_or_refused(name: str) -> None:
    """Promise 12: random and changed bytes give a typed error or whole values."""
    attempt: Callable[[bytes], None] = TARGETS[name]
    sound = corpus(name, DATA)
    for one in sound[:: 1 if SLOW else max(len(sound) // 20, 1)]:
        attempt(one)
    examples = EXAMPLES[name] * TIMES

    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=not SLOW,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(st.binary(max_size=200) | st.builds(edited, st.sampled_from(sound), EDITS))
    def fuzz(data: bytes) -> None:
        target(min(len(set(data)), 64))
        attempt(data)

    fuzz()
    tally(f"hostile bytes: {name}", examples)
