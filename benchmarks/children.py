"""Measure in a process of its own: import times, memory.

A process that has imported or allocated before cannot measure them. A child is a snippet of Python
that prints one JSON value; it imports from where this process does, and uses compiled modules as an
installed package does. A worker is a process that stays and answers questions.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Any, Self

import msgspec

__all__ = ["Worker", "child", "processor_time", "run_time"]

_ROOT = str(Path(__file__).resolve().parents[1])


def child(code: str, *arguments: str) -> Any:
    """Run a snippet in a new process and return the JSON value it prints.

    The snippet finds `arguments` in `sys.argv[1:]`. `CalledProcessError` if it fails.
    """
    ran = subprocess.run(
        [sys.executable, "-c", code, *arguments], check=True, stdout=subprocess.PIPE, env=_environment(), timeout=3600
    )
    return msgspec.json.decode(ran.stdout)


def run_time(*command: str) -> float:
    """Return the seconds from starting Python with these arguments to its end."""
    start = perf_counter()
    subprocess.run([sys.executable, *command], check=True, stdout=subprocess.DEVNULL, env=_environment(), timeout=600)
    return perf_counter() - start


def processor_time(*command: str) -> float:
    """Return the processor seconds of Python with these arguments, and of its children.

    A busy machine stretches them less than the time that a user waits.
    """

    def spent() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    before = spent()
    nothing = subprocess.DEVNULL
    subprocess.run(
        [sys.executable, *command], check=True, stdout=nothing, stderr=nothing, env=_environment(), timeout=600
    )
    return spent() - before


_ANSWERING = """
import json, sys
from importlib import import_module
with getattr(import_module(sys.argv[1]), sys.argv[2])(*sys.argv[3:]) as answer:
    print(flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
"""


class Worker:
    """A process that answers questions, one at a time; closing it ends it in order."""

    def __init__(
        self, prepare: Callable[..., AbstractContextManager[Callable[[Any], object]]], *arguments: str
    ) -> None:
        """Start the process and wait until its `prepare` has returned."""
        self._process = subprocess.Popen(
            [sys.executable, "-c", _ANSWERING, prepare.__module__, prepare.__qualname__, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=_environment(),
        )
        self._line()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._process.communicate(timeout=60)
        finally:
            self._process.kill()
            self._process.wait()

    def ask(self, asked: object = None) -> Any:
        """Ask, and wait for the answer; question and answer are JSON values."""
        self.send(asked)
        return self.receive()

    def send(self, asked: object = None) -> None:
        """Ask without waiting; `receive` must be called before the next question."""
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(asked) + b"\n")
        self._process.stdin.flush()

    def receive(self) -> Any:
        """Wait for the answer to the last `send`."""
        return msgspec.json.decode(self._line())

    def _line(self) -> bytes:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise subprocess.CalledProcessError(self._process.wait(), self._process.args)
        return line


def _environment() -> dict[str, str]:
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**variables, "PYTHONPATH": os.pathsep.join(filter(None, (_ROOT, os.environ.get("PYTHONPATH"))))}
