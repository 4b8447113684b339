"""Numbers and prices for people: short on a terminal, exact elsewhere."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from projections.cli.output import Cell

if TYPE_CHECKING:
    from projections.reports.usage import UsageTotals

_SMALL = Decimal("0.01")
_MILLION = 1_000_000


def number(count: int | None) -> Cell | None:
    """Return a whole number as a cell: with separators on a terminal, millions as such."""
    if count is None:
        return None
    return Cell(count, f"{count:,}" if count < _MILLION else f"{count / _MILLION:,.1f} M")


def sign(unpriced: int, estimated: int) -> str:
    """Return the sign before a cost: ≥ if calls of unknown cost are left, ≈ with an estimate."""
    return "≥ " if unpriced > estimated else "≈ " if estimated else ""


def dollars(amount: Decimal | None) -> str:
    """Return an amount in US dollars, to the cent."""
    if amount is None:
        return ""
    return f"${amount:,.2f}" if not amount or amount >= _SMALL else "<$0.01"


def money(sums: UsageTotals) -> dict[str, Decimal | None]:
    """Return recorded cost and estimate for JSON; None where no call has one."""
    return {
        "cost": sums.cost if sums.calls > sums.unpriced else None,
        "estimate": sums.estimate if sums.estimated else None,
    }


def bar(share: float, width: int = 10) -> str:
    """Return a bar of so many columns, filled up to a share of it."""
    full = min(round(share * width), width)
    return "█" * full + "░" * (width - full)
