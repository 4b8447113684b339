"""Which files a call showed or wrote, and what else it asked for.

For `stale_results.py`.  Told from the call's name and arguments alone.  Pure.
"""

from __future__ import annotations

import posixpath
from typing import Literal, NamedTuple

import msgspec

from projections.conversation.file_access import access_of, given_of, paths_in

__all__ = ["CallUse", "use_of"]


class CallUse(NamedTuple):
    """The files that a call used, and how.

    `narrow` is what it asked for beside the path, "" for all of the file.
    """

    access: Literal["read", "written"] | None = None
    paths: tuple[str, ...] = ()
    narrow: str = ""


def use_of(tool: str, arguments: str) -> CallUse:
    """The use of a call with these arguments (JSON text)."""
    access = access_of(tool)
    given = given_of(arguments)
    paths = paths_in(tool, given)
    if not paths:
        return CallUse()
    more = {name: value for name, value in given.items() if value not in paths}
    if access == "written" and more.get("command") == "view":  # editors that also show
        access = "read"
        del more["command"]
    if access is None and any("*** " in str(value) for value in more.values()):  # a patch under any tool's name
        access = "written"
    narrow = msgspec.json.encode(more, order="deterministic").decode() if more else ""
    return CallUse(access, tuple(map(posixpath.normpath, paths)), narrow)
