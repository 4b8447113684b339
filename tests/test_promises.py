"""Every promise has tests, and `tests/README.md` lists them."""

from __future__ import annotations

from tests.promises import PAGE, PROMISES, TESTS, marks, with_table


def test_the_page_lists_the_marks() -> None:
    """`tests/README.md` is the output of `python -m tests.promises`."""
    page = PAGE.read_text(encoding="utf-8")
    assert page == with_table(page)


def test_every_promise_is_proven() -> None:
    """Each promise has a test with its mark, and no mark has another number."""
    assert {number for path in TESTS.rglob("test_*.py") for number, _ in marks(path)} == set(
        range(1, len(PROMISES) + 1)
    )
