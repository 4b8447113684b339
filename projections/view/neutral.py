"""The neutral form of a request: messages of text, reasoning, files, calls, results.

`requests/` turns it into a provider's form.  A call is answered by exactly one result: in the same
message if the provider executed the tool, else in the message of role "tool" that follows.  None of
these structs can be part of a cycle, so the garbage collector need not look at them (`gc=False`).
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from eventlog.values import Json

Role: TypeAlias = Literal["user", "assistant", "tool"]


class Text(msgspec.Struct, frozen=True, tag="text", tag_field="type", gc=False):
    """A text."""

    text: str
    metadata: Json | None = None
    """The provider's own, sent back to it only."""


class Reasoning(msgspec.Struct, frozen=True, tag="reasoning", tag_field="type", gc=False):
    """Reasoning of the model, sent back to the same model only."""

    text: str
    metadata: Json | None = None


class File(msgspec.Struct, frozen=True, tag="file", tag_field="type", gc=False):
    """A file; `url` is a data URL or an address."""

    mime: str
    url: str
    filename: str | None = None


class Call(msgspec.Struct, frozen=True, tag="call", tag_field="type", gc=False):
    """A tool call with its arguments as JSON text."""

    call: str
    tool: str
    input: Json
    provider_executed: bool = False
    metadata: Json | None = None


class Result(msgspec.Struct, frozen=True, tag="result", tag_field="type", gc=False):
    """The answer to a call; `error` marks a failure."""

    call: str
    tool: str
    output: str
    error: bool = False
    files: tuple[File, ...] = ()


class Opaque(msgspec.Struct, frozen=True, tag="opaque", tag_field="type", gc=False):
    """A compaction that the provider made, for the target that can read it."""

    kind: str
    """"openai.compaction" or "anthropic.compaction"."""
    data: Json
    """The item or block as the provider sent it."""
    text: str = ""
    """Its readable summary, "" if only the provider can read it."""
    tokens: int | None = None
    """Tokens that it has at most, as the provider reported; None: not reported."""


NeutralPart: TypeAlias = Text | Reasoning | File | Call | Result | Opaque


class NeutralMessage(msgspec.Struct, frozen=True, gc=False):
    """One message of the view; `source` is the id of the stored message, "" if there is none."""

    role: Role
    parts: tuple[NeutralPart, ...]
    source: str = ""
