"""Arguments and options that several commands share."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from projections.cli.grammar import Argument, Option
from projections.cli.store_option import session_candidates

__all__ = ["AGAINST", "DRY_RUN", "JSON", "OPTIONAL_SESSION", "REASON", "SESSION", "YES"]

SESSION: TypeAlias = Annotated[
    str,
    Argument(
        "SESSION", help="Id of a session, or its beginning or end if that is unique.", candidates=session_candidates
    ),
]
OPTIONAL_SESSION: TypeAlias = Annotated[
    str | None,
    Argument(
        "SESSION",
        help="Id of a session, or its unique beginning or end [default: the whole store].",
        candidates=session_candidates,
    ),
]
JSON: TypeAlias = Annotated[bool, Option("--json", help="Print JSON; projections/schemas has the schemas.")]
DRY_RUN: TypeAlias = Annotated[bool, Option("--dry-run", help="Change nothing; print what would be done.")]
YES: TypeAlias = Annotated[bool, Option("--yes", "-y", help="Erase without asking; needed without a terminal.")]
REASON: TypeAlias = Annotated[str, Option("--reason", metavar="TEXT", help="Why; the text is recorded.")]
AGAINST: TypeAlias = Annotated[
    str | None,
    Option("--against", metavar="FILE", help="File with an earlier output of `eventlog head --json`."),
]
