"""What happened: events, their bytes, the log, and the handles that append.

    with eventlog.open("chats") as store:
        session = store.create_session(title="Fix the tests")

Everything public is named here; the modules below may move.
"""

from __future__ import annotations

from eventlog import errors, events, values
from eventlog.append.pipeline import Pipeline
from eventlog.codec.decoded import Recorded, Span
from eventlog.codec.deltas import DeltaRun
from eventlog.errors import EventlogError
from eventlog.history.catalog import SessionInfo
from eventlog.integrity.heads import SessionHead, StoreHead
from eventlog.log.contract import Committed
from eventlog.session.reply import Reply
from eventlog.session.session import RollbackResult, Session
from eventlog.session.text_stream import Stream
from eventlog.session.tool_call import Call
from eventlog.store import Store, repair, restore
from eventlog.store import open_store as open
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
