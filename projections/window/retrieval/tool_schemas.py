"""Schemas of tools that a window answers, in the forms of the providers."""

from __future__ import annotations

import json
from typing import Any, Literal, TypeAlias, cast

from eventlog.errors import CallError
from eventlog.errors.base import brief
from eventlog.values import Json

ToolForm: TypeAlias = Literal["chat", "responses", "anthropic"]
"""OpenAI Chat Completions, OpenAI Responses, or Anthropic Messages."""


def schemas_in(tools: Json | None) -> list[dict[str, Any]]:
    """Return the schemas of recorded tools (a JSON array), in any form."""
    found: Any = json.loads(tools or "[]")
    return [cast("dict[str, Any]", tool) for tool in found if isinstance(tool, dict)]


def function_of(tool: dict[str, Any]) -> dict[str, Any]:
    """Return the object with a tool's name and parameters, in any form."""
    found: Any = tool.get("function", tool)
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def schema_of(form: ToolForm, name: str, description: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """Return a tool's schema in a provider's form; `CallError` for a form that there is not."""
    if form == "anthropic":
        return {"name": name, "description": description, "input_schema": parameters}
    function = {"name": name, "description": description, "parameters": parameters}
    if form == "chat":
        return {"type": "function", "function": function}
    if form == "responses":
        return {"type": "function", **function}
    raise CallError(f"there is no form {brief(form)} of tool schemas; there are chat, responses and anthropic")
