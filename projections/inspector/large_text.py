"""Reads the beginning of large texts: a part of 100 MB costs what is shown of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Self

from eventlog.codec.large_texts import pieces_of

if TYPE_CHECKING:
    from eventlog import Session
    from eventlog.values import Body, Content

MOST = 200_000
"""Characters of one part that the page shows until it is asked for more."""


class CutText(str):
    """The beginning of a text; `full` is the number of its characters."""

    __slots__ = ("full",)

    full: int

    def __new__(cls, text: str, full: int) -> Self:
        """Make one."""
        made = super().__new__(cls, text)
        made.full = full
        return made


def full_size(text: str) -> int:
    """Return the characters of the whole text that this one may be the beginning of."""
    return text.full if isinstance(text, CutText) else len(text)


def cut(text: str, most: int) -> str:
    """Return at most so many characters of a text."""
    return text if len(text) <= most else CutText(text[:most], full_size(text))


def beginning(session: Session, content: Content, most: int = MOST) -> str:
    """Return the first characters of a content; only these are read."""
    if isinstance(content, str):
        return cut(content, most)
    if content.characters <= most:
        return session.text(content)
    data = bytearray()
    for piece in pieces_of(content, session.store.host.packed(content, session.id)):
        data += piece
        if len(data) >= 4 * most:  # the rest is not even unpacked
            break
    return CutText(data[: 4 * most].decode("utf-8", "ignore")[:most], content.characters)


def beginnings(session: Session, most: int = MOST) -> Callable[[Iterable[Body]], Iterator[str]]:
    """Return a reader of the first characters of many bodies."""

    def read(bodies: Iterable[Body]) -> Iterator[str]:
        wanted = list(bodies)
        small = session.reader.texts([body for body in wanted if body.characters <= most])
        for body in wanted:
            yield next(small) if body.characters <= most else beginning(session, body, most)

    return read
