"""`python -m benchmarks [--short] [--only ID…] [--json OUT] [--list]`: measure, print a table, write JSON.

Exit code 0 when everything ran, whether or not the targets were met; 2 for a wrong call.
"""

from __future__ import annotations

import os
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from benchmarks.cases import CASES, LONG, SHORT, chosen
from benchmarks.figures import Case, Result, Setting, Sizes, results_of
from benchmarks.machine import VOLATILE, describe, filesystem_of, workplace
from benchmarks.report import show_cases, show_results, write_json
from benchmarks.sessions import data_in_use

__all__ = ["main", "measure"]

RECORDED = Path(os.environ.get("EVERDELTA_SHARED") or Path(__file__).resolve().parents[2] / "shared") / "data"

PAPER = 170
"""Columns of a table that is written to a file or a pipe."""


def measure(cases: Sequence[Case], sizes: Sizes, place: Path, recorded: Path | None, console: Console) -> list[Result]:
    """Run the cases, each in a folder of its own that is removed again."""
    results: list[Result] = []
    for case in cases:
        with (
            console.status(f"{case.id} …"),
            tempfile.TemporaryDirectory(prefix="everdelta-benchmark-", dir=place) as directory,
        ):
            results += results_of(case, case.run(Setting(Path(directory), sizes, recorded)))
    return results


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; returns the exit code."""
    parser = ArgumentParser(prog="python -m benchmarks", description="What the engine costs, as ratios in one run.")
    parser.add_argument("--short", action="store_true", help="fewer rounds, shorter histories: under three minutes")
    parser.add_argument("--only", nargs="+", metavar="ID", default=[], help="only these cases or figures")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the results to this file")
    parser.add_argument("--list", action="store_true", help="say what can be run, and run nothing")
    parser.add_argument("--directory", type=Path, help="where to measure (default: the first usual place on a disk)")
    options = parser.parse_args(arguments)
    console = Console(stderr=True)
    try:
        cases = chosen(options.only)
    except KeyError as unknown:
        parser.error(f"no case or figure {unknown}; --list names them")
    if options.list:
        show_cases(_paper(), cases)
        return 0
    place: Path = options.directory or workplace()
    recorded = RECORDED if RECORDED.is_dir() else None
    machine = describe(place, data_in_use(recorded))
    console.print(f"measuring in {place} ({filesystem_of(place) or 'unknown file system'}); {machine['data']}")
    if filesystem_of(place) in VOLATILE:
        console.print("[red]this file system is in memory: durable figures mean nothing here (see --directory)")
    results = measure(cases, SHORT if options.short else LONG, place, recorded, console)
    show_results(_paper(), {figure.id: figure for case in CASES for figure in case.figures}, results)
    if options.json is not None:
        write_json(options.json, machine, results)
    return 0


def _paper() -> Console:
    """Standard output; wide enough for a line a figure where no terminal says how wide it is."""
    return Console(width=None if sys.stdout.isatty() else PAPER)


if __name__ == "__main__":
    sys.exit(main())
