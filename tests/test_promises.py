"""Every promise has tests, and the page that lists them agrees with the marks."""

from __future__ import annotations

from tests.promises import PAGE, PROMISES, TESTS, marks, with_table


def test_the_page_lists_the_marks() -> None:
    """`tests/README.md` is what `python -m tests.promises` makes of the marks."""
    page = PAGE.read_text(encoding="utf-8")
    assert page == with_table(page)


def test_every_promise_is_proven() -> None:
    """Each promise has a test with its mark, and no mark has another number."""
    assert {number for path in TESTS.rglob("test_*.py") for number, _ in marks(path)} == set(
        range(1, len(PROMISES) + 1)
    )
