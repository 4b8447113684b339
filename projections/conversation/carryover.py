"""The carryover of a compaction: todos, pins and touched files, beside the summary.

No model is asked for it.  It is fixed when the compaction completes, so the beginning of the view
stays as it is.  `view/carryover_text.py` words it.
"""

from __future__ import annotations

import msgspec

from eventlog.values import Body, Content, Todo
from projections.conversation.file_access import Access, access_of, paths_of

TOUCHES = 400
"""Newest touches that are remembered."""


class Pin(msgspec.Struct, array_like=True, gc=False):
    """A pinned fact (`pieces` joined), or a pinned part as its text was when it was last seen."""

    pin: str
    part: str | None = None
    pieces: tuple[Content, ...] = ()
    redacted: bool = False


class FileTouch(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """A file that a call read or wrote, or the call's arguments where they are a body.

    A call that failed touches nothing.
    """

    access: Access | None
    path: str = ""
    arguments: Body | None = None
    tool: str = ""
    part: str = ""
    """The newest that touched it so."""

    @property
    def key(self) -> object:
        """The touch without its part."""
        return self.access, self.path, self.arguments, self.tool


class Carryover(msgspec.Struct, array_like=True, gc=False):
    """Todos, pins and touched files that one compaction carries over."""

    todos: tuple[Todo, ...] = ()
    pins: tuple[Pin, ...] = ()
    touches: tuple[FileTouch, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.todos or self.pins or self.touches)


def touches_of(part: str, tool: str, arguments: Content) -> tuple[FileTouch, ...]:
    """Return the files that a call touches; arguments stored as a body stay a reference."""
    if isinstance(arguments, str):
        paths = paths_of(tool, arguments)
        return tuple(FileTouch(access_of(tool), path, part=part) for path in paths) if paths else ()
    access = access_of(tool)
    return (FileTouch(access, arguments=arguments, tool=tool, part=part),) if access else ()
