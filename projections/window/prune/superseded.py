"""Pruning what a later result made stale, before anything else goes for its age (spec §5.2).

A planner for `planner.py`.  A result is superseded

* by a later result, not pruned, of the same tool with an equal input;
* if it shows a file, by a later writing of that file, or a later result, not pruned, that shows it again.  Of two reads that both ask for
  something more than the file, such as a range of lines, and not for the same, neither supersedes the other.

What is superseded goes even if it is among the newest `protect` tokens, but never from protected turns or steps; of the rest, what is
beyond `protect` goes for its age.  All of it together must have more than `minimum` tokens.  Files are the same if their paths are, as the calls
give them (`projections/conversation/file_access.py`) and as the records of changed files do (patch parts), without their superfluous dots and slashes.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, cast

import msgspec

from eventlog.values import Patch
from projections.conversation.file_access import access_of, paths_of
from projections.conversation.parts import NotePart, ToolPart
from projections.window.prune.case import PruneCase, PrunePlan, Result, is_result
from projections.window.repeated_calls import call_key

__all__ = ["superseded"]


def superseded(case: PruneCase) -> PrunePlan | None:
    """Every result that was superseded, and of the others those that are beyond the newest `protect` tokens."""
    candidates = case.candidates
    if case.calibrated(candidates.freed(candidates.before(case.unprotected))) <= case.minimum:
        return None  # whatever is stale, it is too little: no input need be read
    stale = {found.part.id: found for found in _stale(case) if case.is_prunable(found)}
    rest = (found for found in case.prunable() if found.part.id not in stale)
    return case.plan([*stale.values(), *case.beyond(rest)], "superseded")


class _Use(NamedTuple):
    """What a call did to files; `narrow` is what it asked for beside the path, "" for all of the file."""

    access: Literal["read", "written"] | None = None
    paths: tuple[str, ...] = ()
    narrow: str = ""


def _stale(case: PruneCase) -> Iterator[Result]:
    """The results that something later supersedes, newest first, protected and pruned ones included."""
    calls: set[tuple[str, str]] = set()
    written: set[str] = set()
    shown: dict[str, set[str]] = {}
    """For each file that is shown later, what was asked for beside its path."""
    for index in range(len(case.messages) - 1, -1, -1):
        parts = case.messages[index].parts
        for place in range(len(parts) - 1, -1, -1):
            part = parts[place]
            if isinstance(part, NotePart) and isinstance(part.note, Patch) and not part.removed:
                written.update(map(posixpath.normpath, part.note.files))
            if not isinstance(part, ToolPart) or not is_result(part):
                continue
            key = call_key(part, case.measure.text)
            use = _use(*key)
            if key in calls or (use.access == "read" and _is_superseded(use, written, shown)):
                yield Result(index, place, part)
            if use.access == "written":
                written.update(use.paths)
            if part.pruned:
                continue
            calls.add(key)
            if use.access == "read":
                for path in use.paths:
                    shown.setdefault(path, set()).add(use.narrow)


def _is_superseded(use: _Use, written: set[str], shown: dict[str, set[str]]) -> bool:
    """Whether each file that a read shows was written later, or shown again as far."""
    return bool(use.paths) and all(
        path in written or (path in shown and (not use.narrow or not shown[path].isdisjoint(("", use.narrow))))
        for path in use.paths
    )


def _use(tool: str, arguments: str) -> _Use:
    access = access_of(tool)
    paths = paths_of(tool, arguments)
    if not paths:
        return _Use()
    given: Any = msgspec.json.decode(arguments)  # `paths_of` found an object in it
    more = {name: value for name, value in cast("dict[str, Any]", given).items() if value not in paths}
    if access == "written" and more.get("command") == "view":  # editors that also show
        access = "read"
        del more["command"]
    if access is None and any("*** " in str(value) for value in more.values()):  # a patch under any tool's name
        access = "written"
    narrow = msgspec.json.encode(more, order="deterministic").decode() if more else ""
    return _Use(access, tuple(map(posixpath.normpath, paths)), narrow)
