"""Provider metadata of parts: a JSON object with an object for each provider.

For example `{"anthropic": {"signature": …}}`, as OpenCode, the AI SDK and the importers write it.
"""

from __future__ import annotations

import re
from hashlib import sha256
from math import isfinite
from typing import Any, TypeGuard

import msgspec

from eventlog.validation import json_value
from eventlog.values import Json
from projections.requests.text import sendable

_ODD = re.compile("[^A-Za-z0-9_-]")


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Return whether a parsed value is a JSON object."""
    return isinstance(value, dict)


def is_array(value: object) -> TypeGuard[list[Any]]:
    """Return whether a parsed value is a JSON array."""
    return isinstance(value, list)


def parsed(text: Json | None) -> Any:
    """Return the value of a JSON text, with sendable texts; None if it is not JSON."""
    if text is None:
        return None
    try:
        return _sendable(json_value(text))
    except ValueError:
        return None


def _sendable(value: Any) -> Any:
    if isinstance(value, str):
        return sendable(value)
    if isinstance(value, float):
        return value if isfinite(value) else None
    if is_object(value):
        return {sendable(key): _sendable(item) for key, item in value.items()}
    if is_array(value):
        return [_sendable(item) for item in value]
    return value


def of_provider(metadata: Json | None, provider: str) -> dict[str, Any]:
    """Return this provider's object of the metadata; {} if there is none."""
    value = parsed(metadata)
    own = value.get(provider) if is_object(value) else None
    return own if is_object(own) else {}


def arguments(input: Json) -> dict[str, Any]:
    """Return the arguments of a call as an object, which is what every provider wants."""
    value = parsed(input)
    return value if is_object(value) else {} if value is None else {"value": value}


def arguments_text(input: Json) -> str:
    """Return the arguments of a call as the JSON text of an object."""
    try:
        whole = is_object(json_value(input))
    except ValueError:
        whole = False
    return sendable(input) if whole else msgspec.json.encode(arguments(input)).decode()


def tool_name(name: str, longest: int) -> str:
    """Return a tool's name in the characters that providers accept, always the same one.

    A name of more than `longest` characters ends with a hash, so that two long names differ.
    """
    allowed = _ODD.sub("_", name)
    if len(allowed) > longest:
        allowed = f"{allowed[: longest - 9]}_{sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
    return allowed or "tool"
