"""Run benchmarks from the command line and print tables.

    python -m benchmarks [--short|--full] [--only ID …] [--json OUT] [--baseline FILE]
                         [--plot DIR] [--directory DIR] [--list]

Exit code 0 when every case ran, whether or not the targets were met; 2 for a wrong call.
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
from benchmarks.figures import Case, Notes, Result, Setting, Sizes, results_of
from benchmarks.machine import VOLATILE, describe, filesystem_of, workplace
from benchmarks.plots import INSTALL, can_draw, write_plots
from benchmarks.report import (
    show_cases,
    show_changes,
    show_curves,
    show_missing,
    show_remarks,
    show_results,
    show_rows,
    write_json,
)
from benchmarks.sessions import data_in_use

__all__ = ["argument_parser", "main", "measure"]

RECORDED = Path(os.environ.get("EVERDELTA_SHARED") or Path(__file__).resolve().parents[2] / "shared") / "data"

PAPER = 120
"""Columns of a table written to a file or a pipe."""


def measure(
    cases: Sequence[Case], sizes: Sizes, place: Path, recorded: Path | None, *, console: Console, notes: Notes
) -> list[Result]:
    """Run the cases, each in a folder of its own that is removed afterwards."""
    results: list[Result] = []
    for case in cases:
        start = perf_counter()
        with (
            console.status(f"{case.id} …"),
            tempfile.TemporaryDirectory(prefix="everdelta-benchmark-", dir=place) as directory,
        ):
            results += results_of(case, case.run(Setting(Path(directory), sizes, recorded, notes)))
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
    if options.plot is not None and not can_draw():
        parser.error(f"--plot needs matplotlib: {INSTALL}")
    if options.list:
        show_cases(_paper(), cases)
        return 0
    place: Path = options.directory or workplace()
    recorded = RECORDED if RECORDED.is_dir() else None
    machine = describe(place, data_in_use(recorded))
    console.print(f"measuring in {place} ({filesystem_of(place) or 'unknown file system'}); {machine['data']}")
    if filesystem_of(place) in VOLATILE:
        console.print("[red]this file system is in memory: durable figures mean nothing here (see --directory)")
    notes = Notes()
    results = measure(cases, FULL if options.full else SHORT, place, recorded, console=console, notes=notes)
    figures = {figure.id: figure for case in CASES for figure in case.figures}
    show_results(_paper(), figures, results)
    show_rows(_paper(), notes.rows)
    show_curves(_paper(), notes.curves)
    show_remarks(_paper(), notes.remarks)
    show_missing(_paper(), notes.missing)
    if earlier is not None:
        show_changes(_paper(), compared(earlier, results, figures))
    if options.json is not None:
        write_json(options.json, machine, results, notes)
    if options.plot is not None:
        write_plots(options.plot, notes.curves)
    return 0


def argument_parser() -> ArgumentParser:
    """Return the parser of the program's options."""
    parser = ArgumentParser(
        prog="python -m benchmarks", description="Measure the engine beside others, as ratios within one run."
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--short", action="store_true", help="fewer rounds, shorter histories: a few minutes (default)")
    size.add_argument("--full", action="store_true", help="everything, histories of a million events: an hour or so")
    parser.add_argument("--only", nargs="+", metavar="ID", default=[], help="only these cases or figures")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the results to this file")
    parser.add_argument("--baseline", type=Path, metavar="FILE", help="compare with an earlier run written by --json")
    parser.add_argument("--plot", type=Path, metavar="DIR", help="draw the plots into this folder, as SVG and PNG")
    parser.add_argument("--list", action="store_true", help="list cases and figures, and run nothing")
    parser.add_argument("--directory", type=Path, help="where to measure (default: the first usual place on a disk)")
    return parser


def _paper() -> Console:
    """Return a console on standard output, 120 columns wide where it is no terminal."""
    return Console(width=None if sys.stdout.isatty() else PAPER)


if __name__ == "__main__":
    sys.exit(main())
