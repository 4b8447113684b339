"""`asked` lists the calls that wait for a person; `answer` answers for one."""

from __future__ import annotations

from pathlib import Path

import pytest

import eventlog
from eventlog.session.open_work_cache import Work
from eventlog.session.outcome import open_work
from eventlog.session.reader import SessionReader as Reader
from projections.cli.exits import Exit
from tests.support.cli_runner import Cli, on_terminal, valid


@pytest.fixture(autouse=True)
def store(tmp_path: Path) -> Path:
    """A store with two sessions, each of which waits for a person."""
    with eventlog.open(tmp_path / "store") as made:
        for name in ("ses_one", "ses_two"):
            session = made.create_session(id=name)
            session.user("drop it")
            with session.assistant("a/b") as reply:
                reply.tool("drop", call_id="c1", id=f"prt_{name}").ask("no undo", input={"name": name})
    return tmp_path / "store"


def test_what_waits_is_listed_and_answered(cli: Cli, store: Path) -> None:
    """`answer` names the call by its part, its end or its id; the first answer counts."""
    listed = cli("asked", "--json")
    valid("asked", listed.json)
    assert [call["session"] for call in listed.json["calls"]] == ["ses_one", "ses_two"]
    assert "no undo" in cli("asked", "ses_one").out
    assert "asked" in cli("sessions").out
    done = cli("answer", "ses_one", "prt_ses_one", "--allow", "--by", "ann", "--json")
    assert done.json["by"] == "ann"
    valid("answer", done.json)
    again = cli("answer", "ses_one", "prt_ses_one", "--allow", "--json")
    assert again.json["version"] == done.json["version"]
    refused = cli("answer", "ses_one", "prt_ses_one", "--deny")
    assert (refused.code, "'ann'" in refused.err) == (Exit.USAGE, True)
    denied = cli("answer", "ses_two", "c1", "--deny", "--reason", "not today")
    assert "denied" in denied.out
    with eventlog.open(store, read_only=True) as opened:
        (event,) = [
            each.event
            for each in opened.session("ses_two").events()
            if isinstance(each.event, eventlog.events.CallAnswered)
        ]
        assert (event.verdict, event.reason) == ("deny", "not today")
    assert cli("asked", "--json").json == {"calls": []}
    assert "answered" in cli("timeline", "ses_two").out
    assert "not today" in cli("show", "ses_two").out
    for name in ("c1", "ses_two", "prt_ses_two"):  # the one asked last is meant, once none waits
        late = cli("answer", "ses_two", name, "--allow")
        assert (late.code, "answered with deny" in late.err) == (Exit.USAGE, True)
        assert cli("answer", "ses_two", name, "--deny", "--reason", "not today").code == Exit.OK


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["ses_one", "c1"], Exit.USAGE),
        (["ses_one", "c1", "--allow", "--deny"], Exit.USAGE),
        (["ses_one", "c1", "--allow", "--reason", "x"], Exit.USAGE),
        (["ses_one", "c1", "--edit", "[1]"], Exit.USAGE),
        (["ses_one", "c9", "--allow"], Exit.MISSING),
        (["ses_nine", "c1", "--allow"], Exit.MISSING),
    ],
)
def test_a_wrong_answer_changes_nothing(cli: Cli, words: list[str], code: int) -> None:
    """A wrong answer is told, and the call waits on."""
    assert cli("answer", *words).code == code
    assert len(cli("asked", "--json").json["calls"]) == 2


def test_an_empty_list_is_said_to_be_empty(store: Path, tmp_path: Path) -> None:
    """On a terminal a list without an entry is a sentence, not a blank line."""
    with eventlog.open(tmp_path / "empty"):
        pass
    assert on_terminal("--store", tmp_path / "empty", "asked")[1].strip() == "no call waits for a person"
    assert on_terminal("--store", tmp_path / "empty", "sessions")[1].strip() == "no session is in the list"
    assert "no undo" in on_terminal("--store", store, "asked")[1]


def test_a_session_without_open_work_is_not_read(cli: Cli, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it is known which sessions have open work, a list of all calls reads no other."""
    with eventlog.open(store) as opened:
        for number in range(20):
            done = opened.create_session(id=f"done_{number}")
            done.user("hello")
            with done.assistant("a/b") as reply:
                reply.add_text("hi")
                reply.finish()
            done.rename("Greetings")
        opened.unfinished()
    read: list[Reader] = []

    def reading(reader: Reader) -> Work:
        read.append(reader)
        return open_work(reader)

    monkeypatch.setattr("eventlog.session.status.open_work", reading)
    assert len(cli("asked", "--json").json["calls"]) == 2
    assert read == []
