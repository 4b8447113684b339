"""Schemas of tools that a window answers, in the forms of the providers."""

from __future__ import annotations

import json
from typing import Any, Literal, TypeAlias, cast

from eventlog.errors import CallError
from eventlog.errors.base import brief
from eventlog.session.tool_functions import GROUPS, parameters_of
from eventlog.values import Json

ToolForm: TypeAlias = Literal["chat", "responses", "anthropic", "gemini"]
"""Chat Completions, Responses, Anthropic Messages, or a declaration of Gemini."""


def schema_of(form: ToolForm, name: str, description: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """Return a tool's schema in a provider's form; `CallError` for a form that there is not."""
    if form == "anthropic":
        return {"name": name, "description": description, "input_schema": parameters}
    function = {"name": name, "description": description, "parameters": parameters}
    if form == "chat":
        return {"type": "function", "function": function}
    if form == "responses":
        return {"type": "function", **function}
    if form == "gemini":
        return function
    raise CallError(f"there is no form {brief(form)} of tool schemas; there are chat, responses, anthropic and gemini")


def with_schema(tools: Json | None, name: str, description: str, parameters: dict[str, Any]) -> Json:
    """Return the schemas of tools (a JSON array) with one more, in their form.

    The form of Chat Completions if there are none. Gemini's declarations stay in one list.
    """
    found: list[Any] = json.loads(tools or "[]")
    offered = [cast("dict[str, Any]", tool) for tool in found if isinstance(tool, dict)]
    forms: list[ToolForm] = [shown for tool in offered if (shown := _form_of(tool)) is not None]
    form = forms[0] if forms else "chat"
    schema = schema_of(form, name, description, parameters)
    groups: list[Any] = [tool.get(group) for tool in offered for group in GROUPS]
    declared: list[list[Any]] = [group for group in groups if isinstance(group, list)]
    if declared:
        declared[0].append(schema)
    elif form == "gemini" and "name" not in offered[0]:  # tools of Google's own
        found.append({GROUPS[0]: [schema]})
    else:
        found.append(schema)
    return json.dumps(found, ensure_ascii=False)


def _form_of(tool: dict[str, Any]) -> ToolForm | None:
    """Return the form that a schema shows; None for one that any form has."""
    if "input_schema" in tool:
        return "anthropic"
    if tool.get("type") == "function":
        return "chat" if "function" in tool else "responses"
    is_declaration = "name" not in tool or parameters_of(tool) is not None
    return "gemini" if "type" not in tool and is_declaration else None
