"""Runs read from their JSON, and a run compared with an earlier one.

Figures with a baseline in their own run are compared by their ratios, so that the machine and its
load do not count. Figures without one are compared as they are, and marked.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from benchmarks.figures import Missing, Result, Row

NOTABLE = 1.25
"""Factor from which a figure counts as changed; runs of one program differ by less."""


class Run(msgspec.Struct):
    """A run as `--json` writes it; `report.write_json` documents the form."""

    results: list[Result]
    machine: dict[str, Any] = {}
    rows: list[Row] = []
    remarks: dict[str, str] = {}
    missing: list[Missing] = []


class Change(NamedTuple):
    """A figure in an earlier and a later run, compared by ratio where it has one."""

    id: str
    then: float
    now: float
    is_ratio: bool
    verdict: Literal["better", "worse", "same"]

    @property
    def times(self) -> float:
        """`now / then`; 1 where the earlier figure is 0."""
        return self.now / self.then if self.then else 1.0


def read_run(path: Path) -> Run:
    """Read a run that `--json` wrote; `msgspec.MsgspecError` for any other file."""
    return msgspec.json.decode(path.read_bytes(), type=Run)


def compared(then: Sequence[Result], now: Sequence[Result]) -> list[Change]:
    """Compare the figures that both runs have, in the order of the later run."""
    earlier = {result.id: result for result in then}
    return [_change(earlier[result.id], result) for result in now if result.id in earlier]


def _change(then: Result, now: Result) -> Change:
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
    return Change(now.id, before, after, is_ratio, verdict)
