"""Texts that events say: of users, models and tools, and calls of tools.

Not here: titles of sessions, system prompts, files, metadata, and what records keep of a framework.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, TypeAlias, cast

from eventlog import events as ev
from eventlog.validation import json_value
from eventlog.values import Content, Reasoning, Subtask, Text

Kind: TypeAlias = Literal["user", "assistant", "reasoning", "call", "result"]
"""Who says a text: the user, the model, the model in its reasoning or in a call, a tool."""
KINDS: tuple[Kind, ...] = ("user", "assistant", "reasoning", "call", "result")
"""Their order is stored: the index has their numbers."""
FIELDS = {"text": "text", "input": "call", "output": "result"}
"""Meaning of the fields of deltas: a text of its part, a call, or a result."""


def said_by(event: ev.Event, tool: str, text: Callable[[Content], str]) -> str:
    """Return what an event says; "" if it says nothing. `tool` is the name of the part's tool."""
    match event:
        case ev.PartStarted(kind=Text() | Reasoning() as kind):
            return text(kind.text)
        case ev.PartStarted(kind=Subtask() as kind):
            return _joined(kind.description, text(kind.prompt))
        case ev.PartEdited():
            return text(event.text)
        case ev.ToolRunning():
            return _joined(tool, event.title, _arguments(text(event.input)))
        case ev.ToolCompleted():
            return _joined(event.title, text(event.output))
        case ev.CallAnswered():
            return event.reason
        case ev.ToolFailed():
            return _joined(text(event.error), text(event.output or ""))
        case _:
            return ""


def _joined(*texts: str) -> str:
    return "\n".join(filter(None, texts))


def _arguments(text: str) -> str:
    """Return arguments as lines of names and values; as they are if they are no JSON."""
    try:
        return "\n".join(_lines(json_value(text), ""))
    except ValueError:
        return text


def _lines(value: Any, name: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in cast("dict[str, Any]", value).items():
            yield from _lines(item, key)
    elif isinstance(value, list):
        for item in cast("list[Any]", cast("object", value)):
            yield from _lines(item, name)
    else:
        yield f"{name}: {value}" if name else str(value)
