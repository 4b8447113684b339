"""What happened: events, their bytes, the log, and the handles that append.

    with eventlog.open("chats") as store:
        session = store.create_session(title="Fix the tests")

Everything public is named here; the modules below may move.
"""

from __future__ import annotations

from eventlog import errors, events, values
from eventlog.codec import Recorded, Span
from eventlog.deltas import DeltaRun
from eventlog.errors import EventlogError
from eventlog.head import SessionHead, StoreHead
from eventlog.keeping import repair, restore
from eventlog.listing import SessionInfo
from eventlog.log.base import Committed
from eventlog.pipeline import Pipeline
from eventlog.reply import Call, Reply
from eventlog.session import RollbackResult, Session
from eventlog.store import Store
from eventlog.store import open_store as open
from eventlog.stream import Stream
from eventlog.values import Attachment, File, Limits, Model, Text, Todo, Tokens, Truncation, Usage

__all__ = [
    "Attachment",
    "Call",
    "Committed",
    "DeltaRun",
    "EventlogError",
    "File",
    "Limits",
    "Model",
    "Pipeline",
    "Recorded",
    "Reply",
    "RollbackResult",
    "Session",
    "SessionHead",
    "SessionInfo",
    "Span",
    "Store",
    "StoreHead",
    "Stream",
    "Text",
    "Todo",
    "Tokens",
    "Truncation",
    "Usage",
    "errors",
    "events",
    "open",
    "repair",
    "restore",
    "values",
]
