"""Streaming reader of one large JSON document.

It yields the members of the top object, and one member's array element by element; or the elements
of an array at the top. It reads no more than it needs, so memory is bounded by the largest element.
Damage raises `DamagedDocumentError` with its line.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

CHUNK = 1 << 16
SAMPLE = 50
"""Elements that a format is detected from."""
_BLANK = " \t\r\n"


class DamagedDocumentError(ValueError):
    """The document is not JSON from here on; `line` counts from 1."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line
        self.reason = reason


def beginning(file: BinaryIO, member: str = "", *, whole: bool = False) -> tuple[list[Any], dict[str, Any]]:
    """Return the first elements of a document's array, and what is read around them.

    The array is that of a `member` of the object at the top, or the top itself. Reading ends behind
    `SAMPLE` elements, unless `whole` is true, or where the document is damaged.
    """
    found: list[Any] = []
    around: dict[str, Any] = {}
    document = Document(file, member)
    try:
        for name, value in document.members() if member else ((member, one) for one in document.elements()):
            if name != member or isinstance(value, str):
                around[name] = value
                continue
            if len(found) < SAMPLE:
                found.append(value)
            if len(found) == SAMPLE and not whole:
                break
    except DamagedDocumentError:
        pass
    return found, around


class Document:
    """JSON object in a file; `streamed` names the member whose array is streamed.

    Bytes that are not UTF-8 end the document, unless `mended` is given: it is told the line and
    what was done, and U+FFFD stands in their place.
    """

    def __init__(self, file: BinaryIO, streamed: str, mended: Callable[[int, str], None] | None = None) -> None:
        self._file = file
        self._streamed = streamed
        self._mended = mended
        self.met: bool = False
        """Whether the member that is streamed was there, if only as an empty array."""
        self._decoder = json.JSONDecoder()
        self._utf8 = codecs.getincrementaldecoder("utf-8")()
        self._text = ""
        self._at = 0
        self._ended = False
        self._lines = 1
        self._broken: int | None = None
        """Line with bytes that are not UTF-8, after which nothing is read."""

    def members(self) -> Iterator[tuple[str, Any]]:
        """Yield (name, value) of the top object, for the streamed member once per element.

        `DamagedDocumentError` where the document ends too early, is not JSON or has something
        behind it; what came before was sound.
        """
        yield from self._members()
        self._end()

    def _members(self) -> Iterator[tuple[str, Any]]:
        self._expect("{")
        if self._peek() == "}":
            self._at += 1
            return
        while True:
            name = self._value()
            if not isinstance(name, str):
                raise self._damaged("a member without a name")
            self._expect(":")
            self.met = self.met or name == self._streamed
            if name == self._streamed and self._peek() == "[":
                yield from ((name, element) for element in self._elements())
            else:
                yield name, self._value()
            if self._next_of(",}") == "}":
                return

    def elements(self) -> Iterator[Any]:
        """Yield the elements of an array at the top; errors as in `members`."""
        yield from self._elements()
        self._end()

    def _end(self) -> None:
        if self._peek():
            raise self._damaged("something follows the document")

    def _elements(self) -> Iterator[Any]:
        self._expect("[")
        if self._peek() == "]":
            self._at += 1
            return
        while True:
            yield self._value()
            if self._next_of(",]") == "]":
                return

    def _value(self) -> Any:
        """Decode the value that begins here, reading on for as long as it is not complete."""
        self._peek()
        wanted = CHUNK
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except RecursionError:
                raise self._damaged("nested too deeply") from None
            except ValueError as error:
                if self._ended:
                    raise self._damaged(f"not JSON: {error}".partition(": line")[0]) from None
            else:
                if self._ended or (end < len(self._text) and not self._goes_on(value, end)):
                    self._at = end
                    return value
            self._read(wanted)
            wanted *= 2

    def _goes_on(self, value: Any, end: int) -> bool:
        """Whether a number may be cut where the text that was read ends: `0` of `0.5`."""
        return isinstance(value, (int, float)) and self._text[end] in "0123456789.eE+-"

    def _peek(self) -> str:
        """Return the next character that is not blank, "" at the end."""
        while True:
            text, at = self._text, self._at
            while at < len(text) and text[at] in _BLANK:
                at += 1
            self._at = at
            if at < len(text):
                return text[at]
            if self._ended:
                return ""
            self._read(CHUNK)

    def _expect(self, character: str) -> None:
        if self._peek() != character:
            raise self._damaged(f"expected {character!r}")
        self._at += 1

    def _next_of(self, characters: str) -> str:
        found = self._peek()
        if not found or found not in characters:
            raise self._damaged(f"expected {' or '.join(map(repr, characters))}" if found else "ends too early")
        self._at += 1
        return found

    def _read(self, wanted: int) -> None:
        data = b"" if self._broken is not None else self._file.read(wanted)
        self._ended = not data
        fresh = self._decoded(data)
        self._lines += self._text.count("\n", 0, self._at)
        self._text = self._text[self._at :] + (fresh.lstrip("\ufeff") if self._lines == 1 and not self._text else fresh)
        self._at = 0

    def _decoded(self, data: bytes) -> str:
        """Decode the next bytes, with U+FFFD for invalid ones, or up to the first invalid one."""
        text = ""
        while self._broken is None:
            try:
                return text + self._utf8.decode(data, final=self._ended)
            except UnicodeDecodeError as error:
                found = error.object  # with the bytes that the decoder had buffered
                text += found[: error.start].decode()
                line = self._lines + self._text.count("\n") + text.count("\n")
                self._utf8.reset()
                if self._mended is None:
                    self._broken = line
                else:
                    self._mended(line, "not UTF-8: U+FFFD stands in its place")
                    text += "\ufffd"
                    data = found[error.end :]
        return text

    def _damaged(self, reason: str) -> DamagedDocumentError:
        if self._broken is not None and self._ended:
            return DamagedDocumentError(self._broken, "not UTF-8")
        return DamagedDocumentError(self._lines + self._text.count("\n", 0, self._at), reason)
