"""The commands that the page prints: each runs in a shell as it is copied."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import eventlog
from eventlog.events import CallAnswered
from eventlog.session.session import Session
from eventlog.store import Store
from projections.inspector.asked import AskedCalls
from tests.support.encrypted_store import Service
from tests.support.postgres_server import give_back, new_place

_TABLES = ('{"table":"old"}', '{"table":"旧"}', '{"table":"\u202eold; echo \'x\'","note":"$HOME"}')


def _ask(session: Session) -> None:
    """Ask for three calls whose ids and arguments a shell could take for something else."""
    session.user("drop them")
    with session.assistant("acme/one", id="m") as reply:
        for number, given in enumerate(_TABLES):
            call = reply.tool("drop", call_id=f"c{number}", id=f"-part '{number}' $(id)")
            call.stream_input(given)
            call.ask("it cannot be undone")


def _commands(store: Store, scope: str | None = None) -> list[list[str]]:
    listed: list[dict[str, Any]] = AskedCalls(store, answers=False, scope=scope).listed({"session": "a b~"})["calls"]
    return [call["commands"] for call in listed]


def _run(command: str, elsewhere: Path) -> str:
    line = command.replace("eventlog", f"{shlex.quote(sys.executable)} -m eventlog", 1)
    done = subprocess.run(["sh", "-c", line], cwd=elsewhere, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


@pytest.mark.parametrize("engine", ["directory", "encrypted", "postgres"])
def test_a_printed_command_answers(engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell hands allow, deny and edit on as they are, with strange names and arguments."""
    monkeypatch.chdir(tmp_path)
    Path("else where").mkdir()
    server = new_place() if engine == "postgres" else None
    place = "it's a store" if server is None else server.replace("postgres@", "postgres:s3cret@")
    keys = tmp_path / "my keys" if engine == "encrypted" else None
    try:
        with eventlog.open(place, keys=keys) as store:
            _ask(store.create_session(id="a b~"))
        with eventlog.open(place, keys=keys, read_only=True) as store:
            commands = [each[at] for at, each in enumerate(_commands(store))]
        for command in commands:
            assert command.isprintable()
            assert "s3cret" not in command
            assert "(version" in _run(command, tmp_path / "else where")
        with eventlog.open(place, keys=keys, read_only=True) as store:
            events = [known.event for known in store.session("a b~").events()]
        given = [(one.verdict, one.reason, one.by, one.edit) for one in events if isinstance(one, CallAnswered)]
        assert given[:2] == [("allow", "", "NAME", None), ("deny", "WHY", "NAME", None)]
        assert given[2][0] == "allow"
        assert json.loads(str(given[2][3])) == json.loads(_TABLES[2])
    finally:
        if server is not None:
            give_back(server)


def test_no_command_is_printed_that_opens_nothing(tmp_path: Path) -> None:
    """A store in memory, one whose keys are in no file, and a tenant's page have no command."""
    for name, keys, scope in (
        ("memory:", None, None),
        (tmp_path / "kms", Service(), None),
        (tmp_path / "plain", None, "acme"),
    ):
        with eventlog.open(name, keys=keys) as store:
            _ask(store.create_session(id="a b~"))
            assert _commands(store, scope) == [[], [], []]
