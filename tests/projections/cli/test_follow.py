"""`eventlog import --follow` and `--all`: programs that follow what agents write."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest

import eventlog
from eventlog.importers import import_file
from projections.cli.exits import Exit
from tests.eventlog.importers.test_follow import add, line, stored
from tests.support.cli_runner import ROOT, SCHEMAS, Cli, check_schema, on_terminal
from tests.support.inspector_server import serving


@contextmanager
def following(store: Path, *arguments: object) -> Generator[subprocess.Popen[str]]:
    """Run a program that follows; give it once it has looked at all."""
    command = [sys.executable, "-m", "projections", "--store", str(store), "import", "--follow", *map(str, arguments)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        assert program.stderr is not None
        try:
            while "following" not in (said := program.stderr.readline()):
                assert said, "it ended"
            yield program
        finally:
            program.kill()


def test_what_comes_is_printed_until_it_is_interrupted(tmp_path: Path) -> None:
    """Each change is a line; Ctrl-C ends the program as it ends the others that follow."""
    folder = tmp_path / "sessions"
    folder.mkdir()
    path = folder / "a.jsonl"
    with following(tmp_path / "store", folder) as program:
        assert program.stdout is not None
        add(path, line(1), line(2)[:40])
        assert "1 message, 1 part" in program.stdout.readline()
        add(path, line(2)[40:])
        assert "2 messages, 2 parts" in program.stdout.readline()
        program.send_signal(signal.SIGINT)
        assert program.wait(30) == Exit.INTERRUPTED


def test_changes_as_json(tmp_path: Path) -> None:
    """With --json each change is an object on a line, as `import --json` lists files."""
    path = tmp_path / "a.jsonl"
    path.write_text(line(1))
    schema = SCHEMAS["import"]["properties"]["files"]["items"]
    check_schema(schema)
    with following(tmp_path / "store", path, "--json") as program:
        assert program.stdout is not None
        add(path, line(2))
        entries = [json.loads(program.stdout.readline()) for _ in range(2)]
    assert [entry["messages"] for entry in entries] == [1, 2]
    assert all(entry.keys() >= set(schema["required"]) for entry in entries)


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_two_programs_of_which_one_ends(tmp_path: Path, end: signal.Signals) -> None:
    """Two programs follow one file and one is ended: each record is there once."""
    path, store = tmp_path / "a.jsonl", tmp_path / "store"
    path.write_text(line(1))
    with following(store, path) as one, following(store, path) as two:
        assert two.stdout is not None
        for number in range(2, 40):
            add(path, line(number))
            if number == 20:
                one.send_signal(end)
        said = ""
        while "39 messages" not in said:
            said = two.stdout.readline()
            assert said, "it ended"
        assert one.wait(30) == {signal.SIGINT: Exit.INTERRUPTED}.get(end, -end)
        with eventlog.open(store) as opened, eventlog.open(tmp_path / "fresh") as fresh:
            import_file(fresh, path)
            assert stored(opened) == stored(fresh)
            assert import_file(opened, path).events == 0


def test_the_inspector_shows_a_followed_session_live(tmp_path: Path) -> None:
    """A line that an agent writes reaches the stream of the inspector's page."""
    path, store = tmp_path / "a.jsonl", tmp_path / "store"
    path.write_text(line(1, "the first words"))
    with (
        following(store, path),
        serving(store) as address,
        urlopen(f"{address.rstrip('/')}/live/s/live?limit=2", timeout=60) as stream,  # noqa: S310  # this machine
    ):
        assert any(b"the first words" in found for found in stream)
        add(path, line(2, "words that came live"))
        assert any(b"words that came live" in found for found in stream)


def test_agents_sessions_are_listed_and_asked_about(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`import --all` lists what it finds and asks; --yes answers; nothing is read before."""
    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    for variable in (
        "CLAUDE_CONFIG_DIR",
        "CODEX_HOME",
        "GEMINI_CLI_HOME",
        "QWEN_HOME",
        "QWEN_RUNTIME_DIR",
        "XDG_DATA_HOME",
    ):
        monkeypatch.delenv(variable, raising=False)
    none = cli("import", "--all", "--yes")
    assert none.code == Exit.USAGE
    assert "no agent has sessions" in none.err
    path = home / ".claude/projects/p/a.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(line(1))
    refused = cli("import", "--all")
    assert refused.code == Exit.USAGE
    assert "--yes" in refused.err
    store = tmp_path / "asked"
    code, shown = on_terminal("--store", store, "import", "--all", typed="n\n")
    assert code == Exit.USAGE
    assert "Claude Code: 1 file" in shown
    assert "nothing was imported" in shown
    assert not store.exists()
    code, shown = on_terminal("--store", store, "import", "--all", typed="y\n")
    assert code == Exit.OK
    assert "1 message" in shown
    assert "Claude Code: 1 file" in cli("import", "--all", "--yes").err
    assert cli("import", "--all", "--yes", "--json").json["unchanged"] == 1


def test_what_cannot_be_followed_is_said(cli: Cli) -> None:
    """Nothing, and standard input, cannot be followed."""
    assert "--all" in cli("import", "--follow").err
    answer = cli("import", "--follow", "-")
    assert (answer.code, "standard input" in answer.err) == (Exit.USAGE, True)
