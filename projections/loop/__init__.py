"""The loop: what to do next, replies filled, calls run, tasks, and the asyncio twins.

`ContextWindow` is the object to begin with. `projections/README.md` shows a loop.
"""

from __future__ import annotations

from projections.loop.context.aio import AsyncContextWindow, afill, afill_retrying
from projections.loop.context.compaction_run import CompactionResult
from projections.loop.context.model_request import ModelRequest
from projections.loop.context.open_reply import RunningCall
from projections.loop.context.refused_request import refusal
from projections.loop.context.report import WindowReport, window_report
from projections.loop.context.retrying import fill_retrying
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
from projections.loop.task_calls import answer_text, task_tool

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
