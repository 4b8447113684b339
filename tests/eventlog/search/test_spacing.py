"""Words of scripts without spaces: every piece of a run is found, and just where it is."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.errors import CallError
from eventlog.search.asked import match_of
from eventlog.search.results import cut_around, matched
from eventlog.search.spacing import has_word, original_ranges, spaced

RUNS = st.text("北京上海的一", min_size=1, max_size=8)
MIXED = st.lists(st.one_of(RUNS, st.sampled_from(["abc", "x1", " ", ", ", "。", "\n", "\x1b[31m", "\0"])), max_size=8)


def places(text: str, word: str) -> list[tuple[int, int]]:
    """Return where a word is in a text, overlapping places as one."""
    found: list[tuple[int, int]] = []
    for hit in re.finditer(f"(?={re.escape(word)})", text):
        first, last = hit.start(), hit.start() + len(word)
        if found and first <= found[-1][1]:
            found[-1] = found[-1][0], last
        else:
            found.append((first, last))
    return found


@given(before=MIXED, word=RUNS, after=MIXED)
@settings(max_examples=300, deadline=None)
def test_every_piece_of_a_run_is_found_where_it_is(before: list[str], word: str, after: list[str]) -> None:
    """A word without spaces around it is found at all of its places, and at no others."""
    text = "".join([*before, word, *after])
    (found,) = matched([text], match_of(word))
    assert found == places(text, word)


@given(text=MIXED, word=RUNS)
@settings(max_examples=300, deadline=None)
def test_what_is_not_there_is_not_found(text: list[str], word: str) -> None:
    """A word is found if and only if the text has it."""
    whole = "".join(text)
    assert bool(matched([whole], match_of(word))[0]) == (word in whole)


@given(text=st.text(), word=st.text(min_size=1))
@settings(max_examples=300, deadline=None)
def test_any_text_may_be_searched_for(text: str, word: str) -> None:
    """Any text can be looked for in any other, and what is found lies inside it."""
    try:
        match = match_of(word)
    except CallError:
        assert not any(character.isalnum() for character in word)
        return
    for whole in (text, f"{text} {word} {text}"):
        (found,) = matched([whole], match)
        assert all(0 <= first < last <= len(whole) for first, last in found)
        assert found == sorted(set(found))
        cut = cut_around(whole, found)
        assert cut.text in whole
        assert all(0 <= first < last <= len(cut.text) for first, last in cut.found)


@given(st.text())
def test_a_spaced_text_has_no_marks(text: str) -> None:
    """No text, spaced for the index, looks as if it had words that were found."""
    assert original_ranges(text, spaced(text)) == []


@pytest.mark.parametrize(("text", "answer"), [("a", True), ("7", True), ("京", True), ("*-\x1b", False), ("", False)])
def test_has_word(text: str, *, answer: bool) -> None:
    """Letters and digits of any script are words, signs are not."""
    assert has_word(text) is answer
