"""A table of parts with their sizes, as `window` and `prune` print it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from projections.cli import output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from projections.window.sizing.breakdown import PartSize

__all__ = ["print_parts"]


def print_parts(parts: Sequence[PartSize]) -> None:
    """Print parts with their sizes."""
    columns = ["part", "kind", "tool", "title", "tokens", "state"]
    rows = [(part.id, part.kind, part.tool, part.title, part.tokens, _state(part)) for part in parts]
    output.table(columns, rows, numbers=["tokens"], folded=["title"])


def _state(part: PartSize) -> str:
    return ", ".join(name for name in ("pruned", "truncated") if getattr(part, name))
