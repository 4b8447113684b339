"""The values events are made of: content, models, tokens, errors, and the kinds of part.

Not here: the events (`events`) and their bytes (`codec/batch.py`).
Every value is a frozen struct with a fixed field order, because structs are stored as arrays: a new
field is added at the end, with a default.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Literal, NamedTuple, TypeAlias

import msgspec

__all__ = [
    "DENIED",
    "INTERRUPTED",
    "WAITING",
    "Agent",
    "Attachment",
    "Body",
    "Content",
    "File",
    "Json",
    "Limits",
    "Media",
    "MessageError",
    "Model",
    "Opaque",
    "Origin",
    "PartKind",
    "Patch",
    "Price",
    "Reasoning",
    "Retry",
    "Snapshot",
    "Source",
    "Subtask",
    "Text",
    "Todo",
    "Tokens",
    "Tool",
    "Truncation",
    "Usage",
    "target_of",
]

Json: TypeAlias = str
"""Compact JSON text.

Kept as text so that key order, number form and depth survive exactly.
"""


class Value(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Base of the values: immutable, compared by content, stored as an array.

    They are in no reference cycle, so the collector need not look at them (`gc=False`).
    """


class Body(Value, frozen=True, array_like=True, tag="b"):
    """A large text stored once by content: its SHA-256, bytes and characters."""

    digest: bytes
    size: int
    characters: int


Content: TypeAlias = str | Body
"""A text, inline if it is short, else by reference.

`codec/large_texts.py` has the threshold.
"""


class Model(Value, frozen=True, array_like=True):
    """A model as its provider names it."""

    provider: str
    name: str

    def __str__(self) -> str:
        return f"{self.provider}/{self.name}" if self.provider else self.name


def target_of(model: Model | None, endpoint: str = "") -> str:
    """Return the target of a request: "provider/model", with " at endpoint" if one is named.

    `model` None gives "", the target that is not known. `endpoint` is the caller's name of a host,
    a region or an account whose signatures and ciphers no other can read.
    """
    if model is None:
        return ""
    return f"{model.provider}/{model.name} at {endpoint}" if endpoint else f"{model.provider}/{model.name}"


class Tokens(Value, frozen=True, array_like=True):
    """Token counts as the provider reported them; `total` is None when it reported none."""

    input: int = 0
    output: int = 0
    reasoning: int = 0
    cache_read: int = 0
    cache_write: int = 0
    total: int | None = None


class Usage(Value, frozen=True, array_like=True):
    """Tokens and their price in US dollars; `cost` is None when the price is unknown."""

    tokens: Tokens
    cost: Decimal | None = None


class Price(NamedTuple):
    """The price of a model call in US dollars, and the date of its catalogue."""

    cost: Decimal
    catalogue: str


class Limits(Value, frozen=True, array_like=True):
    """A model's limits in tokens; `context` 0 means unlimited, None means unknown."""

    context: int = 0
    output: int | None = None
    input: int | None = None


class Origin(Value, frozen=True, array_like=True):
    """Where an imported session comes from; `format` and `foreign_id` are its identity."""

    format: str
    foreign_id: str
    path: str = ""
    version: str = ""


class MessageError(Value, frozen=True, array_like=True):
    """Why a message or step failed.

    `name` is a kind ("aborted", "api", "overflow", "output-length", "auth", "content-filter",
    "unknown", or a foreign name); `data` is what the provider sent.
    """

    name: str
    message: str = ""
    data: Json | None = None


class Truncation(Value, frozen=True, array_like=True):
    """A truncated tool output: the view shows `preview`, the store has all of it."""

    preview: Content
    lines: int
    """Lines of the full output."""
    size: int
    """Bytes of the full output (UTF-8)."""
    direction: Literal["head", "tail", "both"] = "tail"


