"""A quick test of the types of an event's fields, compiled from their annotations.

It is certain of the types that nearly all fields have: text, whole numbers, truth values, bytes,
None, literals, and structs and tuples of these. It is not certain of any other type: then
`batch.validate` compares the event with what is decoded from its bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from types import NoneType, UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

import msgspec

_EXACT: frozenset[object] = frozenset((str, bool, bytes, NoneType))
_WHOLE = f"-{1 << 63} <= {{0}} < {1 << 64}"
"""The range of MessagePack's integers."""


class _Tests(dict[type, Callable[[Any], bool]]):
    """The test of each struct, compiled when it is first asked for."""

    def __missing__(self, kind: type[msgspec.Struct]) -> Callable[[Any], bool]:
        test = self[kind] = _compiled(kind)
        return test


SOUND = _Tests()
"""By struct: return whether every field is certainly of its type; False means not certain."""


def _compiled(kind: type[msgspec.Struct]) -> Callable[[Any], bool]:
    """Compile one expression over all fields: a loop over them takes three times as long."""
    names: dict[str, Any] = {"SOUND": SOUND, "NoneType": NoneType}
    hints = get_type_hints(kind)
    tests = [_test(f"value.{field}", hints[field], names) for field in kind.__struct_fields__]
    return cast("Callable[[Any], bool]", eval(f"lambda value: {' and '.join(tests) or True}", names))  # noqa: S307 - of types only


def _test(value: str, hint: Any, names: dict[str, Any]) -> str:
    """Return the expression that tests whether `value` is of the type `hint`.

    Other objects that the expression uses are added to `names`.
    """
    choices = get_args(hint) if get_origin(hint) in {Union, UnionType} else (hint,)
    exact = [choice.__name__ for choice in choices if choice in _EXACT]
    structs = [choice for choice in choices if isinstance(choice, type) and issubclass(choice, msgspec.Struct)]
    tests = [f"type({value}) is {name}" for name in exact]
    if int in choices:
        tests.append(f"(type({value}) is int and {_WHOLE.format(value)})")
    for choice in choices:
        if get_origin(choice) is Literal:
            tests.append(f"(type({value}) is str and {value} in {get_args(choice)!r})")
        elif get_origin(choice) is tuple and get_args(choice)[1:] == (...,):
            item = _named(names, eval(f"lambda one: {_test('one', get_args(choice)[0], names)}", names))  # noqa: S307
            tests.append(f"(type({value}) is tuple and all(map({item}, {value})))")
    if structs:
        tests.append(f"(type({value}) in {_named(names, frozenset(structs))} and SOUND[type({value})]({value}))")
    return f"({' or '.join(tests) or False})"


def _named(names: dict[str, Any], value: object) -> str:
    name = f"_{len(names)}"
    names[name] = value
    return name
