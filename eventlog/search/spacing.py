"""Spaces between the words of a text, also where its script writes none.

The index takes what stands between spaces and signs for a word. Chinese, Japanese, Korean, Thai
and some other scripts are written without spaces, so a run of their characters is indexed as each
character and each pair of neighbours, in turn: `ABC` becomes `A AB B BC C`. A word of two
characters is then one pair, and a longer one a phrase of pairs and characters.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from unicodedata import category

OPEN, CLOSE = "\x01", "\x02"
"""Marks before and behind a word that was found; a spaced text has neither by itself."""
_RUN = re.compile(
    "["
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ebd\u0ec0-\u0ecd"  # Thai, Lao
    "\u1000-\u1049\u1050-\u109d\u1780-\u17d3"  # Burmese, Khmer
    "\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"  # Japanese
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"  # Chinese
    "\uac00-\ud7a3"  # Korean
    "\uff66-\uff9f"
    "]+"
)
_UNFIT = re.compile("\x1b\\[[0-?]*[ -/]*[@-~]|[\0\x01\x02\ud800-\udfff]")
"""Colours of a terminal, which would be part of a word, and what no index takes."""
_STEP = 5
"""Characters that one of a run takes, with the pair behind it and both spaces."""


def _blanked(text: str) -> str:
    """Return a text with spaces in place of what is unfit, as long as it was."""
    return _UNFIT.sub(lambda found: " " * len(found[0]), text)


def has_word(text: str) -> bool:
    """Return whether a text has a letter or a digit, which alone are looked for."""
    return any(category(character)[0] in "LNM" or category(character) == "Co" for character in text)


def spaced(text: str) -> str:
    """Return a text for the index: runs spaced, and no character that it does not take."""
    if text.isascii():
        return _blanked(text) if any(sign in text for sign in "\x1b\0\x01\x02") else text
    return _RUN.sub(lambda run: f" {_tokens(run[0], 0, 0)} ", _blanked(text))


def phrase(text: str) -> str:
    """Return a word or phrase as it is looked for: it begins and ends with a pair, if it can."""
    text = _blanked(text)
    pieces: list[str] = []
    end = 0
    for run in _RUN.finditer(text):
        before, behind = text[end : run.start()], text[run.end() :]
        pieces += [before, _tokens(run[0], not has_word(text[: run.start()]), not has_word(behind))]
        end = run.end()
    return " ".join([*pieces, text[end:]])


def _tokens(run: str, first: int, last: int) -> str:
    """Return characters and pairs of a run in turn, without the `first` or the `last` of them."""
    tokens = [run[0]]
    for before, after in pairwise(run):
        tokens += [before + after, after]
    return " ".join(tokens[first : len(tokens) - last] if len(tokens) > 1 else tokens)


def original_ranges(text: str, found: str) -> list[tuple[int, int]]:
    """Return the ranges of a text that are marked in its spaced form, ascending and apart."""
    marked = list(_marked(found))
    if not marked or text.isascii():
        return marked
    runs, starts = [(0, 0, 0)], [0]
    moved = 0
    for run in _RUN.finditer(_blanked(text)):
        at, size = run.start() + moved, len(run[0])
        moved += _STEP * size - 2 - size
        runs.append((at, run.start(), size))
        starts.append(at)
    ranges: list[tuple[int, int]] = []
    for first, last in marked:
        begin, end = _back(first, runs, starts, end=0), _back(last, runs, starts, end=1)
        if ranges and begin <= ranges[-1][1]:
            ranges[-1] = ranges[-1][0], max(end, ranges[-1][1])
        else:
            ranges.append((begin, end))
    return ranges


def _marked(found: str) -> Iterator[tuple[int, int]]:
    """Yield the marked ranges of a text, counted without the marks."""
    at = found.find(OPEN)
    marks = 0
    while at >= 0:
        close = found.find(CLOSE, at)
        yield at - marks, close - marks - 1
        marks += 2
        at = found.find(OPEN, close)


def _back(place: int, runs: Sequence[tuple[int, int, int]], starts: Sequence[int], *, end: int) -> int:
    """Return the place in the text of one in its spaced form, where a word begins or ends.

    Each run has its place in the spaced text, that in the text, and its length.
    """
    at, original, size = runs[bisect_right(starts, place - end) - 1]
    spaces = _STEP * size - 2 if size else 0
    if place - at >= spaces + end or not size:
        return original + size + (place - at - spaces)
    index, inside = divmod(place - at - 1, _STEP)
    return original + index + (inside + 1) // 2 if end else original + index
