"""The files that a tool call names, by the argument names that coding agents use.

Whether a tool reads or writes is guessed from its name.  Pure.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Literal, cast

import msgspec

Access = Literal["read", "written"]

_NAMES = ("filePath", "file_path", "filepath", "notebook_path", "target_file", "absolute_path", "relative_path")
_AMBIGUOUS = ("path", "file", "filename")
"""Names that also mean a folder to search in.

They count for a tool that reads or writes by its name.
"""
_WRITING = re.compile(r"write|edit|patch|create|replace|insert|append|delete|move|notebook", re.IGNORECASE)
_READING = re.compile(r"read|view|open|cat\b", re.IGNORECASE)
_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)
_LONGEST = 4_096


@lru_cache
def access_of(tool: str) -> Access | None:
    """Whether a tool writes or reads files, by its name; None if it says neither."""
    if _WRITING.search(tool):
        return "written"
    return "read" if _READING.search(tool) else None


def paths_of(tool: str, arguments: str) -> tuple[str, ...]:
    """Return the files that a call with these arguments (JSON) names, in order, each once."""
    return paths_in(tool, given_of(arguments))


def given_of(arguments: str) -> dict[str, Any]:
    """Return the arguments (JSON text) of a call that may name a file; {} for others."""
    if "file" not in arguments and "path" not in arguments and "*** " not in arguments and "\\" not in arguments:
        return {}  # quickly: one of these is in all that name a file, or a backslash hides it
    try:
        found: Any = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def paths_in(tool: str, given: dict[str, Any]) -> tuple[str, ...]:
    """Return the files that a call with these arguments names, in order, each once."""
    names = (*_NAMES, *_AMBIGUOUS) if access_of(tool) else _NAMES
    paths = [value for name in names if isinstance(value := given.get(name), str)]
    for text in given.values():
        if isinstance(text, str) and "*** " in text:
            paths += _PATCHED.findall(text)
    return tuple(dict.fromkeys(path.strip() for path in paths if 0 < len(path.strip()) <= _LONGEST))
