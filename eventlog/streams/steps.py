"""Steps: the meaning of a provider's chunk, in order, whichever API sent it.

A provider's error is no step: readers raise it (`StreamError`).
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from eventlog.values import File, Json, Usage


class Said(NamedTuple):
    """A piece of text or reasoning; a piece of another `part` begins another part."""

    kind: Literal["text", "reasoning"]
    text: str
    part: object = None


class Closed(NamedTuple):
    """The open text or reasoning is whole; `metadata` is the provider's, such as a signature."""

    metadata: Json | None = None


class Called(NamedTuple):
    """A call begins; `key` names it in later steps, `id` is its id for the provider."""

    key: object
    id: str
    tool: str
    by_provider: bool = False
    metadata: Json | None = None


class Argued(NamedTuple):
    """A piece of the arguments of a call."""

    key: object
    text: str


class Answered(NamedTuple):
    """The result of a call that the provider ran."""

    key: object
    output: str
    failed: bool = False


class Attached(NamedTuple):
    """A file in the answer, such as an image; its address holds the data."""

    file: File


class Compacted(NamedTuple):
    """A compaction of the provider, before its answer; `text` is a readable summary."""

    kind: str
    data: Json
    """The item or block as JSON, which is to be sent back."""
    text: str | None = None


class Kept(NamedTuple):
    """A block or item without a part of its own, as JSON; `kind` is the provider's word."""

    kind: str
    data: Json


class Used(NamedTuple):
    """The tokens of the model call so far; the newest counts."""

    usage: Usage


class Ended(NamedTuple):
    """The answer is whole, for this reason."""

    reason: str


Step: TypeAlias = Said | Closed | Called | Argued | Answered | Attached | Compacted | Kept | Used | Ended
