"""Frameworks that have adapters: their tests run in an environment that has them all."""

from __future__ import annotations

import os
import re
from importlib.util import find_spec

FRAMEWORKS = ("agents", "claude_agent_sdk", "deepagents", "langchain_core", "langgraph", "mcp", "pydantic_ai")
ADK = "google.adk"
"""A framework that narrows the versions of others: without it its tests are left out."""
MODULES = (
    "eventlog.adapters.google_adk",
    "eventlog.adapters.langgraph",
    "eventlog.adapters.pydantic_ai",
    "eventlog.adapters.pydantic_entries",
)
"""Modules, with those below them, that cannot be imported without their framework."""
_IMPORT = re.compile(
    rf"^\s*(?:from|import) (?:{'|'.join((*FRAMEWORKS, re.escape(ADK)))}|{'|'.join(map(re.escape, MODULES))})\b",
    re.MULTILINE,
)


def are_here() -> bool:
    """Whether all are installed; in CI one is enough, so that a missing one is an error there."""
    found = [find_spec(name) is not None for name in FRAMEWORKS]
    return any(found) if os.environ.get("CI") == "true" else all(found)


def has_adk() -> bool:
    """Whether Google ADK is installed; in CI it is, or its tests say that it is missing."""
    is_there = find_spec("google") is not None and find_spec(ADK) is not None
    return is_there or os.environ.get("CI") == "true"


def module_needs_one(name: str) -> bool:
    """Whether a module of the package cannot be imported without its framework."""
    return name.startswith(MODULES)


def needs_one(code: str) -> bool:
    """Whether a program imports a framework, or a module that cannot do without one."""
    return _IMPORT.search(code) is not None
