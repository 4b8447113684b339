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
    rows = [
        (
            short.cell(part.id),
            part.kind,
            part.tool,
            part.title,
            part.words,
            number(part.tokens),
            ", ".join(name for name in ("pruned", "truncated") if getattr(part, name)),
        )
        for part in parts
    ]
    output.table(
        ["part", "kind", "tool", "title", "words", "tokens", "state"],
        rows,
        numbers=["tokens"],
        flexible=["words", "title", "tool"],
        optional=["title"],
    )
