"""The note after a page of a list: how to see what comes behind it."""

from __future__ import annotations

from projections.cli import output
from projections.reports.wording import counted


def note_more(shown: int, noun: str, following: str, *, by_cursor: bool, everything: str = "") -> None:
    """Say how to go on behind a page of `shown` entries that is not the last.

    A person is told which --limit shows more, and with `everything` what shows all. A script, and
    a person who gave a cursor, gets the next one.
    """
    if by_cursor or not output.terminal():
        output.note(f"more: --cursor {following}")
        return
    rest = f", all with {everything}" if everything else ""
    output.note(f"the first {counted(shown, noun)}; more with --limit {2 * shown}{rest}")
