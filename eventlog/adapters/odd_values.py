"""Values that no record has: not finite, nested too deep, keys that are no str.

Such a value is *packed* as a list of nodes that name each other by their places: JSON of little
depth, of which the same value is made again. Beside it a record has what of the value can be shown.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from contextlib import suppress
from math import isfinite
from typing import Any, cast

from eventlog.errors import CallError
from eventlog.importers.common.json_lines import OBJECT
from eventlog.records.json_value import require_value
from eventlog.validation import a_kind

DEEPEST = 150
"""Levels that are shown of a value."""
LONG = 1 << 62
"""Whole numbers from here on are packed as text."""
CUT = "…"
"""Stands for what is deeper."""

_KEYS = frozenset({"packed", "shown"})
"""Keys of the record of an odd value."""


def is_odd(value: Any) -> bool:
    """Whether a value is none that a record may be."""
    try:
        require_value(value)
    except CallError:
        return True
    return False


def told(value: Any) -> tuple[Any, str]:
    """Return a value as a record has it, as it is unless it is odd, and the record's text."""
    with suppress(CallError):
        text = require_value(value)
        if not _is_packed(value):
            return value, text
    record = {"packed": pack(value), "shown": shown(value)}
    return record, require_value(record)


def value_of(record: Any) -> Any:
    """Return the value of a record."""
    return unpack(record["packed"]) if _is_packed(record) else record


def shown_in(record: Any) -> Any:
    """Return the value of a record, as far as it can be shown."""
    return record["shown"] if _is_packed(record) else record


def _is_packed(record: Any) -> bool:
    return isinstance(record, OBJECT) and bool(record.keys() == _KEYS)


# -- what is shown ---------------------------------------------------------------------------------


def shown(value: Any, above: tuple[int, ...] = ()) -> Any:
    """Return the JSON value that is nearest to a value; of objects their text."""
    kind: Any = cast("Any", type(value))
    if kind is str or kind is bool or value is None:
        return value
    if isinstance(value, (dict, list, tuple)):
        if len(above) >= DEEPEST or id(cast("object", value)) in above:
            return CUT
        inner = (*above, id(cast("object", value)))
        if isinstance(value, dict):
            members = cast("Any", value)
            return {key if type(key) is str else _word(key): shown(item, inner) for key, item in members.items()}
        return [shown(item, inner) for item in cast("list[Any]", value)]
    if kind is float and isfinite(value):
        return value
    return value if kind is int and abs(value) < LONG else _word(value)


def _word(value: Any) -> str:
    """Return the text of a value that is neither an array nor an object, or of a key."""
    if isinstance(value, str):
        return str.__str__(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return hex(value) if abs(value) >= LONG else int.__repr__(value)
    if isinstance(value, float) and not isfinite(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"  # noqa: PLR0124
    return str(value)


# -- what is packed --------------------------------------------------------------------------------


def pack(value: Any, objects: Any = None) -> list[Any]:
    """Return the nodes of a value, its own first; `CallError` for an unknown class.

    Values of subclasses of the types of JSON become values of these types. `objects` packs objects
    of other classes: a serializer that gives their state, or bytes of a kind (`sturdy.py`).
    """
    nodes: list[Any] = []
    places: dict[int, int] = {}
    waiting: list[tuple[int, Any]] = []

    def place(value: Any) -> int:
        known = places.get(id(value))
        if known is None:
            known = len(nodes)
            nodes.append(None)
            waiting.append((known, value))
            if type(value) is not tuple:  # a tuple is made behind what is in it
                places[id(value)] = known
        return known

    place(value)
    kept: list[Any] = []
    while waiting:
        at, one = waiting.pop()
        kept.append(one)  # so that no other value gets its id
        nodes[at] = _node(one, place, objects)
    return nodes


def _node(value: Any, place: Any, objects: Any) -> Any:
    kind: Any = cast("Any", type(value))
    if kind is str or kind is bool or value is None:
        return value
    if objects is not None and kind not in _TYPES:
        found = objects.state_of(value)
        if found is not None:
            return ["object", found[0], place(found[1])]
        dumped, data = objects.dumps(value)
        return ["dumped", dumped, b64encode(data).decode()]
    if isinstance(value, bytes):
        return ["bytes", b64encode(value).decode()]
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value) if abs(value) < LONG else ["int", hex(value)]
    if isinstance(value, float):
        return float(value) if isfinite(value) else ["float", _word(value)]
    if isinstance(value, dict):
        members = cast("Any", value)
        return ["dict", [[place(key), place(item)] for key, item in members.items()]]
    if isinstance(value, (list, tuple)):
        items = cast("list[Any]", value)
        return ["tuple" if kind is tuple else "list", [place(item) for item in items]]
    raise CallError(
        f"a record is made of dict, list, tuple, str, bytes, int, float, bool and None, not {a_kind(value)}"
    )


_TYPES = frozenset({str, bytes, int, float, dict, list, tuple})


def unpack(nodes: list[Any], objects: Any = None) -> Any:
    """Return the value that was packed."""
    made = [_begun(node, objects) for node in nodes]
    for at in range(len(nodes) - 1, -1, -1):  # what is in a tuple comes behind it, or is begun
        tag, *given = _fields(nodes[at])
        if tag == "tuple":
            made[at] = tuple(made[item] for item in given[0])
    for at, node in enumerate(nodes):
        tag, *given = _fields(node)
        if tag == "dict":
            made[at].update((made[key], made[item]) for key, item in given[0])
        elif tag == "list":
            made[at].extend(made[item] for item in given[0])
    for at in range(len(nodes) - 1, -1, -1):
        tag, *given = _fields(nodes[at])
        if objects is not None and tag == "object":
            objects.fill(made[at], made[given[1]])
    return made[0]


def _fields(node: Any) -> list[Any]:
    """Return the tag of a node and its fields; of a plain value no tag."""
    return cast("Any", node) if isinstance(node, list) else [None]


def _begun(node: Any, objects: Any) -> Any:
    """Return the value of a node, without what is in it."""
    tag, *given = _fields(node)
    if tag is None:
        return node
    if tag == "bytes":
        return b64decode(given[0])
    if tag == "int":
        return int(given[0], 16)
    if tag == "float":
        return float(given[0])
    if objects is not None and tag == "object":
        return objects.blank(given[0])
    if objects is not None and tag == "dumped":
        return objects.loads(given[0], b64decode(given[1]))
    return {} if tag == "dict" else []
