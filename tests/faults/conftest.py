"""Fixtures of the tests of faults."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.support.faults.encrypted_stores import is_large
from tests.support.faults.planned_appends import scratch
from tests.support.faults.tracing import may_trace


@pytest.fixture
def tracing() -> None:
    """Skip where a process may not trace its children."""
    if not may_trace():
        pytest.skip("needs Linux on x86-64 or AArch64, and the right to trace a child process")


@pytest.fixture(scope="session")
def large_places() -> Generator[Callable[[str], Path]]:
    """A directory per kind of large store, for the whole run: such stores are made once."""
    with TemporaryDirectory() as directory:
        yield lambda kind: _made(Path(directory) / kind.replace(" ", "-"))


def _made(path: Path) -> Path:
    path.mkdir(exist_ok=True)
    return path


@pytest.fixture
def place_of(large_places: Callable[[str], Path]) -> Generator[Callable[[str], Path]]:
    """A directory for stores of a kind: in memory and empty, unless the stores are large."""
    with ExitStack() as stack:
        yield lambda kind: large_places(kind) if is_large(kind) else stack.enter_context(scratch())
