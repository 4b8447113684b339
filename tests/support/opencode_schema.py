"""OpenCode 1.18's import schemas as types: the members that they demand."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

Number = int | float
Object = dict[str, Any]
Text = str | UnsetType
Flag = bool | UnsetType


class Cache(msgspec.Struct):
    """Cache tokens."""

    read: Number
    write: Number


class Tokens(msgspec.Struct):
    """Tokens of a step or message."""

    input: Number
    output: Number
    reasoning: Number
    cache: Cache
    total: Number | UnsetType = UNSET


class Model(msgspec.Struct):
    """A model."""

    providerID: str  # noqa: N815  # OpenCode's name
    modelID: str  # noqa: N815  # OpenCode's name
    variant: Text = UNSET


class Span(msgspec.Struct):
    """Where in the user's text something is mentioned."""

    value: str
    start: int
    end: int


class FileSource(msgspec.Struct, tag="file", tag_field="type"):
    """A file."""

    text: Span
    path: str


class SymbolSource(msgspec.Struct, tag="symbol", tag_field="type"):
    """A symbol."""

    text: Span
    path: str
    range: Object
    name: str
    kind: int


class ResourceSource(msgspec.Struct, tag="resource", tag_field="type"):
    """A resource of a client."""

    text: Span
    clientName: str  # noqa: N815  # OpenCode's name
    uri: str


class Timed(msgspec.Struct):
    """When a part began and ended."""

    start: Number
    end: Number | UnsetType = UNSET


class Ended(msgspec.Struct):
    """When a call began, ended and was pruned."""

    start: Number
    end: Number
    compacted: Number | UnsetType = UNSET


class Created(msgspec.Struct):
    """When something was made."""

    created: Number
    completed: Number | UnsetType = UNSET


class Part(msgspec.Struct, tag_field="type"):
    """Fields of every part."""

    id: str
    sessionID: str  # noqa: N815  # OpenCode's name
    messageID: str  # noqa: N815  # OpenCode's name


class TextPart(Part, tag="text"):
    """A text."""

    text: str
    synthetic: Flag = UNSET
    ignored: Flag = UNSET
    time: Timed | UnsetType = UNSET
    metadata: Object | UnsetType = UNSET


class ReasoningPart(Part, tag="reasoning"):
    """A thought."""

    text: str
    time: Timed
    metadata: Object | UnsetType = UNSET


class FilePart(Part, tag="file"):
    """A file."""

    mime: str
    url: str
    filename: Text = UNSET
    source: FileSource | SymbolSource | ResourceSource | UnsetType = UNSET


class Pending(msgspec.Struct, tag="pending", tag_field="status"):
    """A call that is not complete."""

    input: Object
    raw: str


class Running(msgspec.Struct, tag="running", tag_field="status"):
    """A call that runs."""

    input: Object
    time: Timed
    title: Text = UNSET
    metadata: Object | UnsetType = UNSET


class Completed(msgspec.Struct, tag="completed", tag_field="status"):
    """A call with its output."""

    input: Object
    output: str
    title: str
    metadata: Object
    time: Ended
    attachments: list[FilePart] | UnsetType = UNSET


class Failed(msgspec.Struct, tag="error", tag_field="status"):
    """A call that failed."""

    input: Object
    error: str
    time: Ended
    metadata: Object | UnsetType = UNSET


class ToolPart(Part, tag="tool"):
    """A call."""

    callID: str  # noqa: N815  # OpenCode's name
    tool: str
    state: Pending | Running | Completed | Failed
    metadata: Object | UnsetType = UNSET


class AgentPart(Part, tag="agent"):
    """A mention of an agent."""

    name: str
    source: Span | UnsetType = UNSET


class CompactionPart(Part, tag="compaction"):
    """A compaction."""

    auto: bool
    overflow: Flag = UNSET
    tail_start_id: Text = UNSET


class SubtaskPart(Part, tag="subtask"):
    """A subtask."""

    prompt: str
    description: str
    agent: str
    model: Model | UnsetType = UNSET
    command: Text = UNSET


class ApiError(msgspec.Struct, tag="APIError", tag_field="name"):
    """A provider's error."""

    class Data(msgspec.Struct):
        """The error's message."""

        message: str
        isRetryable: bool  # noqa: N815  # OpenCode's name

    data: Data


class Said(msgspec.Struct):
    """The text of an error."""

    message: str


class Unknown(msgspec.Struct, tag="UnknownError", tag_field="name"):
    """Another error."""

    data: Said


class Aborted(msgspec.Struct, tag="MessageAbortedError", tag_field="name"):
    """The user's abort."""

    data: Said


class Overflow(msgspec.Struct, tag="ContextOverflowError", tag_field="name"):
    """Too large a request."""

    data: Said


