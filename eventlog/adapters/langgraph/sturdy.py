"""Serializer that also takes deep nesting, large numbers and odd keys.

What it refuses is packed (`odd_values.py`): LangChain's messages and what is sent to nodes as their
fields, any other object as LangGraph's serializer dumps it.
"""

from __future__ import annotations

import sys
from typing import Any

from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot  # pyright: ignore[reportPrivateUsage]  # savers store it

from eventlog.adapters.langgraph.records import KINDS, give_fields
from eventlog.adapters.odd_values import pack, unpack
from eventlog.records.json_value import dumped, parsed

PACKED = "everdelta"
"""Kind of the values that are packed."""
SNAPSHOT = "everdelta snapshot"
"""Kind of the packed values of snapshots."""


def sturdy(serde: SerializerProtocol) -> SerializerProtocol:
    """Return a serializer that also takes what this one refuses."""
    if isinstance(serde, EncryptedSerializer):
        return EncryptedSerializer(serde.cipher, _Sturdy(serde.serde))
    return _Sturdy(serde)


class _Sturdy:
    def __init__(self, serde: SerializerProtocol) -> None:
        self._serde = serde

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        try:
            return self._serde.dumps_typed(obj)
        except Exception as refused:  # noqa: BLE001 - raised again, unless the object can be packed
            is_snapshot = isinstance(obj, _DeltaSnapshot)
            try:
                nodes = pack(obj.value if is_snapshot else obj, self)
            except Exception:  # noqa: BLE001 - of an object that LangGraph's serializer does not know
                raise refused from None
            return SNAPSHOT if is_snapshot else PACKED, dumped(nodes).encode("utf-8", "surrogatepass")

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        if data[0] not in {PACKED, SNAPSHOT}:
            return self._serde.loads_typed(data)
        value = unpack(parsed(data[1].decode("utf-8", "surrogatepass")), self)
        return _DeltaSnapshot(value) if data[0] == SNAPSHOT else value

    # -- objects in what is packed ---------------------------------------------------------------

    def state_of(self, value: Any) -> tuple[str, Any] | None:
        """Return the class of a message or of what is sent to a node, and its fields."""
        name = type(value).__name__
        if name in KINDS and type(value) is KINDS[name].cls:
            return name, [value.__dict__, value.__pydantic_extra__]
        if type(value) is _send():
            return "Send", [value.node, value.arg, value.timeout]
        return None

    def blank(self, name: str) -> Any:
        """Return a message or a `Send` without fields."""
        kind: Any = _send() if name == "Send" else KINDS[name].cls
        return kind.__new__(kind)

    def fill(self, blank: Any, state: Any) -> None:
        """Give a message or a `Send` its fields."""
        if type(blank) is _send():
            blank.node, blank.arg, blank.timeout = state
        else:
            give_fields(blank, *state)

    def dumps(self, value: Any) -> tuple[str, bytes]:
        """Dump another object."""
        return self._serde.dumps_typed(value)

    def loads(self, kind: str, data: bytes) -> Any:
        """Return another object."""
        return self._serde.loads_typed((kind, data))


def _send() -> Any:
    """Return LangGraph's class `Send`, None in a program that has not imported it."""
    return getattr(sys.modules.get("langgraph.types"), "Send", None)
