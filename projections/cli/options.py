"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

__all__ = ["AGAINST", "DRY_RUN", "JSON", "OPTIONAL_SESSION", "REASON", "SESSION", "SVG"]

SESSION: TypeAlias = Annotated[
    str, typer.Argument(metavar="SESSION", help="Id of a session, or the beginning of an id if it is unique.")
]
SVG: TypeAlias = Annotated[
    Path | None, typer.Option("--svg", metavar="PATH", help="Draw it into this file, as a picture in SVG.")
]
OPTIONAL_SESSION: TypeAlias = Annotated[
    str | None,
    typer.Argument(
        metavar="SESSION", help="Id of a session, or the unique beginning of one [default: the whole store]."
    ),
]
JSON: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON; projections/schemas has the schemas.")]
DRY_RUN: TypeAlias = Annotated[bool, typer.Option("--dry-run", help="Change nothing; print what would be done.")]
REASON: TypeAlias = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; the text is recorded.")]
AGAINST: TypeAlias = Annotated[
    str | None,
    typer.Option("--against", metavar="FILE", help="File with an earlier output of `eventlog head --json`."),
]
