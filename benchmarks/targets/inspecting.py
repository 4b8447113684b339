"""The first answers of an inspector that has just begun: a long session, many sessions."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from urllib.parse import quote
from urllib.request import urlopen

from benchmarks.engine import opened
from benchmarks.figures import Case, Figure, Measurement, Setting, Target
from benchmarks.history import EVENTS_A_TURN, begun, small_turns
from benchmarks.measure import Samples
from benchmarks.targets.lists import A_SCOPE, fill

__all__ = ["CASES"]

OPEN, FIRST_ROWS = 2_000.0, 500.0
"""Milliseconds."""


@contextmanager
def _serving(path: Path) -> Generator[str]:
    """Serve a store in a new process; yields its address."""
    command = [sys.executable, "-u", "-m", "eventlog", "--store", str(path), "serve", "--no-open", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield next(word for word in process.stdout.readline().split() if word.startswith("http"))
        finally:
            process.terminate()


def _asked(address: str, *names: str) -> float:
    """Return the milliseconds until all these answers are there."""
    start = perf_counter()
    for name in names:
        with urlopen(f"{address}{name}") as answer:  # noqa: S310 - our own server
            assert answer.read()
    return (perf_counter() - start) * 1_000


def _inspecting(setting: Setting) -> dict[str, Measurement]:
    """Ask new servers for the newest page of a session, and for the newest sessions."""
    with opened(setting.directory, "inspected-long") as store:
        name = quote(begun(store, small_turns(setting.sizes.events[-1] // EVENTS_A_TURN)))
    with opened(setting.directory, "inspected-many") as store:
        fill(store, max(setting.sizes.sessions, A_SCOPE))
    with opened(setting.directory, "inspected-unread") as store:
        fill(store, max(setting.sizes.sessions, A_SCOPE), known=False)
    page, again, rows, found = Samples(), Samples(), Samples(), Samples()
    for _ in range(setting.sizes.rounds):
        with _serving(setting.directory / "inspected-long") as address:
            asked = ("", f"api/session?session={name}", f"api/messages?session={name}&size=30")
            page.add([_asked(address, *asked)])
            again.add([_asked(address, *asked)])
        with _serving(setting.directory / "inspected-many") as address:
            rows.add([_asked(address, "", "api/sessions?limit=50")])
        with _serving(setting.directory / "inspected-unread") as address:
            found.add([_asked(address, "", "api/sessions?limit=50&state=unfinished")])
    return {
        "inspect.open": Measurement(page.median, OPEN),
        "inspect.again": Measurement(again.median, OPEN),
        "inspect.rows": Measurement(rows.median, FIRST_ROWS),
        "inspect.unfinished": Measurement(found.median, FIRST_ROWS),
    }


CASES = (
    Case(
        "inspect",
        (
            Figure("inspect.open", "newest page of a long session, of a new server", "ms", "2 s", Target("<=", 1)),
            Figure("inspect.again", "the same page once more", "ms", "2 s", Target("<=", 1)),
            Figure("inspect.rows", "first of thousands of sessions, of a new server", "ms", "500 ms", Target("<=", 1)),
            Figure("inspect.unfinished", "first unfinished ones of these, all unread", "ms", "500 ms", Target("<=", 1)),
        ),
        _inspecting,
    ),
)
