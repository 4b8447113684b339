"""Parts of a provider's JSON: of the wanted type, or empty."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from eventlog.validation import json_value
from eventlog.values import Json

_MOST = 1 << 53


def object_of(found: object) -> dict[str, Any]:
    """Return a JSON object; an empty one for anything else."""
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def objects_of(found: object) -> list[dict[str, Any]]:
    """Return the objects of a JSON array; none for anything else."""
    items = cast("list[object]", found) if isinstance(found, list) else []
    return [cast("dict[str, Any]", item) for item in items if isinstance(item, dict)]


def text_of(found: object) -> str:
    """Return a text; "" for anything else."""
    return found if isinstance(found, str) else ""


def number_of(found: object) -> int:
    """Return a count of tokens; 0 for anything else."""
    return found if isinstance(found, int) and not isinstance(found, bool) and 0 < found < _MOST else 0


def unused_id(ids: set[str], given: str, kind: str) -> str:
    """Return the `given` id, or one that no call of the answer has, and add it to `ids`."""
    number = len(ids)
    id = given or f"{kind}_{number}"
    while id in ids:
        number += 1
        id = f"{given or kind}_{number}"
    ids.add(id)
    return id


def dump(value: object) -> Json:
    """Return a value as JSON text; lone surrogates are kept as escapes."""
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        import json

        return json.dumps(value, separators=(",", ":"))


def metadata_of(provider: str, **fields: object) -> Json | None:
    """Return the provider's metadata of a part; None if all fields are empty."""
    kept = {name: value for name, value in fields.items() if value}
    return dump({provider: kept}) if kept else None


def is_whole(arguments: str) -> bool:
    """Return whether the arguments of a call are a whole JSON object, or none at all."""
    if not arguments.strip():
        return True
    try:
        return isinstance(json_value(arguments), dict)
    except ValueError:
        return False
