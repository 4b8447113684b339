"""Target 9: start-up in a new process: import, the command line's help, first token count.

Importing is measured in processor time, which a busy machine stretches less. The other two are the
time that a user waits.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.children import child, run_time
from benchmarks.figures import Case, Figure, Measurement, Setting, Target
from benchmarks.measure import in_turn

__all__ = ["CASES"]

HELP = 200.0
"""Milliseconds that `eventlog --help` may take."""
COUNT = 0.25
"""Seconds that the first token count may take."""

_IMPORTING = """
from time import process_time
start = process_time()
import {names}
print(process_time() - start)
"""
_COUNTING = """
from time import perf_counter
from projections.tokens import TokenCounter
start = perf_counter()
TokenCounter.for_model("").count("How many tokens is this? " * {times})
print(perf_counter() - start)
"""
MANY = 24_000
"""Repetitions of the text of the first count that make 600 KB."""


def _importing(names: str) -> Callable[[], list[float]]:
    return lambda: [child(_IMPORTING.format(names=names))]


def _starts(setting: Setting) -> dict[str, Measurement]:
    samples = in_turn(
        {
            "engine": _importing("eventlog, projections"),
            "libraries": _importing("lmdb, msgspec, zstandard"),
            "help": lambda: [run_time("-m", "projections", "--help")],
            "count": lambda: [child(_COUNTING.format(times=1))],
            "long": lambda: [child(_COUNTING.format(times=MANY))],
        },
        setting.sizes.rounds,
    )
    return {
        "target.9.import": Measurement(samples["engine"].median * 1e3, samples["libraries"].median * 1e3),
        "target.9.help": Measurement(samples["help"].median * 1e3, HELP),
        "target.9.count": Measurement(samples["count"].median, COUNT),
        "target.9.count.long": Measurement(samples["long"].median, COUNT),
    }


CASES = (
    Case(
        "target.9",
        (
            Figure(
                "target.9.import",
                "importing eventlog and projections (processor time)",
                "ms",
                "importing lmdb, msgspec and zstandard",
                Target("<=", 2),
            ),
            Figure("target.9.help", "eventlog --help, from nothing", "ms", f"{HELP:.0f} ms", Target("<=", 1)),
            Figure("target.9.count", "the first token count of a process", "s", f"{COUNT} s", Target("<=", 1)),
            Figure(
                "target.9.count.long",
                "the first token count, of a text of 600 KB, for which tiktoken is loaded",
                "s",
                f"{COUNT} s",
            ),
        ),
        _starts,
    ),
)
