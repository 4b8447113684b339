"""Hits of a search, and pages of them."""

from __future__ import annotations

import msgspec

from eventlog.search.said import Kind


class SearchHit(msgspec.Struct, frozen=True):
    """A text in which all the words were found."""

    session: str
    """The session in which it is found.

    That is the one asked for; else the one in which it was said; or, if that is erased, a fork that
    has kept it.
    """
    version: int
    """Version of the event that says it, of a streamed text the first one."""
    time: int
    """Time of that event in UTC milliseconds."""
    kind: Kind
    message: str
    part: str
    tool: str
    """Name of the tool, of a call or a result."""
    snippet: str
    """A piece of the text around the first words that were found.

    U+FFFD stands for a lone surrogate.
    """
    found: tuple[tuple[int, int], ...]
    """Where the words are in the snippet: first character, and the one behind the last."""
    before: bool
    """Whether the text begins before the snippet."""
    after: bool
    """Whether it goes on behind it."""
    rolled_back: bool = False
    """Whether a rollback of the session hides it."""
    removed: bool = False
    """Whether its message or part was removed from the conversation."""


class SearchPage(msgspec.Struct, frozen=True):
    """Some hits of a search, in its order, and where it goes on."""

    hits: tuple[SearchHit, ...]
    next: str | None
    """The cursor of the next page; None if this is the last one."""
    behind: int = 0
    """Committed events that the index had not yet taken in when the wait ended."""
    damaged: tuple[str, ...] = ()
    """Sessions of which damaged events or texts are not searched; `verify` names these."""
