"""Files and calls that the newest turn names: their results go last.

The words of a user's message name a file by its path, or by the end of it ("look at auth.py
again"), and a call by its id; so do the calls of the turn, and a call of `recall` by its part.  A
call counts for what stands before it.  Pure.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence

from projections.conversation.parts import FilePart, Message, TextPart, ToolPart
from projections.view.cleared_arguments import LARGE
from projections.window.prune.clearable import Clearable, length_of
from projections.window.sizing.sizes import Sizes

__all__ = ["named_parts"]

_WORD = re.compile(r"[^\s\"'`()<>\[\]{},;|=]+")


def named_parts(found: Iterable[Clearable], messages: Sequence[Message], newest_turn: int, measure: Sizes) -> set[str]:
    """Return the parts that later messages of the newest turn name.

    `found` are things of a view's `messages`, the newest first; `newest_turn` is an index of them.
    """
    names = _Names(measure)
    named: set[str] = set()
    end = len(messages)
    for one in found:
        while end > max(one.message + 1, newest_turn):
            end -= 1
            names.add(messages[end])
        if names.has(one):
            named.add(one.part.id)
        elif names.are_none and one.message < newest_turn:
            break
    return named


class _Names:
    """The paths and ids that some messages name."""

    def __init__(self, measure: Sizes) -> None:
        self._measure = measure
        self._names: set[str] = set()
        self._ends: set[str] = set()
        """The end of each behind its last slash."""

    @property
    def are_none(self) -> bool:
        """Whether there is no name."""
        return not self._names

    def add(self, message: Message) -> None:
        """Add the names in the texts of a user, and in the arguments of calls."""
        for part in message.parts:
            if part.removed or part.redacted:
                continue
            if isinstance(part, TextPart) and message.user:
                self._add(_words("".join(map(self._measure.text, part.pieces))))
            elif isinstance(part, ToolPart) and part.input:
                self._add(self._measure.paths(part))
                if length_of(part.input) <= LARGE:
                    self._add(_words(self._measure.text(part.input)))

    def has(self, one: Clearable) -> bool:
        """Whether a call, one of its files, or a user's file is among the names."""
        part = one.part
        if isinstance(part, FilePart):
            return part.id in self._names or (part.file.filename or "") in self._names
        if not isinstance(part, ToolPart):
            return False
        if part.id in self._names or part.call in self._names:
            return True
        return any(
            path.rpartition("/")[2] in self._ends and not self._names.isdisjoint(_ends(path))
            for path in self._measure.paths(part)
        )

    def _add(self, names: Iterable[str]) -> None:
        for name in names:
            self._names.add(name)
            self._ends.add(name.rpartition("/")[2])


def _words(text: str) -> Iterator[str]:
    for word in _WORD.findall(text):
        bare = word.lstrip("@*").rstrip(".:!?*")
        if bare:
            yield posixpath.normpath(bare) if "/" in bare else bare


def _ends(path: str) -> Iterator[str]:
    """Yield the path, and each end of it that begins behind a slash."""
    yield path
    at = path.find("/")
    while at >= 0:
        yield path[at + 1 :]
        at = path.find("/", at + 1)
