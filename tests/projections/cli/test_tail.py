"""`eventlog tail`: the newest messages, and what happens then in another process."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import eventlog
from projections.cli.exits import Exit
from tests.support.cli_runner import ROOT, Cli, valid


def test_the_newest_messages(cli: Cli, store: Path) -> None:
    """`tail` prints the newest N messages, and with --json the newest N events."""
    assert store
    assert cli("tail", "ses_a1").out == cli("show", "ses_a1").out
    assert "The tests fail" not in cli("tail", "ses_a1", "-n", 1).out
    assert cli("tail", "ses_a1", "-n", 0).out == ""
    lines = cli("tail", "ses_a1", "-n", 3, "--json").out.splitlines()
    assert len(lines) == 3
    for line in lines:
        valid("events", json.loads(line))
    assert json.loads(lines[-1])["version"] == cli("view", "ses_a1", "--json").json["version"]


def test_following_another_process(store: Path) -> None:
    """`tail --follow` prints what another process commits, as it streams, until Ctrl-C."""
    command = [sys.executable, "-m", "projections", "--store", str(store), "tail", "ses_a1", "-n", "1", "--follow"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as tail:
        assert tail.stdout is not None
        assert tail.stdout.readline().startswith("assistant  version ")
        with eventlog.open(store) as opened:
            session = opened.session("ses_a1")
            session.user("And now?")
            with session.assistant(model="acme/one") as reply:
                text = reply.stream_text()
                for piece in ("It ", "\x1b[2Jstreams"):
                    text.append(piece)
                reply.tool("bash", call_id="c9", input={"command": "ls"}).fail("no such file")
                reply.finish("stop")
            session.rollback(2)
        seen: list[str] = []
        while not seen or "rolled back" not in seen[-1]:
            seen.append(tail.stdout.readline())
            assert tail.poll() is None, (seen, tail.stderr and tail.stderr.read())
        tail.send_signal(signal.SIGINT)
        assert tail.wait(30) == Exit.INTERRUPTED
    said = "".join(seen)
    for words in ("And now?\n", "It ␛[2Jstreams\n", '-> bash {"command":"ls"}\n', "<! no such file\n"):
        assert words in said
    assert "(rolled back to version 2)\n" in said
