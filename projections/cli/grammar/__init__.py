"""Command lines as annotated functions: parameters, values of the words, help.

A command is a function. Each parameter is annotated with its type and with how it is written:

    def run(context: Context, session: Annotated[str, Argument("SESSION", help="…")], *,
            limit: Annotated[int | None, Option("--limit", metavar="N", min=1, help="…")] = None)

A library for that takes longer to import than all of `eventlog --help` may take.
"""

from __future__ import annotations

from projections.cli.grammar.context import Context
from projections.cli.grammar.parameters import Argument, Option

__all__ = ["Argument", "Context", "Option"]
