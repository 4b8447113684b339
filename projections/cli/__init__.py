"""The command line `eventlog`: looking at a store, filling it from files, branching.

Not a library: what it can do, `eventlog` and `projections` can do.
"""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line of this process and exit; `projections/cli/exits.py` lists the exit codes."""
    from projections.cli.guard import guarded

    sys.exit(guarded(_run))


def _run() -> int:
    from projections.cli.app import run

    return run(sys.argv[1:])
