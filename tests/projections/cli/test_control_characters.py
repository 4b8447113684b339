"""Control characters in stored text are shown on a terminal, and never obeyed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import eventlog
from projections.cli.exits import Exit
from tests.support.cli_runner import Cli, on_terminal

EVIL = "red \x1b[31m\x9b2J\u202egnp.exe \x07 end"
"""A text that tries to steer the terminal."""
NAME = "a\x1b]0;PWN\x07[red]b[/x]\tc"
"""An id that does the same, and looks like markup."""


@pytest.fixture
def evil(tmp_path: Path) -> Path:
    """A store whose every text tries to steer the terminal."""
    path = tmp_path / "store"
    with eventlog.open(path) as opened:
        session = opened.create_session(id="evil", title=EVIL, scope=EVIL)
        session.user(EVIL + "\r\ud800")
        with session.assistant(model=EVIL) as reply:
            reply.tool(EVIL, call_id=EVIL, input=json.dumps({"a": EVIL}, ensure_ascii=False)).succeed(EVIL)
            reply.add_text(EVIL)
            reply.finish()
    return path


HARM = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@pytest.mark.parametrize("json_too", [False, True], ids=["text", "json"])
def test_control_characters_do_no_harm(cli: Cli, evil: Path, *, json_too: bool) -> None:
    """No command prints a control character of a conversation; JSON keeps the text exactly."""
    del evil
    for arguments in [["sessions"], ["show", "evil"], ["view", "evil"], ["events", "evil"], ["stats", "evil"]]:
        answer = cli(*arguments, *(["--json"] if json_too else []))
        assert answer.code == Exit.OK
        assert not HARM.search(answer.out), arguments
    assert cli("sessions", "--json").json["sessions"][0]["title"] == EVIL
    assert cli("show", "evil", "--json").json["messages"][0]["parts"][0]["text"] == EVIL + "\r\ud800"


def test_control_characters_do_no_harm_on_a_terminal(evil: Path) -> None:
    """On a terminal only the program's own colours get through."""
    for command in (["sessions"], ["show", "evil"], ["view", "evil"], ["stats", "evil"]):
        code, drawn = on_terminal("--store", evil, *command)
        assert code == Exit.OK
        own = re.sub(r"\x1b\[[0-9;]*m|\r\n", "", drawn)
        assert not HARM.search(own), command
        assert "\x1b[31m" not in drawn, command


def test_an_id_does_no_harm(cli: Cli, evil: Path) -> None:
    """An id with control characters and markup is made visible in cells and headers."""
    with eventlog.open(evil) as opened:
        opened.create_session(id=NAME).user("hello")
    for command in (["sessions"], ["show", NAME], ["stats", NAME], ["verify", NAME], ["fork", NAME]):
        answer = cli(*command)
        assert answer.code == Exit.OK
        assert not HARM.search(answer.out), command
        code, drawn = on_terminal("--store", evil, *command)
        assert code == Exit.OK, drawn
        own = r"\x1b\[[?0-9;]*[A-Za-z]|\r"
        assert not HARM.search(re.sub(own, "", drawn)), command
    assert "[red]b[/x]" in on_terminal("--store", evil, "stats", NAME)[1]
