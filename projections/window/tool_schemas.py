"""Schemas of tools that a window answers, in the forms of the providers."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from eventlog.errors import CallError, brief

__all__ = ["ToolForm", "schema_of"]

ToolForm: TypeAlias = Literal["chat", "responses", "anthropic"]
"""OpenAI Chat Completions, OpenAI Responses, or Anthropic Messages."""


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
