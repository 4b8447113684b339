"""The result of copying a store; `backup` and `restore` print it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from projections.cli import output
from projections.reports.wording import counted

if TYPE_CHECKING:
    from eventlog.maintenance.destination import BackupResult


_LONGEST = 80
"""Characters of the longest cursor for people; a server's has a number for each partition."""


def print_copy(result: BackupResult, to: Path | str, *, json: bool) -> None:
    """Print what was copied to a directory or a server."""
    from msgspec.structs import asdict

    from eventlog.open_log import shown

    place = shown(to)
    how = "whole" if result.whole else "what is new"
    cursor = f"up to the cursor {result.cursor}" if len(result.cursor) <= _LONGEST else "its cursor is in --json"
    output.answer(
        {"to": place, **asdict(result)},
        f"{place}: {counted(result.events, 'event')} copied ({how}), {counted(result.sessions, 'session')}, {cursor}",
        json=json,
    )
