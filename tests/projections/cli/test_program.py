"""The program as a whole: its start, its help, its version."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import eventlog
from projections.cli.exits import Exit
from projections.cli.registry import COMMANDS, GROUPS, load
from tests.support.cli_runner import ROOT, Cli, program


def loaded(*arguments: str) -> set[str]:
    """The modules that a command has loaded at its end."""
    script = (
        "import sys\nfrom projections.cli.app import run\nrun(sys.argv[1:])\nprint(*sys.modules, file=sys.stderr)\n"
    )
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=True)
    return set(done.stderr.split())


def test_help_loads_little() -> None:
    """`eventlog --help` is quick because it loads few modules."""
    assert program("--help").returncode == Exit.OK
    assert not {"rich", "eventlog", "lmdb", "msgspec", "tiktoken", "asyncio", "json"} & loaded("--help")


def test_a_pipe_needs_no_library_for_terminals(tmp_path: Path) -> None:
    """A command that prints tables to a pipe starts without the library that draws them."""
    with eventlog.open(tmp_path / "store") as store:
        store.create_session(id="ses_a1", title="漢" * 300)
    assert "rich" not in loaded("--store", str(tmp_path / "store"), "sessions")


def test_help_says_what_the_commands_say() -> None:
    """The help has each command with the first sentence of the command's own help."""
    assert {name: (load(name).help or "").partition("\n")[0] for name in COMMANDS} == COMMANDS


def test_the_help_fits_a_terminal(cli: Cli) -> None:
    """Each command has one line of at most 80 characters in the help."""
    lines = cli("--help").out.splitlines()
    for name, sentence in COMMANDS.items():
        (line,) = (line for line in lines if line.startswith(f"  {name} ") and line.endswith(f" {sentence}"))
        assert len(line) <= 80


def test_a_command_loads_its_own_file_only() -> None:
    """A command loads its own file and no other command's."""
    place = "projections.cli.commands."
    assert {name for name in loaded("fork", "--help") if name.startswith(place)} == {f"{place}going_back"}


def test_version_and_no_arguments(cli: Cli) -> None:
    """`--version` prints the version; a call without a command shows the help and fails."""
    assert re.fullmatch(r"eventlog(?: \d+\.\d+\.\d+|, not installed)\n", cli("--version").out)
    answer = cli()
    assert answer.code == Exit.USAGE
    assert all(f"{title}:" in answer.err for title in GROUPS)
