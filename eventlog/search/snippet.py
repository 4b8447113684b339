"""Texts matched against the words of a search, and the piece of a text that a hit shows.

Texts are matched by the full-text engine that has the index, in a table of its own in memory, so a
word is the same to both.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from eventlog.search.spacing import CLOSE, OPEN, original_ranges, spaced

__all__ = ["Cut", "cut_around", "matched"]

_TABLE = (
    "CREATE VIRTUAL TABLE words USING fts5 "
    "(text, tokenize=\"unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc'\")"
)
_BEFORE, _LONGEST = 60, 240
"""Characters before the first word that was found, and of a snippet."""
_REACH = 20
"""Characters in which a snippet looks for a space to begin or end at."""


def matched(texts: Sequence[str], match: str) -> list[list[tuple[int, int]]]:
    """Return where the words are in each text; an empty list where not all of them are."""
    found: list[list[tuple[int, int]]] = [[] for _ in texts]
    connection = sqlite3.connect(":memory:", isolation_level=None)
    try:
        connection.execute(_TABLE)
        connection.execute("BEGIN")
        connection.executemany(
            "INSERT INTO words (rowid, text) VALUES (?, ?)", ((place, spaced(text)) for place, text in enumerate(texts))
        )
        question = "SELECT rowid, highlight(words, 0, ?, ?) FROM words WHERE words MATCH ?"
        for place, marked in connection.execute(question, (OPEN, CLOSE, match)):
            found[place] = original_ranges(texts[int(place)], marked)
    finally:
        connection.close()
    return found


class Cut(NamedTuple):
    """A piece of a text, and where the words are in it."""

    text: str
    found: tuple[tuple[int, int], ...]
    before: bool
    after: bool


def cut_around(text: str, found: Sequence[tuple[int, int]]) -> Cut:
    """Cut a text around the first words that were found."""
    first, last = _best(found)
    begin = max(first - _BEFORE, 0)
    if begin:
        space = text.find(" ", begin, min(begin + _REACH, first))
        begin = begin if space < 0 else space + 1
    end = min(max(begin + _LONGEST, min(last, first + _LONGEST)), len(text))
    if end < len(text):
        space = text.rfind(" ", max(end - _REACH, last), end)
        end = end if space < 0 else space
    inside = tuple((low - begin, min(high, end) - begin) for low, high in found if low >= begin and low < end)
    return Cut(text[begin:end], inside, begin > 0, end < len(text))


def _best(found: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Return a stretch of a snippet's length that has the most of what was found."""
    if not found:
        return 0, 0
    most, best, end = 0, found[0], 0
    room = _LONGEST - _BEFORE
    for place, (first, _) in enumerate(found):
        while end < len(found) and found[end][1] <= first + room:
            end += 1
        if end - place > most:
            most, best = end - place, (first, found[end - 1][1])
    return best
