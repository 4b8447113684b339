"""The public operations by name, which the tables have to cover."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import msgspec

from projections.cli.registry import COMMANDS

MODULES = (
    "eventlog",
    "eventlog.aio",
    "eventlog.importers",
    "eventlog.session.context",
    "eventlog.session.executor",
    "eventlog.session.reader",
    "projections",
    "projections.exports.jsonl",
    "projections.exports.markdown",
    "projections.exports.opencode",
    "projections.requests.ai_sdk",
    "projections.requests.anthropic",
    "projections.requests.forms",
    "projections.requests.gemini",
    "projections.requests.openai",
    "projections.requests.openai_responses",
    "projections.requests.output_format",
    "projections.loop",
    "projections.window",
)
"""The modules whose names are public."""


def public_operations() -> set[str]:
    """Every operation: `function`, `Class.method`, `eventlog COMMAND`."""
    found = {f"eventlog {command}" for command in COMMANDS}
    for module in MODULES:
        loaded = import_module(module)
        for name in loaded.__all__:
            found.update(_operations(name, getattr(loaded, name)))
    return found


def _operations(name: str, value: Any) -> Iterator[str]:
    if inspect.isfunction(value):
        yield name
    elif inspect.isclass(value) and not _is_value(value):
        members = (member for member in dir(value) if not member.startswith("_"))
        found = [member for member in members if _is_operation(inspect.getattr_static(value, member))]
        yield from (f"{name}.{member}" for member in found)
        if not found:
            yield name


def _is_value(kind: type[object]) -> bool:
    if kind.__module__ == "builtins":  # the name of a built-in type
        return True
    return issubclass(kind, (msgspec.Struct, BaseException, enum.Enum)) or "_fields" in vars(kind)


def _is_operation(member: object) -> bool:
    return type(member).__name__ in {"property", "classmethod", "staticmethod", "function"}
