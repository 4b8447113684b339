"""Run benchmarks from the command line and print tables.

    python -m benchmarks [--short|--full] [--only ID …] [--json OUT] [--baseline FILE]
                         [--directory DIR] [--list]

A case whose tool is missing says so, and the others run. Exit code 0 when every other case ran,
whether or not the targets were met; 2 for a wrong call.
"""

from __future__ import annotations

import os
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

import msgspec
from rich.console import Console

from benchmarks.baseline import compared, read_run
from benchmarks.cases import CASES, FULL, SHORT, chosen
from benchmarks.figures import Case, Missing, Notes, Result, Setting, Sizes, results_of
from benchmarks.machine import VOLATILE, describe, filesystem_of, workplace
from benchmarks.report import (
    show_cases,
    show_changes,
    show_missing,
    show_remarks,
    show_results,
    show_rows,
    write_json,
)
from benchmarks.workloads import recorded_sessions

RECORDED = Path(os.environ.get("EVERDELTA_SHARED") or Path(__file__).resolve().parents[2] / "shared") / "data"

PAPER = 120
"""Columns of a table written to a file or a pipe."""


def measure(
    cases: Sequence[Case], sizes: Sizes, place: Path, recorded: Path | None, *, console: Console, notes: Notes
) -> list[Result]:
    """Run the cases, each in a folder of its own that is removed afterwards.

    A case that cannot import what it needs is reported as missing.
    """
    results: list[Result] = []
    for case in cases:
        start = perf_counter()
        with (
            console.status(f"{case.id} …"),
            tempfile.TemporaryDirectory(prefix="everdelta-benchmark-", dir=place) as directory,
        ):
            try:
                measured = case.run(Setting(Path(directory), sizes, recorded, notes))
            except ImportError as error:
                notes.miss(Missing(case.id, case.install, f"{type(error).__name__}: {error}"))
                console.print(f"{case.id}: not measured, {error}")
                continue
            results += results_of(case, measured)
        console.print(f"{case.id}: {perf_counter() - start:.0f} s")
    return results


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line and return the exit code."""
    parser = argument_parser()
    options = parser.parse_args(arguments)
    console = Console(stderr=True)
    try:
        cases = chosen(options.only)
        earlier = read_run(options.baseline).results if options.baseline is not None else None
    except KeyError as unknown:
        parser.error(f"no case or figure {unknown}; --list names them")
    except (OSError, msgspec.MsgspecError) as error:
        parser.error(f"--baseline {options.baseline}: {error}")
    if options.list:
        show_cases(_paper(), cases)
        return 0
    place: Path = options.directory or workplace()
    recorded = RECORDED if RECORDED.is_dir() else None
    found = recorded is not None and recorded_sessions(recorded)
    machine = describe(place, "recorded sessions" if found else "a generated session: none is recorded")
    console.print(f"measuring in {place} ({filesystem_of(place) or 'unknown file system'}); {machine['data']}")
    if filesystem_of(place) in VOLATILE:
        console.print("[red]this file system is in memory: durable figures mean nothing here (see --directory)")
    notes = Notes()
    results = measure(cases, FULL if options.full else SHORT, place, recorded, console=console, notes=notes)
    figures = {figure.id: figure for case in CASES for figure in case.figures}
    show_results(_paper(), figures, results)
    show_rows(_paper(), notes.rows)
    show_remarks(_paper(), notes.remarks)
    show_missing(_paper(), notes.missing)
    if earlier is not None:
        show_changes(_paper(), compared(earlier, results))
    if options.json is not None:
        write_json(options.json, machine, results, notes)
    return 0


def argument_parser() -> ArgumentParser:
    """Return the parser of the program's options."""
    parser = ArgumentParser(
        prog="python -m benchmarks", description="Measure the engine beside others, as ratios within one run."
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--short", action="store_true", help="fewer rounds, shorter histories: a few minutes (default)")
    size.add_argument("--full", action="store_true", help="more rounds, longer histories: an hour or so")
    parser.add_argument("--only", nargs="+", metavar="ID", default=[], help="only these cases or figures")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the results to this file")
    parser.add_argument("--baseline", type=Path, metavar="FILE", help="compare with an earlier run written by --json")
    parser.add_argument("--list", action="store_true", help="list cases and figures, and run nothing")
    parser.add_argument("--directory", type=Path, help="where to measure (default: the first usual place on a disk)")
    return parser


def _paper() -> Console:
    """Return a console on standard output, 120 columns wide where it is no terminal."""
    return Console(width=None if sys.stdout.isatty() else PAPER)


if __name__ == "__main__":
    sys.exit(main())
