"""The content of the context window: policies, prunes, compactions, recall.

These are the public names; each is loaded when it is first used. `projections/README.md` shows a
summariser and a prune planner, `projections/loop` uses them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from projections.window.compaction.offline import summarize_offline
    from projections.window.compaction.request import SummaryFacts, SummaryRequest
    from projections.window.compaction.summarizer import FailedCall, Piece, Summarizer, Summary, ToolCalled
    from projections.window.compaction.titles import give_title
    from projections.window.policy.hooks import AutoContinue, Hooks, apply_patch
    from projections.window.policy.policy import (
        CompactionPolicy,
        ContextPolicy,
        LoopPolicy,
        OverflowPolicy,
        Prices,
        PrunePolicy,
        TruncationPolicy,
        policy_named,
    )
    from projections.window.prune.case import PruneCase, PrunePlan
    from projections.window.prune.clearable import Clearable
    from projections.window.prune.planners import PrunePlanner, register_planner
    from projections.window.retrieval.covered import covered_by
    from projections.window.retrieval.recall import RecallResult, recall
    from projections.window.retrieval.recall_calls import recall_tool

__all__ = [
    "AutoContinue",
    "Clearable",
    "CompactionPolicy",
    "ContextPolicy",
    "FailedCall",
    "Hooks",
    "LoopPolicy",
    "OverflowPolicy",
    "Piece",
    "Prices",
    "PruneCase",
    "PrunePlan",
    "PrunePlanner",
    "PrunePolicy",
    "RecallResult",
    "Summarizer",
    "Summary",
    "SummaryFacts",
    "SummaryRequest",
    "ToolCalled",
    "TruncationPolicy",
    "apply_patch",
    "covered_by",
    "give_title",
    "policy_named",
    "recall",
    "recall_tool",
    "register_planner",
    "summarize_offline",
]

_HOMES = {
    "compaction.offline": ("summarize_offline",),
    "compaction.request": ("SummaryFacts", "SummaryRequest"),
    "compaction.summarizer": ("FailedCall", "Piece", "Summarizer", "Summary", "ToolCalled"),
    "compaction.titles": ("give_title",),
    "policy.hooks": ("AutoContinue", "Hooks", "apply_patch"),
    "policy.policy": (
        "CompactionPolicy",
        "ContextPolicy",
        "LoopPolicy",
        "OverflowPolicy",
        "Prices",
        "PrunePolicy",
        "TruncationPolicy",
        "policy_named",
    ),
    "prune.case": ("PruneCase", "PrunePlan"),
    "prune.clearable": ("Clearable",),
    "prune.planners": ("PrunePlanner", "register_planner"),
    "retrieval.covered": ("covered_by",),
    "retrieval.recall": ("RecallResult", "recall"),
    "retrieval.recall_calls": ("recall_tool",),
}


def __getattr__(name: str) -> object:
    """Load a public name from its module."""
    for module, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(f"projections.window.{module}"), name)
            return value
    raise AttributeError(f"module 'projections.window' has no attribute {name!r}")


def __dir__() -> list[str]:
    """All public names, those included that are not loaded yet."""
    return sorted({*globals(), *__all__})
