"""Members of an OpenCode export's records as our values; a wrong type counts as absent."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from eventlog.ids import MAX_ID_BYTES
from eventlog.importers.common.json_lines import dump, is_array, is_object
from eventlog.values import Json, MessageError, Model, Source, Tokens, Usage

__all__ = [
    "ERRORS",
    "Record",
    "array",
    "as_json",
    "error_of",
    "is_id",
    "model_of",
    "number",
    "optional",
    "source_of",
    "string",
    "time_of",
    "usage_of",
]

Record = dict[str, Any]

ERRORS = {
    "MessageAbortedError": "aborted",
    "APIError": "api",
    "ContextOverflowError": "overflow",
    "MessageOutputLengthError": "output-length",
    "ProviderAuthError": "auth",
    "ContentFilterError": "content-filter",
    "UnknownError": "unknown",
}
"""Our names of OpenCode's errors; other names stay as they are."""

_LARGEST = 1 << 63


def string(record: object, key: str) -> str:
    """Return the member if it is a text, else ""."""
    return optional(record, key) or ""


def optional(record: object, key: str) -> str | None:
    """Return the member if it is a text, else None."""
    value = record.get(key) if is_object(record) else None
    return value if isinstance(value, str) else None


def array(record: Record, key: str) -> list[Any]:
    """Return the member if it is an array, else an empty one."""
    value = record.get(key)
    return value if is_array(value) else []


def time_of(record: Record, key: str) -> int:
    """Return a time of the record in UTC milliseconds, 0 if it has none."""
    time = record.get("time")
    value = time.get(key) if is_object(time) else None
    return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 1e15 else 0


def as_json(value: Any) -> Json | None:
    """Return a value as JSON text, None for None."""
    return None if value is None else dump(value, plain=False)


def model_of(record: Any) -> Model | None:
    """Return the model that a record names."""
    name = optional(record, "modelID")
    return None if name is None else Model(string(record, "providerID"), name)


def error_of(record: Any) -> MessageError | None:
    """Return the error that a record has."""
    if not is_object(record):
        return None
    name, data = string(record, "name"), record.get("data")
    return MessageError(ERRORS.get(name, name), string(data, "message"), as_json(data))


def usage_of(record: Record) -> Usage:
    """Return the tokens and the cost of a step or message."""
    tokens, cost = record.get("tokens"), record.get("cost")
    is_price = isinstance(cost, (int, float)) and not isinstance(cost, bool) and abs(cost) < _LARGEST
    price = Decimal(str(cost)) if is_price else None
    if not is_object(tokens):
        return Usage(Tokens(), price)
    cache = tokens.get("cache")
    return Usage(
        Tokens(
            number(tokens, "input"),
            number(tokens, "output"),
            number(tokens, "reasoning"),
            number(cache, "read"),
            number(cache, "write"),
            whole(tokens.get("total")),
        ),
        price,
    )


def number(record: Any, key: str) -> int:
    """Return the member if it is a whole number, else 0."""
    return (whole(record.get(key)) if is_object(record) else None) or 0


def whole(value: Any) -> int | None:
    """Return a value if it is a whole number that an event can have, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < _LARGEST else None


def source_of(record: Any, kind: str = "") -> Source | None:
    """Return where a file or a mention comes from."""
    if not is_object(record):
        return None
    inner, span = record.get("text"), record.get("range")
    text = inner if is_object(inner) else record
    name: Any = kind or string(record, "type")
    return Source(
        name if name in {"file", "symbol", "resource", "text"} else "text",
        string(record, "path") or string(record, "uri"),
        number(text, "start") if "start" in text else None,
        number(text, "end") if "end" in text else None,
        string(text, "value"),
        string(record, "name"),
        _range(span) if is_object(span) else None,
        string(record, "clientName"),
        whole(record.get("kind")),
    )


def _range(span: Record) -> tuple[int, int, int, int]:
    return (
        number(span.get("start"), "line"),
        number(span.get("start"), "character"),
        number(span.get("end"), "line"),
        number(span.get("end"), "character"),
    )


def is_id(value: object) -> bool:
    """Whether a value may be the id of a message or part."""
    return isinstance(value, str) and 0 < len(value.encode("utf-8", "surrogatepass")) <= MAX_ID_BYTES
