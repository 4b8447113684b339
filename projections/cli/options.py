"""The arguments and options that several commands share."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

__all__ = ["JSON", "SESSION"]

SESSION: TypeAlias = Annotated[
    str, typer.Argument(metavar="SESSION", help="Id of a session, or the beginning of one if it is the only such.")
]
JSON: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON; the schemas are in projections/schemas.")]