class Source(Value, frozen=True, array_like=True):
    """Where a file part or an agent mention comes from in the user's text."""

    kind: Literal["file", "symbol", "resource", "text"]
    path: str = ""
    start: int | None = None
    """Character range of the mention in the user's text."""
    end: int | None = None
    value: str = ""
    """The mention as written."""
    name: str = ""
    """Symbol or resource name."""
    range: tuple[int, int, int, int] | None = None
    """Symbol range: start line, start character, end line, end character."""
    client: str = ""
    """Client of a resource."""
    symbol_kind: int | None = None


class Attachment(Value, frozen=True, array_like=True):
    """A file that a tool returned beside its output; `url` is a data URL or a reference."""

    mime: str
    url: Content
    filename: str | None = None
    id: str = ""
    source: Source | None = None


class Media(Value, frozen=True, array_like=True):
    """An image or document of the conversation: its part, and which of the part's files it is."""

    part: str
    mime: str
    name: str = ""


class Todo(Value, frozen=True, array_like=True):
    """One entry of the session's list of things to do."""

    text: str
    status: str = "pending"
    priority: str = ""
    id: str = ""


class Text(Value, frozen=True, array_like=True, tag="text"):
    """A text.  `synthetic`: written by the program; `ignored`: shown to people, not sent."""

    text: Content = ""
    synthetic: bool = False
    ignored: bool = False
    metadata: Json | None = None


class Reasoning(Value, frozen=True, array_like=True, tag="reasoning"):
    """Reasoning of the model; `metadata` has the provider's signature or encrypted form."""

    text: Content = ""
    metadata: Json | None = None


class Tool(Value, frozen=True, array_like=True, tag="tool"):
    """A tool call, born pending.  `call` is the provider's id, unique within its message only."""

    call: str
    tool: str
    provider_executed: bool = False
    metadata: Json | None = None


class File(Value, frozen=True, array_like=True, tag="file"):
    """A file of the user's (or of the model's); `url` is a data URL or a reference."""

    mime: str
    url: Content
    filename: str | None = None
    source: Source | None = None
    synthetic: bool = False
    metadata: Json | None = None


class Subtask(Value, frozen=True, array_like=True, tag="subtask"):
    """Work to be given to a sub-agent; `session` is set once a sub-session runs it."""

    prompt: Content
    description: str = ""
    agent: str = ""
    model: Model | None = None
    command: str | None = None
    session: str | None = None


class Agent(Value, frozen=True, array_like=True, tag="agent"):
    """A mention of an agent."""

    name: str
    source: Source | None = None


class Snapshot(Value, frozen=True, array_like=True, tag="snapshot"):
    """A state of the user's files, by the name under which the program stores the files."""

    snapshot: str


class Patch(Value, frozen=True, array_like=True, tag="patch"):
    """Files changed since the snapshot `hash`."""

    hash: str
    files: tuple[str, ...] = ()


class Opaque(Value, frozen=True, array_like=True, tag="opaque"):
    """A compaction that the provider made: it stands for what its request showed.

    The reply that it is part of has seen the messages that it covers; pending questions and the
    messages `kept` are not covered. It counts once the model call has ended.
    """

    kind: str
    """Type of the provider's item or block: "openai.compaction" or "anthropic.compaction"."""
    data: Content
    """The item or block as JSON, which is sent back to `target`."""
    target: str = ""
    """The target that can read it: see `target_of`; "": none is known."""
    text: Content | None = None
    """Its readable summary, which counts for all targets; None: it counts for `target`."""
    kept: tuple[str, ...] = ()


class Retry(Value, frozen=True, array_like=True, tag="retry"):
    """A failed attempt that was repeated."""

    attempt: int
    error: MessageError


PartKind: TypeAlias = Text | Reasoning | Tool | File | Subtask | Agent | Snapshot | Patch | Retry | Opaque
"""Kinds that `PartStarted` may start.

Step and compaction parts come from their own events.
"""

INTERRUPTED = "[Tool execution was interrupted]"
"""Result of a call whose tool was interrupted."""
WAITING = "[Waiting for approval]"
"""Stands for the result of a call that waits for a person."""
DENIED = "[Denied]"
"""Begins the result of a call that a person denied."""
