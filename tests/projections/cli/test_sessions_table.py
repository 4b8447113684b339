"""`eventlog sessions` on a terminal: one line a session, at every width."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

import pytest
from rich.cells import cell_len

import eventlog
from projections.cli.exits import Exit
from tests.support.cli_runner import Cli, on_terminal

TITLE = "A title that is long enough to need three lines of a narrow terminal, with averyveryverylongword 漢字漢字"
COUNT = 6


@pytest.fixture
def listed(tmp_path: Path) -> Path:
    """A store of sessions with long ids and titles, names, notes, scopes and costs."""
    path = tmp_path / "store"
    with eventlog.open(path) as opened:
        for number in range(COUNT):
            id = f"ses_{'abcdefghij' * 4}{number}" if number % 2 else f"{number}{'klmnopqrst' * 3}"
            session = opened.open_session(("telegram", f"chat {number}"), id=id, title=TITLE, scope="alice-the-great")
            session.set_note("waits for the invoice of the last month")
            with session.assistant(model="acme/one") as reply:
                reply.add_text("hello")
                reply.finish(usage=eventlog.Usage(eventlog.Tokens(123_456_789, 20), Decimal("1234.56789")))
    return path


def plain(drawn: str) -> list[str]:
    """The lines of a terminal without colours."""
    return re.sub(r"\x1b\[[0-9;]*m|\r", "", drawn).splitlines()


@pytest.mark.parametrize("columns", [80, 100, 120, 160, 200])
def test_a_session_is_one_line(listed: Path, columns: int) -> None:
    """Each session has one line no wider than the terminal, with its id, tokens and cost."""
    code, drawn = on_terminal("--store", listed, "sessions", columns=columns)
    header, *lines = plain(drawn)
    assert (code, len(lines)) == (Exit.OK, COUNT)
    assert header.split()[:3] == ["session", "updated", "title"]
    assert max(map(cell_len, lines)) <= columns
    for line in lines:
        assert "123.5 M" in line
        assert "$1,234.57" in line
        assert "A title that" in line


def test_sub_sessions_and_forks_are_marked(cli: Cli, tmp_path: Path) -> None:
    """A mark stands before their titles; in a pipe each has a column of its own."""
    with eventlog.open(tmp_path / "store") as store:
        session = store.create_session(id="main", title="Main")
        session.user("Hello")
        store.create_session(id="sub", title="Sub", parent="main")
        session.fork(id="fork", title="Fork")
    _, drawn = on_terminal("--store", tmp_path / "store", "sessions", columns=80)
    titles = {"↳ Sub", "↱ Fork"}
    assert {found for found in titles if found in drawn} == titles
    assert "↳ Main" not in drawn
    assert "↱ Main" not in drawn
    entries = {entry["id"]: entry for entry in cli("sessions", "--json").json["sessions"]}
    assert [(entries[id]["parent"], entries[id]["fork_of"]) for id in ("main", "sub", "fork")] == [
        (None, None),
        ("main", None),
        (None, "main"),
    ]


def test_the_id_that_is_shown_names_the_session(cli: Cli, listed: Path) -> None:
    """Every short id of the table is taken by other commands, also where ends are alike."""
    _, drawn = on_terminal("--store", listed, "sessions")
    names = [line.split()[0] for line in plain(drawn)[1:]]
    ids = [cli("stats", name, "--json").json["session"]["id"] for name in names]
    assert sorted(ids) == sorted(entry["id"] for entry in cli("sessions", "--json").json["sessions"])
    assert all(len(name) < len(id) for name, id in zip(names, ids, strict=True))


@pytest.mark.parametrize("columns", [20, 30, 40, 60])
def test_a_narrow_terminal_gets_one_line_too(listed: Path, columns: int) -> None:
    """Where few columns fit, a session is still one line, with its id and title."""
    code, drawn = on_terminal("--store", listed, "sessions", columns=columns)
    header, *lines = plain(drawn)
    assert (code, len(lines)) == (Exit.OK, COUNT)
    assert header.split()[0] == "session"
    assert "title" in header
    assert max(map(cell_len, lines)) <= columns
    assert drawn.count("$1,234.57") == (COUNT if columns >= 40 else 0)


@pytest.mark.parametrize(("columns", "least"), [(80, 36), (120, 54), (200, len(TITLE))])
def test_titles_get_the_room_there_is(listed: Path, columns: int, least: int) -> None:
    """Other columns are left out before a title is cut to less than its share of the line."""
    _, drawn = on_terminal("--store", listed, "sessions", columns=columns)
    header, *lines = plain(drawn)
    assert header.index("title") + least <= columns
    assert all(TITLE[: least - 1].rstrip() in line for line in lines)


def test_data_only_on_standard_output(cli: Cli, listed: Path) -> None:
    """A pipe gets the header and a line for each session; how to go on is a note."""
    assert listed
    answer = cli("sessions", "--limit", 2)
    assert len(answer.out.splitlines()) == 3
    assert answer.err.startswith("more: --cursor ")


def test_long_ids_that_differ_nowhere_short_stay_whole(tmp_path: Path, cli: Cli) -> None:
    """Ids with the same beginning and the same end are shown whole."""
    ids = [f"same-beginning-{number}-same-ending-of-all" for number in range(3)]
    with eventlog.open(tmp_path / "store") as opened:
        for id in ids:
            opened.create_session(id=id)
    _, drawn = on_terminal("--store", tmp_path / "store", "sessions", columns=200)
    assert sorted(line.split()[0] for line in plain(drawn)[1:]) == ids
    refused = cli("stats", "ending-of-all")
    assert (refused.code, "more than one session ends with 'ending-of-all': " in refused.err) == (Exit.USAGE, True)
