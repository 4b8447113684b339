"""Lists of sessions while other transactions hold what a reader would bring up to date."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from eventlog.log.commit import Append
from eventlog.log.postgres import session_lists
from eventlog.log.postgres.opening import open_log

SESSIONS = 100


def _all(_: bytes) -> list[bytes]:
    """Every session is in one list."""
    return [b"all"]


@pytest.mark.parametrize("held", [True, False])
def test_a_list_needs_no_row_that_another_holds(place: str, held: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that can update no row of the index has the whole list after two tries."""
    monkeypatch.setattr(session_lists, "MANY", 4)
    monkeypatch.setattr(session_lists, "_AT_ONCE", 10)
    log = open_log(place, lists_of=_all)
    for number in range(SESSIONS):
        log.submit(Append(session=f"s{number}", payload=b"p", count=1, time=number, creates_at=0))
    log.sync()
    asked: list[object] = []
    rows = log._connections.rows

    def counted(statement: Any, parameters: Any = ()) -> list[tuple[Any, ...]]:
        asked.append(statement)
        return rows(statement, parameters)

    monkeypatch.setattr(log._connections, "rows", counted)
    with psycopg.connect(place) as other:
        if held:
            other.execute("SELECT 1 FROM eventlog_heads FOR UPDATE")
        found = log.newest([b"all"], limit=SESSIONS)
        assert [head.session for head in found] == [f"s{number}" for number in reversed(range(SESSIONS))]
        assert len(asked) == (2 if held else SESSIONS // 10 + 1)
    log.close()
