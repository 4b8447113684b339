"""A run against an earlier one: what got better, what got worse.

Figures that have a baseline in their own run are compared by their ratios, so that another machine, or a busy one, does not
count; the few that have none are compared as they are, and marked.  Processor times are figures like others: those of the turn are held
against SQLite's in the same run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from benchmarks.figures import Figure, Result, Target

__all__ = ["Change", "compared", "read_results"]

NOTABLE = 1.25
"""How many times better or worse a figure must be to be called so.

Two runs of one program differ by less.
"""


class _Run(msgspec.Struct):
    results: list[Result]


class Change(NamedTuple):
    """A figure then and now, ratios where it has them."""

    id: str
    then: float
    now: float
    is_ratio: bool
    verdict: Literal["better", "worse", "same"]
    target: Target | None = None
    """What `times` has to be, if anything."""

    @property
    def times(self) -> float:
        """`now / then`; 1 where there was nothing and is nothing."""
        return self.now / self.then if self.then else 1.0

    @property
    def met(self) -> bool | None:
        """Whether `times` is what it has to be; None if it may be anything."""
        return None if self.target is None else self.target.met(self.times)


def read_results(path: Path) -> list[Result]:
    """The results of a run that was written with `--json`.

    `msgspec.ValidationError` for another file.
    """
    return msgspec.json.decode(path.read_bytes(), type=_Run).results


def compared(then: Sequence[Result], now: Sequence[Result], figures: Mapping[str, Figure]) -> list[Change]:
    """The figures that both runs have, in the order of the later one."""
    earlier = {result.id: result for result in then}
    targets = {name: figure.before for name, figure in figures.items()}
    return [_change(earlier[result.id], result, targets.get(result.id)) for result in now if result.id in earlier]


def _change(then: Result, now: Result, target: Target | None) -> Change:
    is_ratio = then.ratio is not None and now.ratio is not None
    before, after = (
        (then.ratio, now.ratio) if then.ratio is not None and now.ratio is not None else (then.value, now.value)
    )
    more_is_better = now.unit.endswith("/s") or (now.target or "").startswith(">")
    better = after / before if before and more_is_better else before / after if after and before else 1.0
    verdict: Literal["better", "worse", "same"] = "same"
    if better >= NOTABLE:
        verdict = "better"
    elif better <= 1 / NOTABLE:
        verdict = "worse"
    return Change(now.id, before, after, is_ratio, verdict, target)
