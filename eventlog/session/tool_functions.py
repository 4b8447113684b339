"""The functions among recorded tools, in the form of any provider.

OpenAI Chat puts a function into an entry, Gemini a list of them; for all others the entry is it.
"""

from __future__ import annotations

import json
from typing import Any, cast

from eventlog.values import Json

GROUPS = ("functionDeclarations", "function_declarations")
"""Gemini's names of a list of functions."""
_PARAMETERS = ("parameters", "input_schema", "inputSchema", "parametersJsonSchema", "parameters_json_schema")


def functions_in(tools: Json | None) -> list[dict[str, Any]]:
    """Return the objects that have name and parameters of each tool (a JSON array)."""
    entries = [entry for tool in _objects(json.loads(tools or "[]")) for entry in (_group(tool) or [tool])]
    return _objects([entry.get("function", entry) for entry in entries])


def parameters_of(function: dict[str, Any]) -> Any:
    """Return the schema of a function's parameters; None without one."""
    return next((function[name] for name in _PARAMETERS if name in function), None)


def _group(tool: dict[str, Any]) -> list[dict[str, Any]]:
    return [function for name in GROUPS for function in _objects(tool.get(name))]


def _objects(found: Any) -> list[dict[str, Any]]:
    return [cast("dict[str, Any]", entry) for entry in _entries(found) if isinstance(entry, dict)]


def _entries(found: Any) -> list[Any]:
    return found if isinstance(found, list) else []  # pyright: ignore[reportUnknownVariableType]
