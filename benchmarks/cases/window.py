"""The longest recorded sessions driven through a window of 32k tokens, by prune policy.

Measured are the time they take and the money they would cost. Prices are the policy's
defaults, printed in the titles; summaries are those of the offline digest, charged as if a model
had written them.
"""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from msgspec.structs import replace

import eventlog
from benchmarks import prune_cost
from benchmarks.driving import DriveResult, RecordedTurn, drive, recorded_turns
from benchmarks.figures import Case, Figure, Measurement, Setting, Target
from benchmarks.workloads import generated_session
from eventlog.importers import import_file
from projections.window.policy.policy import DEFAULT_POLICY, Prices

__all__ = ["CASE", "PLANNED", "driven_by", "longest_turns"]

PLANNED = ("recency", "superseded", "cost-aware")
"""Prune policies that are compared."""
AGENTS = ("claude_code", "codex")


def longest_turns(recorded: Path | None, directory: Path, generated: int, most: int) -> list[list[RecordedTurn]]:
    """Return the turns of the longest recorded sessions, or of a generated one."""
    files = _longest(recorded, most) if recorded is not None else []
    sessions: list[list[RecordedTurn]] = []
    for path in files or [generated_session(directory / "generated.jsonl", generated)]:
        with eventlog.open("memory:") as store:
            import_file(store, path)
            longest = max(store.sessions(), key=lambda info: info.messages)
            sessions.append(recorded_turns(store.session(longest.id)))
    return sessions


def _longest(recorded: Path, most: int) -> list[Path]:
    """Return the largest files of whole sessions of either agent, largest first."""
    files = [path for agent in AGENTS for path in recorded.glob(f"entireio_{agent}/*.jsonl")]
    return sorted(files, key=lambda path: (-path.stat().st_size, path.name))[:most]


def driven_by(planner: str, turns: list[RecordedTurn]) -> DriveResult:
    """Drive one session through the window under one prune policy."""
    policy = replace(DEFAULT_POLICY, prune=replace(DEFAULT_POLICY.prune, policy=planner))
    with eventlog.open("memory:") as store:
        return drive(store.create_session(), turns, policy)


class _Sums(NamedTuple):
    """Sums over all sessions under one policy."""

    drives: list[DriveResult]

    def measured(self, planner: str, recency_cost: float) -> dict[str, Measurement]:
        drives = self.drives
        cost = float(sum(result.cost for result in drives))
        steps = sum(result.steps for result in drives)
        return {
            f"window.{planner}.largest": Measurement(
                max(result.largest for result in drives), max(result.usable for result in drives)
            ),
            f"window.{planner}.compactions": Measurement(sum(result.compactions for result in drives), steps),
            f"window.{planner}.pruned": Measurement(sum(result.freed_by_prune for result in drives) / 1e3),
            f"window.{planner}.compacted": Measurement(sum(result.freed_by_compaction for result in drives) / 1e3),
            f"window.{planner}.prefix": Measurement(fmean(result.common_prefix for result in drives)),
            f"window.{planner}.cost": Measurement(cost, recency_cost),
            f"window.{planner}.uncached": Measurement(float(sum(result.cost_uncached for result in drives)), cost),
        }


def _driven(setting: Setting) -> dict[str, Measurement]:
    sessions = longest_turns(setting.recorded, setting.directory, setting.sizes.generated, most=3)
    sums = {planner: _Sums([driven_by(planner, turns) for turns in sessions]) for planner in PLANNED}
    recency = float(sum(result.cost for result in sums["recency"].drives))
    measured: dict[str, Measurement] = {}
    for planner in PLANNED:
        measured |= sums[planner].measured(planner, recency)
    return measured | prune_cost.ratios()


def _figures(planner: str) -> tuple[Figure, ...]:
    prices = Prices()
    priced = f"${prices.cache_write}/{prices.cache_read}/{prices.output} per M written/cached/output"
    cost = Target("<=", 1.0) if planner == "cost-aware" else None
    return (
        Figure(f"window.{planner}.largest", f"largest request, policy {planner}", "tokens", "usable", Target("<", 1.0)),
        Figure(f"window.{planner}.compactions", "compactions", "", "steps"),
        Figure(f"window.{planner}.pruned", "freed by pruning", "k tokens"),
        Figure(f"window.{planner}.compacted", "freed by compaction", "k tokens"),
        Figure(f"window.{planner}.prefix", "share of a request that it has in common with the one before", ""),
        Figure(f"window.{planner}.cost", f"provider's price, policy {planner} ({priced})", "USD", "recency's", cost),
        Figure(f"window.{planner}.uncached", f"without a cache (${prices.input} per M input)", "USD", "with it"),
    )


CASE = Case("window", (*(figure for planner in PLANNED for figure in _figures(planner)), *prune_cost.FIGURES), _driven)
