"""The program as a whole: its start, its help, its version."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

from projections.cli.exits import Exit
from projections.cli.registry import COMMANDS, Commands
from tests.support import cli_runner
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
    assert not {"rich", "eventlog", "lmdb", "msgspec", "tiktoken", "asyncio"} & loaded("--help")


def test_help_says_what_the_commands_say() -> None:
    """The command list loads no command and repeats the first sentence of each one's help."""
    commands: Any = Commands(name="eventlog").commands
    assert {name: command.get_short_help_str(1_000) for name, command in commands.items()} == {
        name: entry.help for name, entry in COMMANDS.items()
    }
    assert sorted(COMMANDS) == sorted(cli_runner.COMMANDS)


def test_a_command_loads_its_own_module_only() -> None:
    """A command loads its own module and no other command's."""
    own = {name.rpartition(".")[2] for name in loaded("fork", "--help") if name.startswith("projections.cli.")}
    assert own & {entry.module for entry in COMMANDS.values()} == {"history"}


def test_version_and_no_arguments(cli: Cli) -> None:
    """`--version` names the program; a call without a command shows the help and fails."""
    assert re.fullmatch(r"eventlog(?: \d+\.\d+\.\d+|, not installed)\n", cli("--version").out)
    answer = cli()
    assert answer.code == Exit.USAGE
    assert "Commands:" in answer.err
