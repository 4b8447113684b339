"""The context window: truncate, prune, compact, recover, and say what a loop does next.

These are the public names; each is loaded when it is first used. `ContextWindow` is the object to
begin with. `projections/README.md` shows a loop, a summariser and a prune planner.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from projections.window.aio import AsyncContextWindow, afill, afill_retrying
    from projections.window.compact import CompactionResult
    from projections.window.compaction.http_summarizer import HttpSummarizer
    from projections.window.compaction.offline import summarize_offline
    from projections.window.compaction.request import SummaryFacts, SummaryRequest
    from projections.window.compaction.summarizer import Piece, Summarizer, Summary, ToolCalled
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
    from projections.window.prune.case import PruneCase, PrunePlan
    from projections.window.prune.outline import ToolResult
    from projections.window.prune.planner import PrunePlanner, register_planner
    from projections.window.refused_request import refusal
    from projections.window.report import WindowReport, window_report
    from projections.window.retrieval.answer import answer_text
    from projections.window.retrieval.covered import covered_by
    from projections.window.retrieval.recall import RecallResult, recall
    from projections.window.retrieval.recall_calls import recall_tool
    from projections.window.retrying import fill_retrying
    from projections.window.steps import (
        Blocked,
        CallModel,
        Compact,
        PendingCall,
        Promote,
        Prune,
        ReplaceMedia,
        RequestCompaction,
        RunSubtask,
        RunTools,
        Step,
        Stop,
        Wait,
    )
    from projections.window.task_calls import task_tool
    from projections.window.titles import give_title
    from projections.window.window import ContextWindow, RunningCall
    from projections.window.window_state import ModelRequest

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
    "ModelRequest",
    "OverflowPolicy",
    "PendingCall",
    "Piece",
    "Prices",
    "Promote",
    "Prune",
    "PruneCase",
    "PrunePlan",
    "PrunePlanner",
    "PrunePolicy",
    "RecallResult",
    "ReplaceMedia",
    "RequestCompaction",
    "RunSubtask",
    "RunTools",
    "RunningCall",
    "Step",
    "Stop",
    "Summarizer",
    "Summary",
    "SummaryFacts",
    "SummaryRequest",
    "ToolCalled",
    "ToolResult",
    "TruncationPolicy",
    "Wait",
    "WindowReport",
    "afill",
    "afill_retrying",
    "answer_text",
    "apply_patch",
    "covered_by",
    "fill",
    "fill_retrying",
    "give_title",
    "policy_named",
    "recall",
    "recall_tool",
    "refusal",
    "register_planner",
    "summarize_offline",
    "task_tool",
    "window_report",
]

_HOMES = {
    "aio": ("AsyncContextWindow", "afill", "afill_retrying"),
    "compact": ("CompactionResult",),
    "compaction.http_summarizer": ("HttpSummarizer",),
    "compaction.offline": ("summarize_offline",),
    "compaction.request": ("SummaryFacts", "SummaryRequest"),
    "compaction.summarizer": ("Piece", "Summarizer", "Summary", "ToolCalled"),
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
    "prune.case": ("PruneCase", "PrunePlan"),
    "prune.outline": ("ToolResult",),
    "prune.planner": ("PrunePlanner", "register_planner"),
    "refused_request": ("refusal",),
    "report": ("WindowReport", "window_report"),
    "retrieval.answer": ("answer_text",),
    "retrieval.covered": ("covered_by",),
    "retrieval.recall": ("RecallResult", "recall"),
    "retrieval.recall_calls": ("recall_tool",),
    "retrying": ("fill_retrying",),
    "steps": (
        "Blocked",
        "CallModel",
        "Compact",
        "PendingCall",
        "Promote",
        "Prune",
        "ReplaceMedia",
        "RequestCompaction",
        "RunSubtask",
        "RunTools",
        "Step",
        "Stop",
        "Wait",
    ),
    "task_calls": ("task_tool",),
    "titles": ("give_title",),
    "window": ("ContextWindow", "RunningCall"),
    "window_state": ("ModelRequest",),
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
