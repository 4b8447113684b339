"""`search` finds what was said, on a terminal and as JSON, and says how to go on."""

from __future__ import annotations

from pathlib import Path

import pytest

import eventlog
from projections.cli.exits import Exit
from tests.support.cli_runner import Cli, on_terminal


@pytest.fixture
def talk(store: Path) -> Path:
    """The store with a talk about ferries."""
    with eventlog.open(store) as opened:
        session = opened.create_session(id="ses_ferry", scope="harbour")
        session.user("When does the ferry leave?\nAnd the \x1b[31mtram\x1b[0m?")
        with session.assistant("p/m") as reply:
            reply.tool("timetable", call_id="c", input={"line": "ferry"}).succeed("07:15 ferry, 08:15 ferry")
            reply.finish("stop")
        session.user("ferry again", id="later")
        session.rollback(before="later")
    return store


@pytest.mark.usefixtures("talk")
def test_search(cli: Cli) -> None:
    """Hits come with session, version, kind and snippet; their count is a note."""
    found = cli("search", "ferry")
    assert found.code == Exit.OK
    assert found.out.count("ses_ferry") == 4
    assert "rolled back" in found.out
    assert "07:15 ferry, 08:15 ferry" in found.out
    assert "4 hits" in found.err
    assert cli("search", "zeppelin").out == ""
    assert "in quotes are a phrase" in cli("search", "ferry 07:15").err
    assert "in quotes" not in cli("search", "zeppelin").err
    assert cli("search", "...").code == Exit.USAGE
    assert cli("search", "ferry", "--kind", "users").code == Exit.USAGE
    assert cli("search", "ferry", "--session", "none").code == Exit.MISSING


def test_a_pipe_gets_whole_ids_and_times(cli: Cli, store: Path) -> None:
    """Only a terminal shows the ends of ids, and times of this year without it."""
    with eventlog.open(store) as opened:
        session = opened.create_session()
        session.user("Where is the ferry?")
    head = cli("search", "ferry").out.splitlines()[0]
    assert head.startswith(f"{session.id}  version 3")
    assert head.endswith("Z")
    _, shown = on_terminal("--store", store, "search", "ferry")
    assert session.id not in shown
    assert session.id[-8:] in shown


@pytest.mark.usefixtures("talk")
def test_search_as_json_by_page(cli: Cli) -> None:
    """The JSON fits its schema, and a page names the cursor of the next one."""
    parts: list[tuple[str, str]] = []
    cursor: list[str] = []
    while True:
        page = cli("search", "ferry", "--json", "--limit", "3", *cursor).json
        parts += [(hit["part"], hit["kind"]) for hit in page["hits"]]
        if page["next"] is None:
            break
        cursor = ["--cursor", page["next"]]
    assert len(set(parts)) == len(parts) == 4
    chosen = cli("search", "ferry", "--json", "--kind", "call,result", "--effective", "--scope", "harbour").json["hits"]
    assert {hit["kind"] for hit in chosen} == {"call", "result"}
    phrase = cli("search", "ferry leave", "--json", "--ranked", "--session", "ses_fer").json["hits"]
    assert [hit["kind"] for hit in phrase] == ["user"]
    assert cli("search", "leave ferry", "--json").json["hits"] == []
    assert len(cli("search", "leave", "ferry", "--json").json["hits"]) == 1


def test_search_on_a_terminal(talk: Path) -> None:
    """On a terminal the words are marked, and what was said does not act on it."""
    _, shown = on_terminal("search", "tram", "--store", talk)
    assert "\x1b[1mtram" in shown
    assert "\x1b[31m" not in shown
