"""The loop: what to do next, replies filled, calls run, tasks, and the asyncio twins.

These are the public names; each is loaded when it is first used. `ContextWindow` is the object to
begin with. `projections/README.md` shows a loop.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from projections.loop.context.aio import AsyncContextWindow, afill, afill_retrying
    from projections.loop.context.compaction_run import CompactionResult
    from projections.loop.context.model_request import ModelRequest
    from projections.loop.context.refused_request import refusal
    from projections.loop.context.report import WindowReport, window_report
    from projections.loop.context.retrying import fill_retrying
    from projections.loop.context.running_call import RunningCall
    from projections.loop.context.summarize_with import summarize_with
    from projections.loop.context.window import ContextWindow
    from projections.loop.decision.steps import (
        Ask,
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
    from projections.loop.tasks.answer_text import answer_text
    from projections.loop.tasks.task_calls import task_tool

__all__ = [
    "Ask",
    "AsyncContextWindow",
    "Blocked",
    "CallModel",
    "Compact",
    "CompactionResult",
    "ContextWindow",
    "ModelRequest",
    "PendingCall",
    "Promote",
    "Prune",
    "ReplaceMedia",
    "RequestCompaction",
    "RunSubtask",
    "RunTools",
    "RunningCall",
    "Step",
    "Stop",
    "Wait",
    "WindowReport",
    "afill",
    "afill_retrying",
    "answer_text",
    "fill_retrying",
    "refusal",
    "summarize_with",
    "task_tool",
    "window_report",
]

_HOMES = {
    "context.aio": ("AsyncContextWindow", "afill", "afill_retrying"),
    "context.compaction_run": ("CompactionResult",),
    "context.model_request": ("ModelRequest",),
    "context.refused_request": ("refusal",),
    "context.report": ("WindowReport", "window_report"),
    "context.running_call": ("RunningCall",),
    "context.window": ("ContextWindow",),
    "decision.steps": (
        "Ask",
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
    "context.summarize_with": ("summarize_with",),
    "context.retrying": ("fill_retrying",),
    "tasks.answer_text": ("answer_text",),
    "tasks.task_calls": ("task_tool",),
}


def __getattr__(name: str) -> object:
    """Load a public name from its module."""
    for module, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(f"projections.loop.{module}"), name)
            return value
    raise AttributeError(f"module 'projections.loop' has no attribute {name!r}")


def __dir__() -> list[str]:
    """All public names, those included that are not loaded yet."""
    return sorted({*globals(), *__all__})
