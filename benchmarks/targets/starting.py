"""Target 9: what starting costs, each time in a new process.

Importing, the command line's help, the first token count.

Importing is told in processor time, which a busy machine stretches less; the other two are what a person waits.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.children import child, run_time
from benchmarks.figures import Case, Figure, Measured, Setting, Target
from benchmarks.measure import in_turn

__all__ = ["CASES"]

HELP = 200.0
"""Milliseconds of `eventlog --help`."""
COUNT = 0.25
"""Seconds until the first token count."""

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
"""Times that the text of the first count is repeated to make one of 600 KB."""


def _importing(names: str) -> Callable[[], list[float]]:
    return lambda: [child(_IMPORTING.format(names=names))]


def _starts(setting: Setting) -> dict[str, Measured]:
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
        "target.9.import": Measured(samples["engine"].median * 1e3, samples["libraries"].median * 1e3),
        "target.9.help": Measured(samples["help"].median * 1e3, HELP),
        "target.9.count": Measured(samples["count"].median, COUNT),
        "target.9.count.long": Measured(samples["long"].median, COUNT),
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
                "target.9.count.long", "the same, of a text of 600 KB, for which tiktoken is loaded", "s", f"{COUNT} s"
            ),
        ),
        _starts,
    ),
)
