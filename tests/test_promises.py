"""Every promise has tests, and `tests/README.md` lists them."""

from __future__ import annotations

from tests.promises import (
    FRONT,
    LACKS,
    PAGE,
    PLACES,
    PROMISES,
    TEN,
    TESTS,
    held,
    marks,
    with_front_table,
    with_table,
)


def test_the_page_lists_the_marks() -> None:
    """`tests/README.md` is the output of `python -m tests.promises`."""
    page = PAGE.read_text(encoding="utf-8")
    assert page == with_table(page)


def test_every_promise_is_proven() -> None:
    """Each promise has a test with its mark, and no mark has another number."""
    assert {number for path in TESTS.rglob("test_*.py") for number, _ in marks(path)} == set(
        range(1, len(PROMISES) + 1)
    )


def test_the_front_page_shows_the_marks() -> None:
    """The table of `README.md` is the output of `python -m tests.promises`."""
    page = FRONT.read_text(encoding="utf-8")
    assert page == with_front_table(page)


def test_each_cell_has_a_test_or_a_reason() -> None:
    """Each of the ten promises has a test in each place, or a reason, and not both."""
    cells = {(promise, place) for promise in TEN for place in PLACES}
    found = held().keys()
    assert found | LACKS.keys() == cells
    assert not found & LACKS.keys()
