"""The program as a whole: its start, its help, its version."""

from __future__ import annotations

import re
import resource
import subprocess
import sys

from projections.cli.exits import Exit
from tests.cli.runner import ROOT, Cli, program


def test_help_is_quick() -> None:
    """`eventlog --help` takes at most 200 ms of processor time (best of five), and loads nothing that it does not need."""
    times: list[float] = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert program("--help").returncode == Exit.OK
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(times) <= 0.2
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
