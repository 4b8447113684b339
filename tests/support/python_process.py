"""Run a few lines of Python as a program that imports from the checkout."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def printed(program: str, *arguments: object, seconds: float = 60) -> str:
    """Output of a program, which has to succeed in time."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=seconds, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Program:
    """A program that is talked to line by line, and has to succeed."""

    def __init__(self, *arguments: object) -> None:
        command = [sys.executable, *map(str, arguments)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe, text=True)

    def hear(self) -> str:
        """The next line of the program."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def tell(self, line: str) -> None:
        """Give the program a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def end(self, seconds: float = 300) -> str:
        """Let the program end; return what it printed since."""
        printed, errors = self._process.communicate(timeout=seconds)
        assert self._process.returncode == 0, errors[-2_000:]
        return printed


def raced(programs: Sequence[Program]) -> list[str]:
    """Let programs go on at once when all are ready; return what each printed."""
    assert {program.hear() for program in programs} == {"ready"}
    for program in programs:
        program.tell("go")
    return [program.end() for program in programs]
