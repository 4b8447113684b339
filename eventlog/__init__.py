"""An event-sourced store for agent conversations: events, log, and session handles.

    with eventlog.open("chats") as store:
        session = store.create_session(title="Fix the tests")

Everything public is named here, the classes for asyncio included, which are loaded when they are
first used; the modules below may move.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from eventlog import errors, events, values
from eventlog.append.pipeline import Pipeline
from eventlog.codec.decoded import Recorded, Span
from eventlog.codec.deltas import DeltaRun
from eventlog.errors import *
from eventlog.history.catalog import SessionInfo
from eventlog.history.session_page import SessionPage
from eventlog.integrity.heads import SessionHead, StoreHead
from eventlog.log.commit import Committed
from eventlog.models.catalogue import KnownModel, ModelCatalogue, Rates
from eventlog.models.catalogue import shipped as shipped_models
from eventlog.open_store import open_store as open
from eventlog.session.answering import Allow, AskedCall, Deny, Edit
from eventlog.session.reply import Reply
from eventlog.session.rollback import RollbackResult
from eventlog.session.session import Session
from eventlog.session.session_names import Names
from eventlog.session.shelf import Shelf
from eventlog.session.text_stream import TextStream
from eventlog.session.tool_call import ToolCall
from eventlog.session.turn import Turn
from eventlog.session.values import StoredValue, Values
from eventlog.store import Store
from eventlog.values import (
    Agent,
    Attachment,
    Body,
    Content,
    File,
    Json,
    Limits,
    Media,
    MessageError,
    Model,
    Opaque,
    Origin,
    PartKind,
    Patch,
    Price,
    Reasoning,
    Retry,
    Snapshot,
    Source,
    Subtask,
    Text,
    Todo,
    Tokens,
    Tool,
    Truncation,
    Usage,
)

if TYPE_CHECKING:
    from eventlog.adapters.settled import settled
    from eventlog.aio import AsyncReply, AsyncSession, AsyncSubscription, AsyncTurn
    from eventlog.importers import import_file
    from eventlog.importers.anthropic.content import AnthropicMapping
    from eventlog.importers.common.builder import RecordBuilder, RecordMapping
    from eventlog.importers.openai.messages import OpenAIChatMapping
    from eventlog.importers.openai.responses import OpenAIResponsesMapping
    from eventlog.maintenance.backup import restore
    from eventlog.maintenance.repair import repair
    from eventlog.records.feed import Feed
    from eventlog.records.read import Forgotten, Redacted
    from eventlog.search.hit import SearchHit, SearchPage
    from eventlog.search.usage import DayUsage, UsageByDay

__all__ = [
    "Agent",
    "Allow",
    "AlreadyExistsError",
    "AnthropicMapping",
    "ArgumentTypeError",
    "ArgumentValueError",
    "AskedCall",
    "AsyncReply",
    "AsyncSession",
    "AsyncSubscription",
    "AsyncTurn",
    "Attachment",
    "BlockedError",
    "Body",
    "BusyError",
    "CallError",
    "ClosedError",
    "Committed",
    "ConflictError",
    "Content",
    "CursorError",
    "DamagedError",
    "DataError",
    "DayUsage",
    "DeltaRun",
    "Deny",
    "Edit",
    "ErasedError",
    "EventlogError",
    "Feed",
    "FencedError",
    "File",
    "Forgotten",
    "ForkedProcessError",
    "ImportFormatError",
    "Json",
    "KeyMissingError",
    "KeyProviderError",
    "KeysError",
    "KnownModel",
    "LeaseHeldError",
    "LimitError",
    "Limits",
    "Media",
    "MessageError",
    "MessageTooLargeError",
    "Model",
    "ModelCatalogue",
    "Names",
    "NotFoundError",
    "Opaque",
    "OpenAIChatMapping",
    "OpenAIResponsesMapping",
    "Origin",
    "PartKind",
    "Patch",
    "Pipeline",
    "PoisonedError",
    "Price",
    "Rates",
    "ReadOnlyError",
    "Reasoning",
    "RecordBuilder",
    "RecordMapping",
    "Recorded",
    "Redacted",
    "RefusedError",
    "Reply",
    "RequestReusedError",
    "RequestTooLargeError",
    "Retry",
    "RetryError",
    "RollbackResult",
    "SearchHit",
    "SearchPage",
    "Session",
    "SessionHead",
    "SessionInfo",
    "SessionPage",
    "Shelf",
    "Snapshot",
    "Source",
    "Span",
    "StopError",
    "StorageError",
    "Store",
    "StoreHead",
    "StoredValue",
    "StreamError",
    "Subtask",
    "SummarizerError",
    "SummarizerRefusedError",
    "Text",
    "TextStream",
    "Todo",
    "Tokens",
    "TooNewError",
    "Tool",
    "ToolCall",
    "Truncation",
    "Turn",
    "UnfinishedError",
    "UnknownEventError",
    "UnknownModelError",
    "UnknownOutcomeError",
    "UnknownStreamError",
    "UnsupportedStorageError",
    "Usage",
    "UsageByDay",
    "Values",
    "WindowTooSmallError",
    "errors",
    "events",
    "import_file",
    "open",
    "repair",
    "restore",
    "settled",
    "shipped_models",
    "values",
]

_HOMES = {
    "adapters.settled": ("settled",),
    "aio": ("AsyncReply", "AsyncSession", "AsyncSubscription", "AsyncTurn"),
    "importers": ("import_file",),
    "importers.anthropic.content": ("AnthropicMapping",),
    "importers.common.builder": ("RecordBuilder", "RecordMapping"),
    "importers.openai.messages": ("OpenAIChatMapping",),
    "importers.openai.responses": ("OpenAIResponsesMapping",),
    "maintenance.backup": ("restore",),
    "maintenance.repair": ("repair",),
    "records.feed": ("Feed",),
    "records.read": ("Forgotten", "Redacted"),
    "search.hit": ("SearchHit", "SearchPage"),
    "search.usage": ("DayUsage", "UsageByDay"),
}


def __getattr__(name: str) -> object:
    """Load a public name at its first use, if its module needs asyncio or the importers."""
    for module, names in _HOMES.items():
        if name in names:
            found = globals()[name] = getattr(import_module(f"eventlog.{module}"), name)
            return found
    raise AttributeError(f"module 'eventlog' has no attribute {name!r}")


def __dir__() -> list[str]:
    """All public names, those included that are not loaded yet."""
    return sorted({*globals(), *__all__})
