"""Pruning what a later result made stale, before anything else goes for its age.

A planner for `planners.py`.  A result is superseded

* by a later result of the same tool with an equal input, unless the later result is pruned;
* if it shows a file, by a later write of that file, or by a later result that shows the file again
  and is not pruned. Two reads that ask for different pieces of the file, such as ranges of lines,
  do not supersede each other.

The arguments of a call that wrote files are superseded by later calls that wrote all of them again.

What is superseded goes even if it is among the newest `protect` tokens, but never from protected
turns or steps; of the rest, what is beyond `protect` goes for its age. All of it together must have
more than `minimum` tokens. Files are the same if their paths are, as the calls give them
(`projections/conversation/file_access.py`) and as the records of changed files do (patch parts),
without their superfluous dots and slashes. One pass reads the view from its end and notes the
effect of each result on earlier ones: its call, the files that it wrote, and those that it shows.
"""

from __future__ import annotations

import posixpath
from collections import defaultdict

import msgspec

from eventlog.values import Patch
from projections.conversation.file_access import Access, access_of, given_of, paths_in
from projections.conversation.parts import NotePart, Part, ToolPart
from projections.view.part_rendering import Resolver
from projections.window.prune.case import CLEARED_TOKENS, PruneCase, PrunePlan
from projections.window.prune.clearable import ClearableKind, is_result
from projections.window.prune.repeated_calls import call_key


def superseded(case: PruneCase) -> PrunePlan | None:
    """Plan to clear all that is superseded, and what else is beyond `protect`."""
    all_of_them = [*case.prunable()]
    if case.calibrated(sum(case.size(found) - CLEARED_TOKENS for found in all_of_them)) <= case.minimum:
        return None  # all of them are too little: no input need be read
    stale = _stale_parts(case)
    rest = (found for found in all_of_them if (found.part.id, found.kind) not in stale)
    gone = (found for found in all_of_them if (found.part.id, found.kind) in stale)
    return case.plan([*case.beyond(rest), *gone], "superseded")


def _stale_parts(case: PruneCase) -> set[tuple[str, ClearableKind]]:
    """Return the parts whose result, or arguments, later parts of the view made stale."""
    later = _Later(case.measure.text)
    return {
        (part.id, kind)
        for message in reversed(case.messages)
        for part in reversed(message.parts)
        for kind in later.stale(part)
    }


class _Later:
    """The calls, written files and shown files of the later parts of a view."""

    def __init__(self, resolve: Resolver) -> None:
        self._resolve = resolve
        self._called: set[tuple[str, str]] = set()
        self._written: set[str] = set()
        self._written_by_calls: set[str] = set()
        """Without those that only a record of changed files names: it follows each writing."""
        self._shown: defaultdict[str, set[str]] = defaultdict(set)
        """By path, all that was asked for beside it."""

    def stale(self, part: Part) -> tuple[ClearableKind, ...]:
        """Return what is stale of a `part`, and note its own effect on earlier parts."""
        if isinstance(part, NotePart):
            if isinstance(part.note, Patch) and not part.removed:
                self._written.update(map(posixpath.normpath, part.note.files))
            return ()
        if not isinstance(part, ToolPart) or not is_result(part):
            return ()
        key = call_key(part, self._resolve)
        access, paths, narrow = _use_of(*key)
        is_rewritten = access == "written" and self._written_by_calls.issuperset(paths)
        arguments: tuple[ClearableKind, ...] = ("arguments",) if is_rewritten else ()
        shows = paths if access == "read" else ()
        is_stale = key in self._called or (bool(shows) and all(self._is_outdated(path, narrow) for path in shows))
        if part.status == "failed":
            return (*arguments, "result") if is_stale else arguments
        if access == "written":
            self._written.update(paths)
            self._written_by_calls.update(paths)
        if not part.pruned:
            self._called.add(key)
            for path in shows:
                self._shown[path].add(narrow)
        return (*arguments, "result") if is_stale else arguments

    def _is_outdated(self, path: str, narrow: str) -> bool:
        """Whether the file, or as much of it, was written or shown again."""
        if path in self._written:
            return True
        shown = self._shown.get(path)
        return shown is not None and (not narrow or "" in shown or narrow in shown)


def _use_of(tool: str, arguments: str) -> tuple[Access | None, tuple[str, ...], str]:
    """Return how a call used files, which, and what it asked for beside: "" for all of a file."""
    access = access_of(tool)
    given = given_of(arguments)
    paths = paths_in(tool, given)
    if not paths:
        return None, (), ""
    more = {name: value for name, value in given.items() if value not in paths}
    if access == "written" and more.get("command") == "view":  # editors that also show
        access = "read"
        del more["command"]
    if access is None and any("*** " in str(value) for value in more.values()):  # a patch under any tool's name
        access = "written"
    narrow = msgspec.json.encode(more, order="deterministic").decode() if more else ""
    return access, tuple(map(posixpath.normpath, paths)), narrow
