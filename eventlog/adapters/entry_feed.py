"""Feed of a conversation of pydantic-ai: entries, and what is kept beside them.

A record is an entry with its message, or `{"conversation", "places"}`: the conversation's own
record as of that append, and for each branch that it left the number of the newest record there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from eventlog.adapters.framework_feed import FrameworkFeed, Showing
from eventlog.adapters.pydantic_messages import PydanticAIMapping
from eventlog.errors import NotFoundError
from eventlog.importers.common.json_lines import is_object
from eventlog.session.session import Session

__all__ = ["EntryFeed"]

PIECE = 32
"""Records that are read together in search of an entry."""


class EntryFeed(FrameworkFeed):
    """The entries of a conversation."""

    def __init__(self, session: Session) -> None:
        super().__init__(session, Showing(PydanticAIMapping()))

    def newest(self) -> tuple[int, dict[str, Any]]:
        """Return the number and value of the newest record."""
        path = self.path(newest=1)
        value: Any = self.read(path)[0] if path else None
        return path[0] if path else 0, value if is_object(value) else {}

    def is_deleted(self) -> bool:
        """Whether the conversation is deleted, or about to be."""
        try:
            return self.newest()[1].get("conversation", "") is None
        except NotFoundError:
            return True

    def place(self, entry: str | None) -> int:
        """Return the number of an entry, 0 for None; `NotFoundError` for an unknown id."""
        for path in self._lines() if entry is not None else ():
            for end in range(len(path), 0, -PIECE):
                piece = path[max(0, end - PIECE) : end]
                for number, value in zip(piece, self.read(piece), strict=True):
                    if is_object(value) and value.get("id") == entry:
                        return number
        if entry is not None:
            raise NotFoundError("entry", entry, session=self.session.id)
        return 0

    def entries(self, head: str, limit: int | None) -> list[Any]:
        """Return the newest entries up to one, all without a limit, oldest first."""
        path = self.path(self.place(head))
        wanted = len(path) if limit is None else limit
        found: list[Any] = []
        while path and len(found) < wanted:
            piece = path[-2 * wanted :]
            del path[-len(piece) :]
            found[:0] = [value for value in self.read(piece) if is_object(value) and "message" in value]
        return found[-wanted:]

    def _lines(self) -> Iterator[list[int]]:
        """Yield the records of the history, and of the branches that it left, newest first."""
        yield self.path()
        places: dict[str, int] = self.newest()[1].get("places") or {}
        for place in reversed(places.values()):
            yield self.path(place)
