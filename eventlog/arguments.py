"""Arguments that are not what they should be: refused where they are handed over, before anything is decided or written.

What goes into an event as it is needs no check of its type here: `codec.validate` looks at every field.  Anybody may import this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar, cast

from eventlog.errors import CallError
from eventlog.values import Limits

__all__ = ["a_kind", "each", "require", "require_json", "require_limits", "require_version"]

T = TypeVar("T")


def require(kinds: type | tuple[type, ...], value: object, rule: str) -> None:
    """`CallError` unless `value` is of one of the types; `rule` says what it is: "an id is a str"."""
    if not isinstance(value, kinds):
        raise CallError(f"{rule}, not {a_kind(value)}")


def require_version(value: object) -> None:
    """`CallError` unless it may be a version, known or not."""
    if type(value) is not int:  # True is none
        raise CallError(f"a version is a whole number, not {a_kind(value)}")


def require_json(kind: type, text: object, rule: str) -> None:
    """`CallError` unless the text is JSON of this type."""
    require(str, text, rule)
    import json

    try:
        value: object = json.loads(str(text))
    except (ValueError, RecursionError) as error:
        where = f" at line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        raise CallError(f"{rule}; this is no JSON{where}") from None
    require(kind, value, rule)


def require_limits(limits: object) -> None:
    """`CallError` unless these are `Limits`, and none of them is less than zero."""
    require(Limits, limits, "limits are a Limits")
    for field in Limits.__struct_fields__:
        value: object = getattr(limits, field)
        if value is None and field != "context":
            continue
        if type(value) is not int:
            raise CallError(f"Limits.{field} is a whole number, not {a_kind(value)}")
        if value < 0:
            raise CallError(f"Limits.{field} is {value}; a limit is not less than zero")


def each(values: Iterable[T], rule: str) -> tuple[T, ...]:
    """The values as a tuple; `CallError` for what has none, and for a str or mapping, whose pieces nobody means."""
    if isinstance(values, (str, bytes, Mapping)):
        raise CallError(f"{rule}, not {a_kind(cast('object', values))}")
    try:
        return tuple(values)
    except TypeError:
        raise CallError(f"{rule}, not {a_kind(values)}") from None


def a_kind(value: object) -> str:
    """What a value is, in words."""
    if value is None:
        return "None"
    name = type(value).__name__
    return f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"
