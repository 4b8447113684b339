"""Hostile names are made visible, and a line stays a line, in every command."""

from __future__ import annotations

import json
import logging
import re
from decimal import Decimal
from pathlib import Path

import pytest

import eventlog
from eventlog import events as ev
from eventlog.values import Attachment, MessageError
from projections.cli import output
from projections.cli.exits import Exit
from tests.support.cli_runner import STREAM, Answer, Cli, on_terminal

EVIL = "x\x1b]0;y\x07\x1b[2J\x9b31m\x85\u2028\u2029\u202e\u2066\u200f\u061c\r\n\tforged line\x0b\x0c\x7fz"
"""Everything that a terminal, or a reader of lines, might obey."""
PLAIN = "x forged line z"
HARM = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u206f]")
OWN = re.compile(r"\x1b\[[?0-9;]*[A-Za-z]|\r\n?")
"""Sequences of the program itself: colours, line ends, and bars that are drawn again."""
READING = [
    "sessions",
    "sessions --limit 1",
    "sessions --scope NAME",
    "show a/NAME",
    "show a/NAME --limit 2",
    "view a/NAME",
    "view a/NAME --format openai-chat",
    "view a/NAME --format anthropic",
    "view a/NAME --model acme",
    "view a/NAME --capabilities NAME",
    "events a/NAME",
    "window a/NAME",
    "window a/NAME --model NAME --context 9000",
    "prune a/NAME --dry-run --context 9000",
    "recall a/NAME part1/NAME",
    "recall a/NAME part1/NAME --lines 1-2",
    "recall a/NAME part1/NAME --search some",
    "recall a/NAME no/NAME",
    "recall a/NAME --covered NAME",
    "stats",
    "stats a/NAME",
    "verify",
    "verify a/NAME",
    "verify no/NAME",
    "head",
    "head --json",
    "prove a/NAME --version 3",
    "prove a/NAME --version 3000",
    "audit a/NAME",
    "audit a/NAME --step 1",
    "diff a/NAME 2 9",
    "timeline a/NAME",
    "tail a/NAME",
    "tail a/NAME --limit 3 --json",
    "explain a/NAME part1/NAME",
    "explain a/NAME m2/NAME --at 3",
    "rollback a/NAME --before no/NAME",
    "export a/NAME --format markdown --output DIR/NAME.md",
    "export a/NAME --format NAME",
    "show NAME",
    "show a",
    "sessions --since NAME",
    "NAME",
    "show --NAME",
]
WRITING = [
    "fork a/NAME --at 2",
    "rollback a/NAME --to 4",
    "undo a/NAME",
    "compact a/NAME",
    "redact a/NAME part1/NAME --reason NAME --yes",
    "backup DIR/backup-NAME",
    "restore DIR/backup-NAME --into DIR/restored-NAME",
    "restore DIR/none-NAME --into DIR/no-NAME",
    "repair --into DIR/repaired-NAME",
    "repair --into DIR/repaired-NAME",
    "erase a/NAME --reason NAME",
    "erase a/NAME --forks keep --subsessions keep",
    "erase a/NAME --forks keep --subsessions keep --reason NAME --yes",
    "show a/NAME",
    "expire --count 0 --scope NAME --yes",
    "import DIR/NAME.sse",
    "import DIR/none-NAME",
    "import DIR/NAME.sse DIR/bad-NAME",
    "scrub",
    "vacuum",
]
"""In this order, each on what the one before has left."""


