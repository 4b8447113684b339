"""The words of a search: what they are looked for as."""

from __future__ import annotations

import re

from eventlog.errors import CallError, LimitError
from eventlog.search.spacing import has_word, phrase
from eventlog.validation import require

__all__ = ["MAX_WORDS", "match_of"]

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
