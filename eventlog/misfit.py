"""Which field of an event is not of its type, in words: for the error that whoever made the event is shown.

Only asked once an event was refused (`codec.validate`), so it may be slow.  Not here: the check itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from types import NoneType, UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin

import msgspec

from eventlog.arguments import a_kind
from eventlog.values import Body

__all__ = ["misfit"]

_LEAST, _MOST = -(1 << 63), (1 << 64) - 1
"""The whole numbers that MessagePack has."""


def misfit(event: msgspec.Struct) -> str:
    """What is wrong with the first field that is: `ToolsSet.schemas is of type str, not a list`."""
    name = type(event).__name__
    return _in_struct(event, name) or f"{name} has a value that would be read back as another"


def _in_struct(value: msgspec.Struct, path: str) -> str | None:
    for field in msgspec.structs.fields(value):
        found = _in_value(getattr(value, field.name), field.type, f"{path}.{field.name}")
        if found is not None:
            return found
    return None


def _in_value(value: object, wanted: Any, path: str) -> str | None:
    kinds: Sequence[Any] = get_args(wanted) if get_origin(wanted) in {Union, UnionType} else (wanted,)
    kind = next((kind for kind in kinds if _is_a(value, kind)), None)
    if kind is None:
        return f"{path} is of type {_words(kinds)}, not {a_kind(value)}"
    if isinstance(value, int) and not _LEAST <= value <= _MOST:
        return f"{path} is a whole number of 64 bits at most"
    if isinstance(value, Decimal) and not value.is_finite():
        return f"{path} is a finite number"
    if isinstance(value, tuple):
        return _in_tuple(cast("tuple[object, ...]", value), get_args(kind), path)
    return _in_struct(value, path) if isinstance(value, msgspec.Struct) else None


def _in_tuple(value: tuple[object, ...], kinds: tuple[Any, ...], path: str) -> str | None:
    if kinds[-1] is ...:
        kinds = (kinds[0],) * len(value)
    if len(value) != len(kinds):
        return f"{path} has {len(kinds)} elements, not {len(value)}"
    found = (_in_value(one, kind, f"{path}[{at}]") for at, (one, kind) in enumerate(zip(value, kinds, strict=True)))
    return next(filter(None, found), None)


def _is_a(value: object, kind: Any) -> bool:
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    plain: type = get_origin(kind) or kind
    return isinstance(value, plain) and not (plain is int and isinstance(value, bool))


def _words(kinds: Sequence[Any]) -> str:
    """The types in words; a `Body` is what a long str becomes, and not said beside it."""
    said: list[str] = []
    for kind in kinds:
        if get_origin(kind) is Literal:
            said += map(repr, get_args(kind))
        elif get_origin(kind) is tuple:
            said.append(f"tuple of {get_args(kind)[0].__name__}")
        elif kind is NoneType:
            said.append("None")
        elif kind is not Body or str not in kinds:
            said.append(kind.__name__)
    return " or ".join([", ".join(said[:-1]), said[-1]] if len(said) > 1 else said)
