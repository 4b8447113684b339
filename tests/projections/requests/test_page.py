"""The page of requests has the rules that the code has."""

from __future__ import annotations

from tests.support.requests_page import PAGE, with_table


def test_the_table_of_rules_is_the_code_s() -> None:
    """The table of the page is made from the rules that the forms read."""
    page = PAGE.read_text(encoding="utf-8")
    assert with_table(page) == page
    assert with_table(page.replace("≤ 40", "≤ 41")) == page
    assert "| `mistral` | ≤ 9," in page
