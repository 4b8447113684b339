"""Messages of LangChain as JSON records, and back.

A record has the name of the message's class and the fields that differ from their defaults. What
JSON would not give back exactly, as a tuple, an artifact or a class of the program's own, is packed
with the checkpointer's serializer, beside what of it can be read.
"""

from __future__ import annotations

import marshal
from base64 import b64decode, b64encode
from collections.abc import Callable
from operator import itemgetter
from typing import Any, NamedTuple

from langchain_core import messages as lc
from langchain_core.messages import BaseMessage, convert_to_messages
from langgraph.checkpoint.serde.base import SerializerProtocol

from eventlog.adapters.odd_values import is_odd, shown

Mark = tuple[str, int]


class _Kind(NamedTuple):
    """A class of messages: its fields in their order, with their defaults."""

    cls: type[BaseMessage]
    name: str
    defaults: dict[str, Any]
    rest: Callable[[dict[str, Any]], Any]
    """Gives the fields but the content."""
    made: list[tuple[str, Callable[[], Any]]]
    """Functions that make those defaults that can be changed."""


def _kind(cls: type[BaseMessage]) -> _Kind:
    fields = cls.model_fields
    made: list[Any] = [(name, field.default_factory) for name, field in fields.items() if field.default_factory]
    defaults = {name: field.get_default(call_default_factory=True) for name, field in fields.items()}
    return _Kind(cls, cls.__name__, defaults, itemgetter(*(name for name in fields if name != "content")), made)


KINDS = {
    cls.__name__: _kind(cls)
    for cls in (
        lc.AIMessage,
        lc.AIMessageChunk,
        lc.ChatMessage,
        lc.FunctionMessage,
        lc.HumanMessage,
        lc.HumanMessageChunk,
        lc.SystemMessage,
        lc.SystemMessageChunk,
        lc.ToolMessage,
        lc.ToolMessageChunk,
    )
}


def record_of(item: Any, serde: SerializerProtocol) -> dict[str, Any]:
    """Return the record of an item of a list of messages, a message or what becomes one."""
    kind = KINDS.get(type(item).__name__)
    if kind is not None and type(item) is kind.cls and not item.__pydantic_extra__:
        record = {"kind": kind.cls.__name__, **_told(item, kind)}
        if not is_odd(record):
            return record
    packed, data = serde.dumps_typed(item)
    return {"kind": "", "packed": packed, "data": b64encode(data).decode(), "shown": _shown(item)}


def _told(message: BaseMessage, kind: _Kind) -> dict[str, Any]:
    fields = message.__dict__
    return {
        name: fields[name]
        for name, default in kind.defaults.items()
        if type(fields[name]) is not type(default) or fields[name] != default
    }


def _shown(item: Any) -> dict[str, Any]:
    """Return what can be read of an item, as a record of the nearest class that is known."""
    try:
        message = item if isinstance(item, BaseMessage) else convert_to_messages([item])[0]
        name = next(cls.__name__ for cls in type(message).__mro__ if cls.__name__ in KINDS)
        told: Any = shown(_told(message, KINDS[name]))
    except Exception:  # noqa: BLE001 - of any class of the program's own; it is kept all the same
        return {}
    return {"kind": name, **told}


def message_of(record: dict[str, Any], serde: SerializerProtocol) -> Any:
    """Return the item of a record; each call gives a new one."""
    kind = KINDS.get(record["kind"])
    if kind is None:
        return serde.loads_typed((record["packed"], b64decode(record["data"])))
    values = kind.defaults | record
    del values["kind"]
    for name, make in kind.made:
        if name not in record:
            values[name] = make()
    message = kind.cls.__new__(kind.cls)
    give_fields(message, values, {})
    return message


def give_fields(message: BaseMessage, values: dict[str, Any], extra: dict[str, Any] | None) -> None:
    """Give a message its fields, as unpickled: it was checked when the program made it."""
    message.__setstate__(
        {
            "__dict__": values,
            "__pydantic_extra__": extra,
            "__pydantic_fields_set__": set(values),
            "__pydantic_private__": None,
        }
    )


def mark_of(item: Any, serde: SerializerProtocol) -> Mark:
    """Return what equals the mark of an item that says the same, in this process.

    Its text stands for itself, so it is compared at once if it is the same object; the rest, which
    a program may change in place, by a hash.
    """
    kind = KINDS.get(type(item).__name__)
    if kind is not None and type(item) is kind.cls:
        fields: Any = item.__dict__
        content = fields["content"]
        is_text = type(content) is str
        rest: Any = (kind.name, kind.rest(fields), item.__pydantic_extra__, None if is_text else content)
        try:
            return content if is_text else "", hash(marshal.dumps(rest, 2))
        except ValueError:  # something of the program's own
            pass
    return "", hash(serde.dumps_typed(item))
