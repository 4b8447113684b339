"""Words and filters of a search, checked, and the expression for the index."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Sequence

import msgspec

from eventlog.errors import CallError, LimitError
from eventlog.errors.base import brief
from eventlog.search.said import KINDS
from eventlog.search.spacing import has_word, phrase
from eventlog.validation import each, require, require_or_none

MAX_WORDS = 64
"""Most words and phrases of a search."""
MAX_CHARACTERS = 4_096
_TERM = re.compile(r'"([^"]*)"?|([^\s"]+)')


def match_of(words: str) -> str:
    """Return the expression that finds texts with all of these words, and phrases in quotes.

    A word with signs in it, such as a path, is a phrase of its parts. `CallError` if there is no
    word.
    """
    require(str, words, "words to search for are a str")
    if len(words) > MAX_CHARACTERS:
        raise LimitError("characters of a search", len(words), MAX_CHARACTERS)
    terms = dict.fromkeys(found[1] if found[2] is None else found[2] for found in _TERM.finditer(words))
    phrases = [phrase(term).replace('"', " ") for term in terms if has_word(term)]
    if not phrases:
        raise CallError("there is no word to search for: give letters or digits")
    if len(phrases) > MAX_WORDS:
        raise LimitError("words of a search", len(phrases), MAX_WORDS)
    return " AND ".join(f'"{each}"' for each in phrases)


class Asked(msgspec.Struct, frozen=True):
    """The words and filters of a search."""

    match: str
    """The expression that texts with the words match."""
    session: str | None
    scope: str | None
    kinds: tuple[int, ...] | None
    """Numbers of the kinds, None for all."""
    tool: str | None
    since: int | None
    until: int | None
    rolled_back: bool | None
    ranked: bool

    @property
    def fields(self) -> list[object]:
        """Words and filters, to which a cursor is bound."""
        return [getattr(self, name) for name in self.__struct_fields__]

    def expression(self, connection: sqlite3.Connection, streams: Iterable[str] | None) -> str | None:
        """Return the expression for the full-text table; None if nothing can be found.

        `streams` are those of the session that is asked for.
        """
        tags: list[list[str]] = []
        if self.kinds is not None:
            tags.append([f"k{kind}" for kind in self.kinds])
        if streams is not None:
            numbers = (_number(connection, "SELECT id FROM streams WHERE name = ?", name) for name in streams)
            tags.append([f"s{number}" for number in numbers if number is not None])
        for letter, name in (("c", self.scope), ("t", self.tool)):
            if name is not None:
                number = label_of(connection, name)
                tags.append([] if number is None else [f"{letter}{number}"])
        if not all(tags):
            return None
        filters = "".join(f" AND tags : ({' OR '.join(choice)})" for choice in tags)
        return f"text : ({self.match}){filters}"


def label_of(connection: sqlite3.Connection, name: str) -> int | None:
    """Return the number of a scope or tool, None if the index has none of this name."""
    return _number(connection, "SELECT id FROM labels WHERE name = ?", name.encode("utf-8", "surrogatepass"))


def _number(connection: sqlite3.Connection, question: str, name: object) -> int | None:
    found = connection.execute(question, (name,)).fetchone()
    return None if found is None else int(found[0])


def asked_for(
    words: str,
    *,
    session: str | None,
    scope: str | None,
    kinds: Sequence[str] | None,
    tool: str | None,
    since: int | None,
    until: int | None,
    rolled_back: bool | None,
    ranked: bool,
) -> Asked:
    """Check the arguments of a search; `CallError` says which one is wrong."""
    match = match_of(words)
    for text in (session, scope, tool):
        require_or_none(str, text, "a session, a scope and a tool are str")
    for time in (since, until):
        if type(time) is not int:
            require_or_none((), time, "since and until are UTC milliseconds, whole numbers")
    require_or_none(bool, rolled_back, "rolled_back is True, False or None")
    require(bool, ranked, "ranked is True or False")
    return Asked(match, session, scope, _kinds(kinds), tool, since, until, rolled_back, ranked)


def _kinds(kinds: Iterable[object] | None) -> tuple[int, ...] | None:
    if kinds is None:
        return None
    rule = f"kinds are a list of {', '.join(KINDS)}"
    given = each(kinds, rule)
    if not given or not all(kind in KINDS for kind in given):
        raise CallError(f"{rule}, not {brief(given)}")
    return tuple(number for number, kind in enumerate(KINDS) if kind in given)
