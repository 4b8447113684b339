"""The command line `eventlog`: look at a store, fill it from files, and maintain it.

`README.md` beside this file lists the commands. Programs use the packages `eventlog` and
`projections` instead.
"""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line of this process and exit with the code of the command."""
    from projections.cli.guard import guarded

    sys.exit(guarded(_run))


def _run() -> int:
    from projections.cli.app import run

    return run(sys.argv[1:])
