"""The price of work under the default prune policy, against the best of three."""

from __future__ import annotations

from benchmarks import prune_cost
from benchmarks.figures import Case, Measurement, Setting

__all__ = ["CASE"]


def _priced(_setting: Setting) -> dict[str, Measurement]:
    return prune_cost.ratios()


CASE = Case("prune", prune_cost.FIGURES, _priced)