def fill(directory: Path, name: str) -> None:
    """Files of this name, and a store that has it wherever a name is possible."""
    (directory / f"{name}.sse").write_text(STREAM)
    (directory / f"bad-{name}").write_text("no format at all")
    with eventlog.open(directory / "store") as store:
        session = store.create_session(
            id=f"a/{name}", title=f"{name}\0", scope=name, directory=name, agent=name, model=f"{name}/{name}"
        )
        store.create_session(id=f"a2/{name}", title=name, parent=session.id).user("and here")
        files = [eventlog.File(name, "data:,x", name)]
        session.user("some question", id=f"m1/{name}", files=files, agent=name)
        session.set_tools(json.dumps([{"type": "function", "function": {"name": name}}]))
        with session.assistant(model=f"{name}/{name}", id=f"m2/{name}", agent=name) as reply:
            reply.step()
            call = reply.tool(name, call_id=f"c/{name}", input={name: name}, id=f"part1/{name}")
            attached = (Attachment(name, "data:,x", name, f"att/{name}"),)
            call.succeed("some output\n" * 400, title=name, metadata=json.dumps({name: name}), attachments=attached)
            reply.tool(name, call_id=f"d/{name}", input="{}").fail("some failure")
            reply.add_text("some answer")
            usage = eventlog.Usage(eventlog.Tokens(9000, 20, 3), cost=Decimal("0.5"))
            reply.finish(name, usage=usage)
        session.fork(id=f"f/{name}", at=4, title=name).rename(name)
        reply = session.assistant(model=f"{name}/{name}", id=f"m3/{name}")
        with session.lease():
            session.executor.command([ev.SessionArchived()])
            session.executor.command([ev.SessionUnarchived()])
            with reply:
                reply.abort(MessageError(name, name))


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A store with plain names and one with hostile names, each beside a file of such a name."""
    found: dict[str, Path] = {}
    for name in (PLAIN, EVIL):
        found[name] = tmp_path_factory.mktemp("names")
        fill(found[name], name)
    return found


def words(command: str, directory: Path, name: str) -> list[str]:
    """The command with its names filled in."""
    return [word.replace("DIR", str(directory)).replace("NAME", name) for word in command.split()]


def compare(plain: Answer, evil: Answer, command: str) -> None:
    """Require equal code, lines and columns, and nothing that steers a terminal."""
    assert evil.code == plain.code, (command, plain, evil)
    assert evil.code != Exit.DEFECT
    assert not HARM.search(evil.out + evil.err), (command, HARM.findall(evil.out + evil.err))
    for said, wanted in ((evil.out, plain.out), (evil.err, plain.err)):
        assert said.count("\n") == wanted.count("\n"), (command, wanted, said)
        tabs = [line.count("\t") for line in wanted.split("\n")]
        assert [line.count("\t") for line in said.split("\n")] == tabs, command


def test_every_reading_command(stores: dict[str, Path], cli: Cli) -> None:
    """Hostile ids, titles, paths, tools and models leave lines and columns as they are."""
    shown = 0
    for command in READING:
        plain, evil = (cli("--store", place / "store", *words(command, place, name)) for name, place in stores.items())
        compare(plain, evil, command)
        shown += "forged line" in evil.out + evil.err
    assert shown > len(READING) // 2, "names are shown, not left out"


def test_every_writing_command(tmp_path: Path, cli: Cli) -> None:
    """Reports of writing commands, and errors, have the lines of a store with plain names."""
    places: dict[str, Path] = {}
    for name in (PLAIN, EVIL):
        places[name] = tmp_path / str(len(places))
        places[name].mkdir()
        fill(places[name], name)
    codes: set[int] = set()
    for command in WRITING:
        plain, evil = (cli("--store", place / "store", *words(command, place, name)) for name, place in places.items())
        compare(plain, evil, command)
        codes.add(evil.code)
    assert codes >= {Exit.OK, Exit.USAGE, Exit.MISSING}


@pytest.mark.parametrize(
    "command",
    [
        "sessions",
        "show a/NAME",
        "timeline a/NAME",
        "window a/NAME",
        "verify",
        "view a/NAME",
        "diff a/NAME 2 9",
        "tail a/NAME",
    ],
)
def test_on_a_terminal(stores: dict[str, Path], command: str) -> None:
    """On a terminal only the program's own escape sequences are printed."""
    place = stores[EVIL]
    code, drawn = on_terminal("--store", place / "store", *words(command, place, EVIL))
    assert code == Exit.OK, drawn
    rest = OWN.sub("", drawn).replace("\n", "")
    assert not HARM.search(rest), HARM.findall(rest)
    assert "\x1b[2J" not in drawn
    assert "\x1b]" not in drawn


def test_what_the_engine_logs_is_noted(capsys: pytest.CaptureFixture[str]) -> None:
    """A warning of the engine that names a session is one harmless line, too."""
    output.note_warnings()
    logging.getLogger("eventlog").warning("session %s: a flush failed", EVIL)
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "forged line" in told
    assert not HARM.search(told)


def test_what_is_said_keeps_its_lines(tmp_path: Path, cli: Cli) -> None:
    """Newlines and tabs of a text are printed, control characters made visible; JSON is exact."""
    with eventlog.open(tmp_path / "s") as store:
        session = store.create_session(id="s")
        session.user("one\n\ttwo\r\nthree\x1b[31m\x85four\ud800")
        with session.assistant(model="acme/one") as reply:
            reply.tool("t", call_id="c", input="{}").succeed("five\r\nsix\x0cseven\n")
            reply.finish("stop")
    said = cli("--store", tmp_path / "s", "show", "s", "--json").json["messages"][0]["parts"][0]["text"]
    assert said == "one\n\ttwo\r\nthree\x1b[31m\x85four\ud800"
    for command in ("show", "view"):
        drawn = on_terminal("--store", tmp_path / "s", command, "s")[1]
        assert not HARM.search(OWN.sub("", drawn).replace("\n", "").replace("\t", ""))
        assert "\x1b[31m" not in drawn
        answer = cli("--store", tmp_path / "s", command, "s")
        assert "one\n\ttwo\nthree␛[31m\\u0085four" in answer.out
        assert "<- five\n<- six␌seven\n" in answer.out
        assert "<- \n" not in answer.out
