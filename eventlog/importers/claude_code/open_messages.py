"""What is open while a Claude Code session is read: an assistant message, and a call that has no result yet."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from eventlog.importers.anthropic.blocks import text_or_empty
from eventlog.importers.common.importer import bounded_id
from eventlog.importers.common.json_lines import is_object
from eventlog.values import Model, Todo, Tokens, Usage

__all__ = ["Call", "Early", "Open", "own_id", "todos_of"]


class Call(msgspec.Struct, eq=False):
    """A call that has no result yet."""

    part: str
    message: Open
    todos: object = None
    """The list given to TodoWrite."""
    prompt: object = None
    """What a sub-agent was asked."""
    description: str = ""
    agent: str = ""


class Open(msgspec.Struct, eq=False):
    """An assistant message that is not finished.  `node` is the number of its node."""

    id: str
    foreign: object
    node: int
    model: Model | None
    time: int
    calls: set[str] = msgspec.field(default_factory=set[str])
    """Calls without a result."""
    known: set[str] = msgspec.field(default_factory=set[str])
    """All its calls."""
    reason: str | None = None
    usage: Usage = Usage(Tokens())
    """What is recorded of it."""


class Early(NamedTuple):
    """A result that came before its call: its block, the record's `toolUseResult`, and the record's key."""

    block: dict[str, Any]
    extra: object
    key: str


def own_id(owner: str, suffix: str) -> str:
    """An id for something that belongs to `owner`."""
    return bounded_id(f"{owner}:{suffix}")


def todos_of(todos: list[Any]) -> tuple[Todo, ...]:
    """The entries of a TodoWrite list; what is no object is left out."""
    return tuple(
        Todo(
            text_or_empty(entry.get("content")),
            text_or_empty(entry.get("status")) or "pending",
            text_or_empty(entry.get("priority")),
            text_or_empty(entry.get("id")),
        )
        for entry in todos
        if is_object(entry)
    )
