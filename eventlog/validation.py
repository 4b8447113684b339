"""Checks of arguments where they are handed over, and words for what is wrong in an event.

The checks run before anything is decided or written. Events need none here: `batch.validate` looks
at every field of theirs, and only once it has refused an event is `misfit` asked which field it
was; so `misfit` may be slow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from functools import cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Union, cast, get_args, get_origin

import msgspec

from eventlog.errors import ArgumentTypeError, CallError
from eventlog.errors.base import brief
from eventlog.values import Body, Limits

if TYPE_CHECKING:
    from json import JSONDecoder

MAX_DEPTH = 200
"""Deepest nesting of arrays and objects in JSON: not every program can read more."""

T = TypeVar("T")


def require(kinds: type | tuple[type, ...], value: object, rule: str) -> None:
    """Raise `CallError` unless `value` is of a type; `rule` says which: "an id is a str"."""
    if not isinstance(value, kinds):
        raise CallError(f"{rule}, not {a_kind(value)}")


def require_or_none(kinds: type | tuple[type, ...], value: object, rule: str) -> None:
    """Raise `CallError` unless `value` is None or of one of the types; see `require`."""
    if value is not None:
        require(kinds, value, rule)


def require_call(value: object, rule: str) -> None:
    """`CallError` unless it can be called, or is None."""
    if value is not None and not callable(value):
        raise CallError(f"{rule}, not {a_kind(value)}")


def require_function(value: object, rule: str) -> None:
    """`CallError` unless it can be called."""
    if not callable(value):
        raise CallError(f"{rule}, not {a_kind(value)}")


def require_wait(value: object) -> None:
    """`CallError` unless it may be a number of seconds."""
    require((int, float), value, "a wait is a number of seconds")
    if value != value:  # noqa: PLR0124 - only "not a number" is not itself
        raise CallError("a wait is a number of seconds, not NaN")


def require_version(value: object) -> None:
    """`CallError` unless it may be a version, known or not."""
    if type(value) is not int:  # True is none
        raise CallError(f"a version is a whole number, not {a_kind(value)}")


def require_json(kind: type, text: object, rule: str) -> None:
    """`CallError` unless the text is JSON of this type."""
    require(str, text, rule)
    try:
        value = json_value(str(text))
    except ValueError as error:
        raise CallError(f"{rule}; this is {error}") from None
    require(kind, value, rule)


def json_value(text: str) -> Any:
    """Decode a JSON text; `ValueError`, without a quotation, if it is not standard JSON."""
    from json import JSONDecodeError

    try:
        value = _decoder().decode(text)
    except JSONDecodeError as error:
        raise ValueError(f"no JSON at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise ValueError(f"nested more than {MAX_DEPTH} levels deep") from None
    except ValueError as error:
        raise ValueError(str(error) if str(error).startswith("no JSON") else "a number of too many digits") from None
    if text.count("[") + text.count("{") > MAX_DEPTH and is_deep(value):
        raise ValueError(f"nested more than {MAX_DEPTH} levels deep")
    return value


@cache
def _decoder() -> JSONDecoder:
    """The one decoder: making it takes longer than decoding a short text."""
    from json import JSONDecoder

    return JSONDecoder(parse_constant=_constant)


def _constant(name: str) -> object:
    raise ValueError(f"no JSON: it has {name}")


def is_deep(value: object) -> bool:
    """Whether a parsed value is nested more than `MAX_DEPTH` levels deep."""
    layer: list[object] = [value]
    for _ in range(MAX_DEPTH):
        below: list[object] = []
        for item in layer:
            if isinstance(item, dict):
                below.extend(cast("dict[str, object]", item).values())
            elif isinstance(item, list):
                below.extend(cast("list[object]", item))
        layer = [item for item in below if isinstance(item, (dict, list))]
        if not layer:
            return False
    return True


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
    """Return the values as a tuple; `ArgumentTypeError` for a str, a mapping or no iterable."""
    if isinstance(values, (str, bytes, Mapping)):
        raise ArgumentTypeError(f"{rule}, not {a_kind(cast('object', values))}")
    try:
        return tuple(values)
    except TypeError:
        raise ArgumentTypeError(f"{rule}, not {a_kind(values)}") from None


def a_kind(value: object) -> str:
    """Describe a value's type for an error message."""
    if value is None:
        return "None"
    name = type(value).__name__
    return f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"


_LEAST, _MOST = -(1 << 63), (1 << 64) - 1
"""The whole numbers that MessagePack has."""


def misfit(event: msgspec.Struct) -> str:
    """Describe the first wrong field: `ToolsSet.schemas is of type str, not a list`."""
    name = type(event).__name__
    return _in_struct(event, name) or f"{name} has a value that would be read back as another"


def _in_struct(value: msgspec.Struct, path: str) -> str | None:
    for field in msgspec.structs.fields(value):
        problem = _in_value(getattr(value, field.name), field.type, f"{path}.{field.name}")
        if problem is not None:
            return problem
    return None


def _in_value(value: object, wanted: Any, path: str) -> str | None:
    kinds: Sequence[Any] = get_args(wanted) if get_origin(wanted) in {Union, UnionType} else (wanted,)
    kind = next((kind for kind in kinds if _is_a(value, kind)), None)
    if kind is None:
        is_word = isinstance(value, str) and get_origin(kinds[0]) is Literal
        return f"{path} is {'' if is_word else 'of type '}{_words(kinds)}, not {brief(value) if is_word else a_kind(value)}"
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
    problems = (_in_value(one, kind, f"{path}[{at}]") for at, (one, kind) in enumerate(zip(value, kinds, strict=True)))
    return next(filter(None, problems), None)


def _is_a(value: object, kind: Any) -> bool:
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    origin: type = get_origin(kind) or kind
    return isinstance(value, origin) and not (origin is int and isinstance(value, bool))


def _words(kinds: Sequence[Any]) -> str:
    """The types in words; a `Body` is what a long str becomes, and not names beside it."""
    names: list[str] = []
    for kind in kinds:
        if get_origin(kind) is Literal:
            names += map(repr, get_args(kind))
        elif get_origin(kind) is tuple:
            names.append(f"tuple of {get_args(kind)[0].__name__}")
        elif kind is NoneType:
            names.append("None")
        elif kind is not Body or str not in kinds:
            names.append(kind.__name__)
    return " or ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
