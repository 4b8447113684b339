"""Members of an OpenCode export's records as our values, and the way back.

A member of a wrong type counts as absent.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from eventlog.ids import MAX_ID_BYTES
from eventlog.importers.common.json_lines import dump, is_array, is_object
from eventlog.validation import is_deep
from eventlog.values import Attachment, Content, File, Json, MessageError, Model, Source, Tokens, Usage

Record = dict[str, Any]
Resolve = Callable[[Content], str]

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

_NAMES = {ours: theirs for theirs, ours in ERRORS.items()}
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
    """Return the tokens and the cost of a step or message.

    OpenCode counts reasoning beside the output; a total without it says that an older version
    counted it in the output, too. A cost of 0 is an unknown one: OpenCode writes 0 for every model
    without a price.
    """
    tokens, cost = record.get("tokens"), record.get("cost")
    is_price = isinstance(cost, (int, float)) and not isinstance(cost, bool) and 0 < abs(cost) < _LARGEST
    price = Decimal(str(cost)) if is_price else None
    if not is_object(tokens):
        return Usage(Tokens(), price)
    cache, total = tokens.get("cache"), whole(tokens.get("total"))
    given, said, thought = (number(tokens, name) for name in ("input", "output", "reasoning"))
    read, written = number(cache, "read"), number(cache, "write")
    if total != given + said + read + written:
        said += thought
    return Usage(Tokens(given, said, thought, read, written, total), price)


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


# -- the way back ------------------------------------------------------------------------------


def value_of(text: str | None) -> Any:
    """Return the value of JSON text; other text, and too deep a value, stays text."""
    try:
        value = None if text is None else json.loads(text)
    except (ValueError, RecursionError):
        return text
    return text if is_deep(value) else value


def model_record(model: Model) -> Record:
    """Return a model in OpenCode's words."""
    return {"providerID": model.provider, "modelID": model.name}


def error_record(error: MessageError) -> Record:
    """Return an error in OpenCode's words."""
    return {
        "name": _NAMES.get(error.name, error.name),
        "data": {"message": error.message} if error.data is None else value_of(error.data),
    }


def tokens_record(tokens: Tokens) -> Record:
    """Return token counts in OpenCode's words: reasoning, at most the output, is beside it."""
    thought = min(tokens.reasoning, tokens.output)
    record: Record = {
        "input": tokens.input,
        "output": tokens.output - thought,
        "reasoning": thought,
        "cache": {"read": tokens.cache_read, "write": tokens.cache_write},
    }
    if tokens.total is not None:
        record["total"] = tokens.total
    return record


def usage_record(usage: Usage) -> Record:
    """Return the tokens and the cost of a step; an unknown cost is 0, as OpenCode writes it."""
    return {"tokens": tokens_record(usage.tokens), "cost": float(usage.cost or 0)}


def file_record(file: File | Attachment, text: Resolve) -> Record:
    """Return a file; `text` resolves its address."""
    record: Record = {"mime": file.mime, "url": text(file.url)}
    if file.filename is not None:
        record["filename"] = file.filename
    if file.source is not None:
        record["source"] = _source(file.source)
    return record


def span_record(source: Source) -> Record:
    """Return the text that mentions a source."""
    return {"value": source.value, "start": source.start, "end": source.end}


def _source(source: Source) -> Record:
    record: Record = {"type": source.kind, "text": span_record(source)}
    if source.kind == "resource":
        record.update(clientName=source.client, uri=source.path)
        return record
    record["path"] = source.path
    if source.kind == "symbol":
        record.update(name=source.name, kind=source.symbol_kind)
        if source.range is not None:
            first, left, last, right = source.range
            record["range"] = {
                "start": {"line": first, "character": left},
                "end": {"line": last, "character": right},
            }
    return record
