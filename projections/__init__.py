"""Projections of conversations: views, the context window, transcripts, reports, checks.

    from projections import ModelView
    view = ModelView.of(session)

These are the public names; each is loaded when it is first used, so that the command line starts
quickly. Modules below may move.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from projections.live.aio import AsyncLive
    from projections.live.live_session import LiveSession
    from projections.live.patches import Update
    from projections.loop import (
        Ask,
        AsyncContextWindow,
        Blocked,
        CallModel,
        Compact,
        CompactionResult,
        ContextWindow,
        ModelRequest,
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
        answer_text,
        window_report,
    )
    from projections.reports.cache_rules import CacheRules
    from projections.reports.cache_uses import CacheUse, cache_uses
    from projections.reports.event_json import event_kind, event_record, event_summary
    from projections.reports.stats import SessionStats, session_stats
    from projections.reports.usage import UsageTotals, usage_by_model
    from projections.transcript.message import TranscriptMessage
    from projections.transcript.transcript import Transcript
    from projections.verify.verify import SessionReport, StoreReport
    from projections.view.explain import Explanation
    from projections.view.model_view import LiveView, ModelView, SharedPrefix, common_prefix
    from projections.view.options import Constraints, RenderOptions, preset
    from projections.window import (
        CompactionPolicy,
        ContextPolicy,
        Hooks,
        LoopPolicy,
        OverflowPolicy,
        PruneCase,
        PrunePlan,
        PrunePolicy,
        Summarizer,
        SummaryRequest,
        TruncationPolicy,
        policy_named,
        recall,
        register_planner,
        summarize_offline,
    )

__all__ = [
    "Ask",
    "AsyncContextWindow",
    "AsyncLive",
    "Blocked",
    "CacheRules",
    "CacheUse",
    "CallModel",
    "Compact",
    "CompactionPolicy",
    "CompactionResult",
    "Constraints",
    "ContextPolicy",
    "ContextWindow",
    "Explanation",
    "Hooks",
    "LiveSession",
    "LiveView",
    "LoopPolicy",
    "ModelRequest",
    "ModelView",
    "OverflowPolicy",
    "PendingCall",
    "Promote",
    "Prune",
    "PruneCase",
    "PrunePlan",
    "PrunePolicy",
    "RenderOptions",
    "ReplaceMedia",
    "RequestCompaction",
    "RunSubtask",
    "RunTools",
    "SessionReport",
    "SessionStats",
    "SharedPrefix",
    "Step",
    "Stop",
    "StoreReport",
    "Summarizer",
    "SummaryRequest",
    "Transcript",
    "TranscriptMessage",
    "TruncationPolicy",
    "Update",
    "UsageTotals",
    "Wait",
    "answer_text",
    "cache_uses",
    "common_prefix",
    "event_kind",
    "event_record",
    "event_summary",
    "policy_named",
    "preset",
    "recall",
    "register_planner",
    "session_stats",
    "summarize_offline",
    "usage_by_model",
    "window_report",
]

_HOMES = {
    "live.aio": ("AsyncLive",),
    "live.live_session": ("LiveSession",),
    "live.patches": ("Update",),
    "reports.cache_rules": ("CacheRules",),
    "reports.cache_uses": ("CacheUse", "cache_uses"),
    "reports.event_json": ("event_kind", "event_record", "event_summary"),
    "reports.stats": ("SessionStats", "session_stats"),
    "reports.usage": ("UsageTotals", "usage_by_model"),
    "transcript.transcript": ("TranscriptMessage", "Transcript"),
    "verify.verify": ("SessionReport", "StoreReport"),
    "view.explain": ("Explanation",),
    "view.model_view": ("LiveView", "ModelView", "SharedPrefix", "common_prefix"),
    "view.options": ("preset", "Constraints", "RenderOptions"),
}


def __getattr__(name: str) -> object:
    """Load a public name from its module; window and loop list their own."""
    if name not in __all__:
        raise AttributeError(f"module 'projections' has no attribute {name!r}")
    home = next((module for module, names in _HOMES.items() if name in names), None)
    if home is None:
        home = "window" if name in import_module("projections.window").__all__ else "loop"
    value = globals()[name] = getattr(import_module(f"projections.{home}"), name)
    return value


def __dir__() -> list[str]:
    """All public names, those included that are not loaded yet."""
    return sorted({*globals(), *__all__})
