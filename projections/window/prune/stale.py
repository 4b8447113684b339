"""The results that a later result or a later writing made stale.

For `superseded.py`, which says when that is. Kept beside the candidates. The view is read from its
beginning, and every result waits for what would supersede it: its own call again, and for each file
that it shows, a writing of the file or another result that shows as much. What is read wakes those
that wait for it. All of this is journaled, so that a look takes back what messages that changed had
said, and reads on from the first of them.
"""

from __future__ import annotations

import posixpath
from bisect import bisect_left
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from eventlog.values import Patch
from projections.conversation.parts import NotePart, ToolPart
from projections.window.prune.call_use import use_of
from projections.window.prune.candidates import CLEARED_TOKENS, Candidates
from projections.window.prune.outline import ToolResult, is_result
from projections.window.prune.repeated_calls import call_key

__all__ = ["StaleResults"]

Subject: TypeAlias = str | tuple[str, str]
"""Awaited event: a file by its path, or a call by its tool and canonical input."""


class _Waiter:
    """A result that waits for so many things; once it waits for none it is stale."""

    __slots__ = ("left", "result")

    def __init__(self, result: ToolResult, left: int) -> None:
        self.result = result
        self.left = left


class _Entry(NamedTuple):
    """An action of a message: one result waits for a subject, or all that wait are woken."""

    message: int
    subject: Subject
    narrow: str
    woken: list[_Waiter] | None


class StaleResults:
    """The stale results of one view, and running sums of the candidates that are not stale."""

    def __init__(self, candidates: Candidates) -> None:
        self._candidates = candidates
        self._mark = candidates.outline.mark()
        self._waiting: dict[Subject, dict[str, list[_Waiter]]] = {}
        """By subject, and by what was asked for beside a path; no list is empty."""
        self._reasons: dict[str, int] = {}
        """For each stale result in how many ways it is, one or two."""
        self._journal: list[_Entry] = []
        self._same = 0
        """Messages at the beginning in which no result became stale or fresh since the sums were
        made.
        """
        self._sizes = [0]
        """Tokens of those that are not stale, of as many of the oldest candidates as the place in
        the list says.
        """
        self._counts = [0]
        """How many these are."""

    def __contains__(self, part: str) -> bool:
        return part in self._reasons

    def look(self) -> None:
        """Apply what changed in the view; call it after the candidates did."""
        mark, messages = self._mark, self._candidates.outline.messages
        self._same = mark.messages
        self._take_back(mark.messages)
        for index in range(mark.messages, len(messages)):
            self._read(index)
        mark.messages = mark.results = len(messages)
        self._sum()

    def beyond(self, count: int, room: float) -> int:
        """How many of the `count` oldest candidates do not fit into `room`.

        Counted from the newest, without those that are stale.
        """
        return bisect_left(self._sizes, self._sizes[count] - room, 0, count)

    def freed(self, aged: int, count: int) -> int:
        """Tokens that clearing the `aged` oldest and the stale ones up to `count` frees."""
        stay = self._sizes[count] - self._sizes[aged] - CLEARED_TOKENS * (self._counts[count] - self._counts[aged])
        return self._candidates.freed(count) - stay

    # -- reading -------------------------------------------------------------------------------

    def _read(self, index: int) -> None:
        for place, part in enumerate(self._candidates.outline.messages[index].parts):
            if isinstance(part, NotePart) and isinstance(part.note, Patch) and not part.removed:
                self._written(index, map(posixpath.normpath, part.note.files))
            elif isinstance(part, ToolPart) and is_result(part):
                self._result(ToolResult(index, place, part))

    def _result(self, found: ToolResult) -> None:
        key = call_key(found.part, self._candidates.measure.text)
        use = use_of(*key)
        if use.access == "written":
            self._written(found.message, use.paths)
        if not found.part.pruned:
            self._wake(found.message, key, "")
            if use.access == "read":
                self._shown(found.message, use.paths, use.narrow)
        self._wait(found, [key], "")
        if use.access == "read" and use.paths:
            self._wait(found, use.paths, use.narrow)

    def _written(self, index: int, paths: Iterable[str]) -> None:
        for path in paths:
            for narrow in [*self._waiting.get(path, ())]:
                self._wake(index, path, narrow)

    def _shown(self, index: int, paths: Iterable[str], narrow: str) -> None:
        for path in paths:
            for waiting in ("", narrow) if narrow else [*self._waiting.get(path, ())]:
                self._wake(index, path, waiting)

    # -- waiting -------------------------------------------------------------------------------

    def _wait(self, found: ToolResult, subjects: Iterable[Subject], narrow: str) -> None:
        names = [*subjects]
        waiter = _Waiter(found, len(names))
        for subject in names:
            self._waiting.setdefault(subject, {}).setdefault(narrow, []).append(waiter)
            self._journal.append(_Entry(found.message, subject, narrow, None))

    def _wake(self, index: int, subject: Subject, narrow: str) -> None:
        woken = self._pop(subject, narrow)
        if not woken:
            return
        self._journal.append(_Entry(index, subject, narrow, woken))
        for waiter in woken:
            waiter.left -= 1
            if not waiter.left:
                self._change(waiter.result, 1)

    def _take_back(self, message: int) -> None:
        """Undo what the messages from one on did, the newest first."""
        while self._journal and self._journal[-1].message >= message:
            _, subject, narrow, woken = self._journal.pop()
            if woken is None:
                waiting = self._waiting[subject][narrow]
                waiting.pop()
                if not waiting:
                    self._pop(subject, narrow)
                continue
            for waiter in woken:
                if not waiter.left:
                    self._change(waiter.result, -1)
                waiter.left += 1
            self._waiting.setdefault(subject, {})[narrow] = woken

    def _pop(self, subject: Subject, narrow: str) -> list[_Waiter]:
        found = self._waiting.get(subject, {})
        woken = found.pop(narrow, [])
        if not found:
            self._waiting.pop(subject, None)
        return woken

    def _change(self, result: ToolResult, reasons: int) -> None:
        name = result.part.id
        before = self._reasons.pop(name, 0)
        if before + reasons:
            self._reasons[name] = before + reasons
        if not before or not before + reasons:
            self._same = min(self._same, result.message)

    def _sum(self) -> None:
        """Sum up again from the first candidate that changed, or became stale or fresh."""
        candidates = self._candidates
        first = candidates.before(self._same)
        del self._sizes[first + 1 :], self._counts[first + 1 :]
        for found in candidates.all[first:]:
            fresh = found.part.id not in self._reasons
            self._sizes.append(self._sizes[-1] + (candidates.measure.counted(found.part) if fresh else 0))
            self._counts.append(self._counts[-1] + fresh)
