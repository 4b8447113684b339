"""Truncation: when a tool ends, the view gets a preview of an output that is too long.

The whole output is stored, and `retrieval/recall.py` reads the rest.  Pure, and decided once: the
preview is recorded with the result, so a later policy changes no view.

One stretch of the text is left out, its middle (`both`), its end (`head`) or its beginning
(`tail`), and a marker stands there.  Cuts are made between lines unless that would waste more than
half of a side, as with one very long line; then they are made between characters.  Lines end with a
line feed and count from 1; bytes are those of UTF-8 and count from 0.  Ranges of lines include
their end, ranges of bytes do not.
"""

from __future__ import annotations

from typing import NamedTuple

from eventlog.ids import MAX_ID_BYTES
from eventlog.values import Truncation
from projections.tokens.counter import utf8_length
from projections.window.policy.policy import TruncationPolicy

BYTES_PER_TOKEN = 3
"""Bytes taken for a token when a share of the window becomes a number of bytes.

English has 4, Chinese 2 to 4, code 3 to 4.
"""
LEAST_BYTES = 1_024
"""Room for the marker with the longest id and a few words, for any policy and window."""
LEAST_LINES = 3
"""A line on either side of the marker."""

_CONTINUED = bytes(range(0x80, 0xC0))
"""Bytes of a character behind its first."""


class Bounds(NamedTuple):
    """Lines and bytes: the bounds of a preview, marker included, or the size of a text."""

    lines: int
    size: int


def bounds(policy: TruncationPolicy, usable: int | None) -> Bounds:
    """Return the policy's bounds, shrunk together to its share of `usable` tokens."""
    lines, size = policy.max_lines, policy.max_bytes
    if usable is not None and policy.window_share is not None:
        most = int(usable * policy.window_share * BYTES_PER_TOKEN)
        if most < size:
            lines, size = lines * most // size, most
    return Bounds(max(lines, LEAST_LINES), max(size, LEAST_BYTES))


def truncate(text: str, policy: TruncationPolicy, usable: int | None, *, part: str | None) -> Truncation | None:
    """Return the truncation of a tool's output; None if it is shown whole.

    `part` is the tool part to be named to the model as what `recall` can read; None where that tool
    is not offered.
    """
    if not policy.enabled:
        return None
    limits = bounds(policy, usable)
    lines, size = count_lines(text), utf8_length(text)
    if lines <= limits.lines and size <= limits.size:
        return None
    name = None if part is None else _printable(part)
    longest = _marker(name, Bounds(lines, size), (lines, lines), (size, size), Bounds(lines, size))
    room = limits.size - len(longest.encode()) - 2
    rows = limits.lines - 1
    if policy.direction == "both":
        head = beginning(text, rows - rows // 2, room - room // 2)
        tail = _end(text, rows // 2, room // 2)
    elif policy.direction == "head":
        head, tail = beginning(text, rows, room), ""
    else:
        head, tail = "", _end(text, rows, room)
    start, end = utf8_length(head), size - utf8_length(tail)
    first = head.count("\n") + 1
    # The last line of which something is missing: the one that the tail begins in, or the one
    # before.
    begun = bool(tail) and text[len(text) - len(tail) - 1] != "\n"
    last = lines - count_lines(tail) + begun
    missing = Bounds(last - first + 1, end - start)
    marker = _marker(name, Bounds(lines, size), (first, last), (start, end), missing)
    before = "" if not head or head.endswith("\n") else "\n"  # the marker is a line of its own
    after = "\n" if tail else ""
    return Truncation(f"{head}{before}{marker}{after}{tail}", lines, size, policy.direction)


def count_lines(text: str) -> int:
    """Lines of a text; a line feed at its end begins no further line."""
    return text.count("\n") + (bool(text) and not text.endswith("\n"))


def beginning(text: str, rows: int, room: int) -> str:
    """The first lines that fit, or as much of the first line as fits."""
    piece = _fitting(text[:room], room)
    end = 0
    for _ in range(rows):
        found = piece.find("\n", end)
        if found < 0:
            break
        end = found + 1
    else:
        return piece[:end]
    return piece[:end] if 2 * end >= len(piece) else piece


# -- helpers -----------------------------------------------------------------------------------


def _marker(part: str | None, whole: Bounds, lines: tuple[int, int], size: tuple[int, int], missing: Bounds) -> str:
    told = f"{missing.lines} of {whole.lines} lines, {missing.size} of {whole.size} bytes left out here"
    if part is None:
        return f"[{told}: lines {lines[0]}-{lines[1]}, bytes {size[0]}-{size[1]}]"
    return (
        f"[{told}. Read them with: "
        f"recall {part} lines {lines[0]}-{lines[1]}, or bytes {size[0]}-{size[1]}, or search TEXT]"
    )


def _end(text: str, rows: int, room: int) -> str:
    """The last lines that fit, or as much of the last line as fits."""
    if not rows or not room:
        return ""
    piece = _fitting_end(text[-room:], room)
    start = len(piece) - piece.endswith("\n")
    for _ in range(rows):
        found = piece.rfind("\n", 0, start)
        if found < 0:
            break
        start = found
    else:
        return piece[start + 1 :]
    # `start` is now at the first line feed, or at the end; before it is a line that may be whole
    # only by chance.
    first = piece.find("\n") + 1
    return piece[first:] if first and 2 * (len(piece) - first) >= len(piece) else piece


def _fitting(piece: str, room: int) -> str:
    """As many characters from the beginning as fit into so many bytes."""
    if piece.isascii():
        return piece
    data = piece.encode("utf-8", "surrogatepass")
    end = room
    if end >= len(data):
        return piece
    while data[end] & 0xC0 == 0x80:
        end -= 1
    return data[:end].decode("utf-8", "surrogatepass")


def _fitting_end(piece: str, room: int) -> str:
    """As many characters from the end as fit into so many bytes."""
    if piece.isascii():
        return piece
    return piece.encode("utf-8", "surrogatepass")[-room:].lstrip(_CONTINUED).decode("utf-8", "surrogatepass")


def _printable(part: str) -> str:
    """An id as it stands in a marker: as it is, or escaped if it would not stay on one line."""
    return part if part.isprintable() else ascii(part)[1:-1][:MAX_ID_BYTES]
