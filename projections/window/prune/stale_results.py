"""The results and arguments that a later result or a later writing made stale.

For `superseded.py`, which has the rule. One pass reads the view from its end and notes the
effect of each result on earlier ones: its call, the files that it wrote, and those that it shows.
"""

from __future__ import annotations

import posixpath
from collections import defaultdict

from eventlog.values import Patch
from projections.conversation.parts import NotePart, Part, ToolPart
from projections.window.prune.call_use import use_of
from projections.window.prune.case import PruneCase
from projections.window.prune.clearable import ClearableKind, is_result
from projections.window.prune.repeated_calls import call_key
from projections.window.sizing.measure import Measure

__all__ = ["stale_parts"]


def stale_parts(case: PruneCase) -> set[tuple[str, ClearableKind]]:
    """Return the parts whose result, or arguments, later parts of the view made stale."""
    later = _Later(case.measure)
    return {
        (part.id, kind)
        for message in reversed(case.messages)
        for part in reversed(message.parts)
        for kind in later.stale(part)
    }


class _Later:
    """The calls, written files and shown files of the later parts of a view."""

    def __init__(self, measure: Measure) -> None:
        self._measure = measure
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
        if not isinstance(part, ToolPart) or not (is_result(part) or part.status == "failed"):
            return ()
        key = call_key(part, self._measure.text)
        use = use_of(*key)
        is_rewritten = use.access == "written" and self._written_by_calls.issuperset(use.paths)
        arguments: tuple[ClearableKind, ...] = ("arguments",) if is_rewritten else ()
        if not is_result(part):
            return arguments
        shows = use.paths if use.access == "read" else ()
        is_stale = key in self._called or (bool(shows) and all(self._is_outdated(path, use.narrow) for path in shows))
        if use.access == "written":
            self._written.update(use.paths)
            self._written_by_calls.update(use.paths)
        if not part.pruned:
            self._called.add(key)
            for path in shows:
                self._shown[path].add(use.narrow)
        return (*arguments, "result") if is_stale else arguments

    def _is_outdated(self, path: str, narrow: str) -> bool:
        """Whether the file, or as much of it, was written or shown again."""
        if path in self._written:
            return True
        shown = self._shown.get(path)
        return shown is not None and (not narrow or "" in shown or narrow in shown)
