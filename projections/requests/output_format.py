"""The output format that a question asks for, in the forms of OpenAI.

A question gives `{"type": "json_schema", "schema": {…}}`, with a `name` and `strict` if it likes.
That is the form of Anthropic (`output_config`) too; a form of OpenAI is left as it is.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec

from eventlog.errors import CallError
from eventlog.errors.base import brief
from eventlog.values import Json

__all__ = ["chat_format", "responses_format"]

NAME = "answer"
"""Name of a schema that has none: OpenAI requires one."""


def chat_format(format: Json | None) -> dict[str, Any] | None:
    """Return `response_format` of Chat Completions; None without a format."""
    asked = _read(format)
    if asked is None or "schema" not in asked:
        return asked
    return {"type": asked.pop("type"), "json_schema": {"name": NAME} | asked}


def responses_format(format: Json | None) -> dict[str, Any] | None:
    """Return the field `format` of `text` in the Responses API; None without a format."""
    asked = _read(format)
    return {"name": NAME} | asked if asked is not None and "schema" in asked else asked


def _read(format_: Json | None) -> dict[str, Any] | None:
    try:
        found: Any = None if format_ is None else msgspec.json.decode(format_)
    except (msgspec.DecodeError, ValueError, RecursionError):
        found = False
    if found is None:
        return None
    if not isinstance(found, dict) or "type" not in found:
        raise CallError(f'an output format is a JSON object with a "type", such as "json_schema", not {brief(format_)}')
    return cast("dict[str, Any]", found)
