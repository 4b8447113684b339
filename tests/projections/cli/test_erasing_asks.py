"""Nothing is erased without a yes; obstacles are named all at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import eventlog
from projections.cli.exits import Exit
from tests.support.cli_runner import ROOT, Cli, on_terminal, valid


@pytest.mark.parametrize("command", ["erase ses_b2", "expire --count 0", "redact ses_a1 PART"])
def test_without_a_terminal_a_yes_is_needed(cli: Cli, store: Path, command: str) -> None:
    """A command that erases is refused without --yes where it cannot ask, and changes nothing."""
    assert store
    part = cli("show", "ses_a1", "--json").json["messages"][0]["parts"][0]["id"]
    words = command.replace("PART", part).split()
    before = cli("head").out
    refused = cli(*words)
    assert (refused.code, "give --yes" in refused.err, refused.out) == (Exit.USAGE, True, "")
    assert cli("head").out == before
    assert cli(*words, "--yes").code == Exit.OK
    assert cli("head").out != before


@pytest.mark.parametrize(("typed", "code"), [("y\n", Exit.OK), ("n\n", Exit.USAGE), ("\n", Exit.USAGE)])
def test_on_a_terminal_it_asks(cli: Cli, store: Path, typed: str, code: Exit) -> None:
    """A terminal is told what goes, and asked; anything but yes erases nothing."""
    answered, drawn = on_terminal("--store", store, "erase", "ses_a1", typed=typed)
    assert answered == code
    assert "1 session will be erased" in drawn
    assert "ses_a1  Fix it, 2 messages" in drawn
    assert (cli("show", "ses_a1").code == Exit.MISSING) == (code is Exit.OK)


def test_obstacles_are_named_at_once(cli: Cli, store: Path) -> None:
    """Forks, sub-sessions and a running program are in one line, each with what removes it."""
    with eventlog.open(store) as opened:
        session = opened.session("ses_a1")
        session.fork(id="a-fork")
        session.subsession(id="a-sub")
        with session.lease():
            refused = cli("erase", "ses_a1", "--yes")
    assert refused.code == Exit.USAGE
    for words in (
        "it has 1 fork (a-fork): give --forks keep or cascade",
        "it has 1 sub-session (a-sub): give --subsessions keep or cascade",
        f"ses_a1 is run by process {os.getpid()} (",
        ": stop that program",
    ):
        assert words in refused.err
    done = cli("erase", "ses_a1", "--yes", "--forks", "keep", "--subsessions", "cascade", "--json").json
    assert set(done["erased"]) == {"ses_a1", "a-sub"}
    assert cli("show", "a-fork").code == Exit.OK


HOLDER = """
import sys, eventlog
store = eventlog.open(sys.argv[1])
session = store.session("ses_a1")
session.user("Where is the invoice?")
with session.assistant(model="acme/one") as reply:
    reply.stream_text().append("I look")
    session.flush()
    print("answering", flush=True)
    sys.stdin.read()
"""


def test_who_is_at_work_is_named(cli: Cli, store: Path, tmp_path: Path) -> None:
    """A busy session names process, program, host, question and time of the holder."""
    script = tmp_path / "worker.py"
    script.write_text(HOLDER)
    with subprocess.Popen(
        [sys.executable, str(script), str(store)],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "answering\n"
        run_by = cli("rollback", "ses_a1", "--to", 1)
        beside = cli("vacuum")
        listed = on_terminal("--store", store, "sessions")[1]
        counted, document = cli("stats", "ses_a1"), cli("stats", "ses_a1", "--json").json
    assert (run_by.code, beside.code) == (Exit.BUSY, Exit.OK)
    assert f"session ses_a1 is run by process {other.pid} (python" in run_by.err
    assert " worker.py, since " in run_by.err
    assert "which answers 'Where is the invoice?' in msg_" in run_by.err
    assert "run the command again" in run_by.err
    assert "running" in listed
    valid("stats", document)
    assert document["session"]["run_by"].startswith(f"process {other.pid} (python")
    assert f"run by\t{document['session']['run_by']}\n" in counted.out
    assert cli("stats", "ses_a1", "--json").json["session"]["run_by"] is None
