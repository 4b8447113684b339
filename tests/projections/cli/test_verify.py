"""`eventlog verify`: a sound store passes, and damage is named."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import lmdb
import pytest

import eventlog
from eventlog.log.memory import MemoryLog
from projections.cli.exits import Exit
from projections.transcript.transcript import TranscriptProjection
from projections.verify.deep_checks import deep_checks
from projections.verify.streams import Problem, StreamChecks
from tests.support.cli_runner import ROOT, Cli, on_terminal, valid
from tests.support.verifying import report_of


def test_verify_of_a_sound_store(cli: Cli, store: Path) -> None:
    """A sound store passes with every event and body read."""
    document = cli("verify", "--json")
    assert document.code == Exit.OK
    valid("verify", document.json)
    assert document.json["sound"] is True
    first = next(entry for entry in document.json["sessions"] if entry["id"] == "ses_a1")
    with eventlog.open(store, read_only=True) as opened:
        assert first["events"] == first["version"] == opened.session("ses_a1").version
    assert first["bodies"] == 1
    assert "all sound" in cli("verify", "ses_a1").out


def _damage(store: Path) -> None:
    """Change a byte of the largest stored value."""
    with lmdb.open(str(store / "1" / "lmdb"), max_dbs=32) as environment:
        data = environment.open_db(b"data", create=False)
        with environment.begin(write=True) as transaction:
            key, value = max(transaction.cursor(data), key=lambda item: len(item[1]))
            middle = len(value) // 2
            changed = value[:middle] + bytes([value[middle] ^ 1]) + value[middle + 1 :]
            transaction.put(key, changed, db=data)


@pytest.mark.parametrize("damaged", [False, True])
@pytest.mark.parametrize("reader", ["pipe", "pager"])
@pytest.mark.parametrize("command", ["verify", "verify --json"])
def test_the_verdict_is_the_exit_code_for_any_reader(store: Path, command: str, reader: str, *, damaged: bool) -> None:
    """A reader that has left before the first line changes no verdict, and is no error."""
    if damaged:
        _damage(store)
    arguments = ["--store", str(store), *command.split()]
    expected = Exit.FAULTS if damaged else Exit.OK
    if reader == "pager":
        code, said = on_terminal(*arguments, variables={"PAGER": "true"})
        assert (code, "Error" in said, "eventlog:" in said) == (expected, False, False)
        return
    reading, writing = os.pipe()
    os.close(reading)
    program = [sys.executable, "-m", "projections", *arguments]
    ended = subprocess.run(program, cwd=ROOT, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (expected, "")


@pytest.mark.promise(12)
def test_verify_finds_damage(cli: Cli, store: Path) -> None:
    """A changed byte in the events ends with exit code 1 and names the sessions."""
    with eventlog.open(store) as opened:
        opened.create_session(id="ses_c3")
    _damage(store)
    answer = cli("verify", "--json")
    assert answer.code == Exit.FAULTS
    valid("verify", answer.json)
    assert [entry["id"] for entry in answer.json["sessions"] if not entry["sound"]] == ["ses_a1", "ses_b2"]
    assert "ses_a1" in cli("verify").out
    assert cli("show", "ses_a1").code == Exit.DAMAGED
    assert cli("show", "ses_c3").code == Exit.OK


def test_a_store_that_cannot_be_read_at_all_has_a_fault(cli: Cli, store: Path) -> None:
    """The last line counts faults of the store where no session could be read."""
    with eventlog.open(store):
        pass
    pages = store / "1" / "lmdb" / "data.mdb"
    data = bytearray(pages.read_bytes())
    data[2 * 4096 :] = b"\xff" * (len(data) - 2 * 4096)
    pages.write_bytes(data)
    found = cli("verify")
    assert found.code != Exit.OK
    assert "0 with faults" not in found.out


def test_the_bar_of_a_terminal_goes_over_the_sessions(store: Path) -> None:
    """A store of many sessions has one bar: one for each takes five times the check."""
    _, shown = on_terminal("--store", store, "verify")
    assert "verify" in shown
    assert "ses_a1" not in shown


def test_verify_finds_a_wrong_body_and_a_wrong_fold() -> None:
    """A changed body is named by version, and so is a projection that differs from live."""

    class Forgetful(TranscriptProjection):
        name = "forgetful"

        def __init__(self) -> None:
            self.folds = 0

        def initial(self) -> Any:
            self.folds += 1
            state = super().initial()
            state.header = str(self.folds)
            return state

    with eventlog.open("memory:") as store:
        session = store.create_session()
        session.user("y" * 5000)
        assert report_of(store, session.id, deep=True).sound
        head, wrong = store.log.head(session.id), list[Problem]()
        assert head is not None
        check = StreamChecks(store, [session.id]).of(head)
        for compare in deep_checks(session, check, head, [Forgetful()], session.version):
            compare(wrong)
        assert [problem.problem for problem in wrong] == ["forgetful: replay differs from live"]
        assert isinstance(store.log, MemoryLog)
        bodies = store.log._bodies
        (digest,) = bodies
        bodies[digest] = b"\x00" + b"z" * 5000
        (problem,) = report_of(store, session.id).problems
        assert problem.version == 3
        assert digest.hex() in problem.problem
