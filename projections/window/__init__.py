"""Keeping a conversation inside its model's window: truncate, prune, compact, recover, decide.

The public names; nothing is loaded before it is asked for.  `ContextWindow` is the object to begin with, `next_step` the decision
behind it.  The offline summariser, which is the default, is `projections.window.compaction.digest.digest`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from projections.window.aio import AsyncContextWindow, afill
    from projections.window.compact import CompactionResult
    from projections.window.compaction.http_summarizer import HttpSummarizer
    from projections.window.compaction.request import SummaryRequest
    from projections.window.compaction.summarizer import Summarizer, ToolCalled
    from projections.window.fill_loop import fill
    from projections.window.hooks import AutoContinue, Hooks, apply_patch
    from projections.window.policy import (
        CompactionPolicy,
        ContextPolicy,
        LoopPolicy,
        OverflowPolicy,
        Prices,
        PrunePolicy,
        TruncationPolicy,
        policy_named,
    )
    from projections.window.prune.planner import PrunePlan, register_planner
    from projections.window.report import WindowReport, window_report
    from projections.window.retrieval.covered import covered_by
    from projections.window.retrieval.recall import RecallResult, recall
    from projections.window.retrieval.recall_calls import recall_tool
    from projections.window.steps import (
        Blocked,
        CallModel,
        Compact,
        PendingCall,
        Promote,
        Prune,
        RequestCompaction,
        RunSubtask,
        RunTools,
        Step,
        Stop,
        Wait,
    )
    from projections.window.window import ContextWindow, Request

__all__ = [
    "AsyncContextWindow",
    "AutoContinue",
    "Blocked",
    "CallModel",
    "Compact",
    "CompactionPolicy",
    "CompactionResult",
    "ContextPolicy",
    "ContextWindow",
    "Hooks",
    "HttpSummarizer",
    "LoopPolicy",
    "OverflowPolicy",
    "PendingCall",
    "Prices",
    "Promote",
    "Prune",
    "PrunePlan",
    "PrunePolicy",
    "RecallResult",
    "Request",
    "RequestCompaction",
    "RunSubtask",
    "RunTools",
    "Step",
    "Stop",
    "Summarizer",
    "SummaryRequest",
    "ToolCalled",
    "TruncationPolicy",
    "Wait",
    "WindowReport",
    "afill",
    "apply_patch",
    "covered_by",
    "fill",
    "policy_named",
    "recall",
    "recall_tool",
    "register_planner",
    "window_report",
]

_HOMES = {
    "aio": ("AsyncContextWindow", "afill"),
    "compact": ("CompactionResult",),
    "compaction.http_summarizer": ("HttpSummarizer",),
    "compaction.request": ("SummaryRequest",),
    "compaction.summarizer": ("Summarizer", "ToolCalled"),
    "fill_loop": ("fill",),
    "hooks": ("AutoContinue", "Hooks", "apply_patch"),
    "policy": (
        "CompactionPolicy",
        "ContextPolicy",
        "LoopPolicy",
        "OverflowPolicy",
        "Prices",
        "PrunePolicy",
        "TruncationPolicy",
        "policy_named",
    ),
    "prune.planner": ("PrunePlan", "register_planner"),
    "report": ("WindowReport", "window_report"),
    "retrieval.covered": ("covered_by",),
    "retrieval.recall": ("RecallResult", "recall"),
    "retrieval.recall_calls": ("recall_tool",),
    "steps": (
        "Blocked",
        "CallModel",
        "Compact",
        "PendingCall",
        "Promote",
        "Prune",
        "RequestCompaction",
        "RunSubtask",
        "RunTools",
        "Step",
        "Stop",
        "Wait",
    ),
    "window": ("ContextWindow", "Request"),
}


def __getattr__(name: str) -> object:
    """Load a public name where it lives."""
    for module, names in _HOMES.items():
        if name in names:
            found = globals()[name] = getattr(import_module(f"projections.window.{module}"), name)
            return found
    raise AttributeError(f"module 'projections.window' has no attribute {name!r}")


def __dir__() -> list[str]:
    """All public names, those included that are not loaded yet."""
    return sorted({*globals(), *__all__})
