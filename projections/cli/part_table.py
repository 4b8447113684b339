"""A table of parts with their sizes, as `window` and `prune` print it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from projections.cli import output
from projections.cli.amounts import number
from projections.cli.short_ids import ShortIds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from projections.window.sizing.breakdown import PartSize


def print_parts(parts: Sequence[PartSize]) -> None:
    """Print parts with their sizes."""
    short = ShortIds(part.id for part in parts)
    columns = ["part", "kind", "tool", "title", "words", "tokens", "state"]
    rows = [
        (
            output.Cell(part.id, short.of(part.id)),
            part.kind,
            part.tool,
            part.title,
            part.words,
            number(part.tokens),
            _state(part),
        )
        for part in parts
    ]
    output.table(
        columns,
        rows,
        numbers=["tokens"],
        flexible=["words", "title", "tool"],
        optional=["title"],
        styles={"part": "yellow", "tool": "magenta", "state": "dim"},
    )


def _state(part: PartSize) -> str:
    return ", ".join(name for name in ("pruned", "truncated") if getattr(part, name))
