"""What to make of it: folds, views, renderers and the tools for looking.

    from projections import ModelView
    view = ModelView.of(session)

The public names are here and are loaded when they are first used, so that the command line starts quickly; the modules below
may move.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from projections.reports.event_json import event_kind, event_record, event_summary
    from projections.reports.stats import SessionStats, session_stats
    from projections.reports.usage import UsageTotals, usage_by_model
    from projections.transcript.transcript import Transcript, TranscriptMessage
    from projections.verify.verify import SessionReport, StoreReport, verify_session
    from projections.view.explain import Explanation
    from projections.view.model_view import LiveView, ModelView, SharedPrefix, common_prefix
    from projections.view.options import Constraints, RenderOptions, preset
    from projections.window import (
        AsyncContextWindow,
        Blocked,
        CallModel,
        Compact,
        ContextPolicy,
        ContextWindow,
        PendingCall,
        Promote,
        Prune,
        RequestCompaction,
        RunSubtask,
        RunTools,
        Step,
        Stop,
        Wait,
        afill,
        fill,
        policy_named,
    )

__all__ = [
    "AsyncContextWindow",
    "Blocked",
    "CallModel",
    "Compact",
    "Constraints",
    "ContextPolicy",
    "ContextWindow",
    "Explanation",
    "LiveView",
    "ModelView",
    "PendingCall",
    "Promote",
    "Prune",
    "RenderOptions",
    "RequestCompaction",
    "RunSubtask",
    "RunTools",
    "SessionReport",
    "SessionStats",
    "SharedPrefix",
    "Step",
    "Stop",
    "StoreReport",
    "Transcript",
    "TranscriptMessage",
    "UsageTotals",
    "Wait",
    "afill",
    "common_prefix",
    "event_kind",
    "event_record",
    "event_summary",
    "fill",
    "policy_named",
    "preset",
    "session_stats",
    "usage_by_model",
    "verify_session",
]

_HOMES = {
    "reports.event_json": ("event_kind", "event_record", "event_summary"),
    "reports.stats": ("SessionStats", "session_stats"),
    "reports.usage": ("UsageTotals", "usage_by_model"),
    "transcript.transcript": ("TranscriptMessage", "Transcript"),
    "verify.verify": ("SessionReport", "StoreReport", "verify_session"),
    "view.explain": ("Explanation",),
    "view.model_view": ("LiveView", "ModelView", "SharedPrefix", "common_prefix"),
    "view.options": ("preset", "Constraints", "RenderOptions"),
    "window": (
        "AsyncContextWindow",
        "Blocked",
        "CallModel",
        "Compact",
        "ContextPolicy",
        "ContextWindow",
        "PendingCall",
        "Promote",
        "Prune",
        "RequestCompaction",
        "RunSubtask",
        "RunTools",
        "Step",
        "Stop",
        "Wait",
        "afill",
        "fill",
        "policy_named",
    ),
}


def __getattr__(name: str) -> object:
    """Load a public name where it lives."""
    for module, names in _HOMES.items():
        if name in names:
            found = globals()[name] = getattr(import_module(f"projections.{module}"), name)
            return found
    raise AttributeError(f"module 'projections' has no attribute {name!r}")


def __dir__() -> list[str]:
    """All public names, those included that are not loaded yet."""
    return sorted({*globals(), *__all__})
