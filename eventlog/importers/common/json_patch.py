"""Difference of two JSON values, small and exact: what a record has beyond its events.

`patch(derived, difference(derived, original)) == original`, always. A difference is a list of
steps: `["=", path, value]` sets, `["-", path]` removes a member of an object, `["+", path, index,
value]` inserts into an array.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

Steps: TypeAlias = list[list[Any]]
Path: TypeAlias = list[str | int]
Object: TypeAlias = Mapping[str, Any]
Array: TypeAlias = Sequence[Any]


def difference(derived: Any, original: Any) -> Steps:
    """Return the steps from `derived` to `original`; their `id` identifies elements of arrays."""
    steps: Steps = []
    _compare(derived, original, [], steps)
    return steps


def patch(value: Any, steps: Steps) -> Any:
    """Return the original; `value` is changed."""
    for step in steps:
        path: Path = step[1]
        if not path and step[0] == "=":
            value = step[2]
            continue
        place = value
        for key in path[:-1]:
            place = place[key]
        if step[0] == "=":
            place[path[-1]] = step[2]
        elif step[0] == "-":
            del place[path[-1]]
        elif step[0] == "+":
            (place[path[-1]] if path else place).insert(step[2], step[3])
        else:
            raise ValueError(f"unknown step {step[0]!r}")
    return value


def _name(value: Any) -> object:
    found = cast("Object", value).get("id") if isinstance(value, dict) else None
    return found if isinstance(found, str) else None


def _compare(derived: Any, original: Any, path: Path, steps: Steps) -> None:
    if isinstance(derived, dict) and isinstance(original, dict):
        old, new = cast("Object", derived), cast("Object", original)
        steps.extend(["-", [*path, key]] for key in old if key not in new)
        for key, value in new.items():
            if key not in old:
                steps.append(["=", [*path, key], value])
            else:
                _compare(old[key], value, [*path, key], steps)
    elif isinstance(derived, list) and isinstance(original, list):
        _compare_arrays(cast("Array", derived), cast("Array", original), path, steps)
    elif not _same(derived, original):
        steps.append(["=", path, original])


def _compare_arrays(derived: Array, original: Array, path: Path, steps: Steps) -> None:
    names = [_name(item) for item in derived]
    pairs: list[tuple[int, int]] = []
    inserts: list[int] = []
    at = 0
    for index, item in enumerate(original):
        if at < len(names) and _name(item) == names[at]:
            pairs.append((at, index))
            at += 1
        else:
            inserts.append(index)
    if at < len(names):
        if not _same(derived, original):
            steps.append(["=", path, original])
        return
    steps.extend(["+", path, index, original[index]] for index in inserts)
    for old, new in pairs:
        _compare(derived[old], original[new], [*path, new], steps)


def _same(one: Any, other: Any) -> bool:
    """Compare as JSON: true is not 1, but 1.0 is."""
    if isinstance(one, bool) != isinstance(other, bool):
        return False
    if isinstance(one, list) and isinstance(other, list):
        left, right = cast("Array", one), cast("Array", other)
        return len(left) == len(right) and all(map(_same, left, right))
    if isinstance(one, dict) and isinstance(other, dict):
        before, after = cast("Object", one), cast("Object", other)
        return before.keys() == after.keys() and all(_same(before[key], after[key]) for key in before)
    return bool(one == other)
