"""The program as a whole: its start, its help, its version."""

from __future__ import annotations

import re
import subprocess
import sys

from projections.cli.exits import Exit
from tests.cli.runner import ROOT, Cli, program


def test_help_loads_little() -> None:
    """`eventlog --help` is quick because it loads nothing that it does not need."""
    assert program("--help").returncode == Exit.OK
    script = (
        "import sys\n"
        "from projections.cli.app import run\n"
        "run(['--help'])\n"
        "print(*sorted({'rich', 'eventlog', 'lmdb', 'msgspec', 'tiktoken', 'asyncio'} & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, text=True, capture_output=True, check=True)
    assert done.stderr.split() == []


def test_version_and_no_arguments(cli: Cli) -> None:
    """`--version` names the program; without a command the help is shown and the call is wrong."""
    assert re.fullmatch(r"eventlog(?: \d+\.\d+\.\d+|, not installed)\n", cli("--version").out)
    answer = cli()
    assert answer.code == Exit.USAGE
    assert "Commands:" in answer.err