class Filtered(msgspec.Struct, tag="ContentFilterError", tag_field="name"):
    """The provider's filter."""

    data: Said


class TooLong(msgspec.Struct, tag="MessageOutputLengthError", tag_field="name"):
    """Too long an answer."""

    data: Object


class NoAccess(msgspec.Struct, tag="ProviderAuthError", tag_field="name"):
    """No access to the provider."""

    class Data(msgspec.Struct):
        """The error's message."""

        providerID: str  # noqa: N815  # OpenCode's name
        message: str

    data: Data


class RetryPart(Part, tag="retry"):
    """A failed attempt."""

    attempt: Number
    error: ApiError
    time: Created


class StepStart(Part, tag="step-start"):
    """A model call begins."""

    snapshot: Text = UNSET


class StepFinish(Part, tag="step-finish"):
    """A model call ends."""

    reason: str
    cost: Number
    tokens: Tokens
    snapshot: Text = UNSET


class SnapshotPart(Part, tag="snapshot"):
    """A state of files."""

    snapshot: str


class PatchPart(Part, tag="patch"):
    """Changed files."""

    hash: str
    files: list[str]


AnyPart = (
    TextPart
    | ReasoningPart
    | FilePart
    | ToolPart
    | AgentPart
    | CompactionPart
    | SubtaskPart
    | RetryPart
    | StepStart
    | StepFinish
    | SnapshotPart
    | PatchPart
)


class User(msgspec.Struct, tag="user", tag_field="role"):
    """A user message."""

    id: str
    sessionID: str  # noqa: N815  # OpenCode's name
    time: Created
    agent: str
    model: Model
    system: Text = UNSET
    tools: dict[str, bool] | UnsetType = UNSET


class Place(msgspec.Struct):
    """Where an answer was worked out."""

    cwd: str
    root: str


class Assistant(msgspec.Struct, tag="assistant", tag_field="role"):
    """An assistant message."""

    id: str
    sessionID: str  # noqa: N815  # OpenCode's name
    time: Created
    parentID: str  # noqa: N815  # OpenCode's name
    modelID: str  # noqa: N815  # OpenCode's name
    providerID: str  # noqa: N815  # OpenCode's name
    mode: str
    agent: str
    path: Place
    cost: Number
    tokens: Tokens
    summary: Flag = UNSET
    finish: Text = UNSET
    error: ApiError | Unknown | Aborted | Overflow | Filtered | TooLong | NoAccess | UnsetType = UNSET


class Message(msgspec.Struct):
    """A message with its parts."""

    info: User | Assistant
    parts: list[AnyPart]


class SessionTime(msgspec.Struct):
    """A session's times."""

    created: Number
    updated: Number
    archived: Number | UnsetType = UNSET


class SessionModel(msgspec.Struct):
    """A session's model."""

    id: str
    providerID: str  # noqa: N815  # OpenCode's name


class Info(msgspec.Struct):
    """A session."""

    id: str
    slug: str
    projectID: str  # noqa: N815  # OpenCode's name
    directory: str
    title: str
    version: str
    time: SessionTime
    parentID: Text = UNSET  # noqa: N815  # OpenCode's name
    cost: Number | UnsetType = UNSET
    tokens: Tokens | UnsetType = UNSET
    agent: Text = UNSET
    model: SessionModel | UnsetType = UNSET
    revert: Object | UnsetType = UNSET


class Document(msgspec.Struct):
    """An export."""

    info: Info
    messages: list[Message]


def document_faults(value: object) -> list[str]:
    """List why OpenCode would refuse the document or reorder it; empty if it would not."""
    faults: list[str] = []
    try:
        document = msgspec.convert(value, Document)
    except msgspec.ValidationError as error:
        return [str(error)]
    session = document.info.id
    if not session.startswith("ses"):
        faults.append(f"the session's id {session!r}")
    order = [(message.info.time.created, message.info.id) for message in document.messages]
    if any(one >= two for one, two in pairwise(order)):
        faults.append("messages that OpenCode would sort otherwise")
    known = {message.info.id for message in document.messages}
    used: set[str] = set()
    for message in document.messages:
        info = message.info
        parts = [part.id for part in message.parts]
        faults += [f"the id {name!r}" for name in [info.id] if not name.startswith("msg")]
        faults += [f"the id {name!r}" for name in parts if not name.startswith("prt") or name in used]
        used.update(parts)
        if parts != sorted(parts):
            faults.append("parts that OpenCode would sort otherwise")
        if info.sessionID != session or any((p.sessionID, p.messageID) != (session, info.id) for p in message.parts):
            faults.append("a record of another session or message")
        if isinstance(info, Assistant) and info.parentID not in known and info.parentID != "msg_" + "0" * 26:
            faults.append(f"an answer to {info.parentID!r}")
    return faults
