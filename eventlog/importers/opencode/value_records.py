"""Our values in OpenCode's words: the way back of `values.py`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from eventlog.importers.opencode.values import ERRORS, Record
from eventlog.validation import is_deep
from eventlog.values import Attachment, Content, File, MessageError, Model, Source, Tokens, Usage

__all__ = [
    "Resolve",
    "error_record",
    "file_record",
    "model_record",
    "span_record",
    "tokens_record",
    "usage_record",
    "value_of",
]

Resolve = Callable[[Content], str]

_NAMES = {ours: theirs for theirs, ours in ERRORS.items()}


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
    """Return token counts in OpenCode's words."""
    record: Record = {
        "input": tokens.input,
        "output": tokens.output,
        "reasoning": tokens.reasoning,
        "cache": {"read": tokens.cache_read, "write": tokens.cache_write},
    }
    if tokens.total is not None:
        record["total"] = tokens.total
    return record


def usage_record(usage: Usage) -> Record:
    """Return the tokens and the cost of a step."""
    record: Record = {"tokens": tokens_record(usage.tokens)}
    return record if usage.cost is None else {**record, "cost": float(usage.cost)}


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
