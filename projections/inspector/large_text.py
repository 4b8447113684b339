"""Reads the beginning of large texts: a part of 100 MB costs what is shown of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, BinaryIO, Self, cast

from eventlog.codec.large_texts import to_file

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
    sink = _Beginning(4 * most)
    to_file(content, session.store.host.packed(content, session.id), cast("BinaryIO", sink))
    text = bytes(sink.data).decode("utf-8", "ignore")[:most]
    return CutText(text, content.characters)


def beginnings(session: Session, most: int = MOST) -> Callable[[Iterable[Body]], Iterator[str]]:
    """Return a reader of the first characters of many bodies."""

    def read(bodies: Iterable[Body]) -> Iterator[str]:
        wanted = list(bodies)
        small = session.reader.texts([body for body in wanted if body.characters <= most])
        for body in wanted:
            yield next(small) if body.characters <= most else beginning(session, body, most)

    return read


class _Beginning:
    """A file object that takes the first bytes and lets the writer stop."""

    def __init__(self, most: int) -> None:
        self.data = bytearray()
        self._most = most

    def write(self, data: bytes) -> int:
        """Take bytes as long as there is room."""
        self.data += data[: self._most - len(self.data)]
        return len(data)

    def writelines(self, pieces: Iterable[bytes]) -> None:
        """Take pieces until there is no room; the rest is not even unpacked."""
        for piece in pieces:
            self.write(piece)
            if len(self.data) >= self._most:
                return
