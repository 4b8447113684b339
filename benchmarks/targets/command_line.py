"""The command line: its start, and reading a session or a page of a large store.

The start is compared with that of Python, in turn; all is processor time, which on an idle machine
is what a user waits. Each session of the store has a thousand events:
turns with a tool call, a streamed answer and its price.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import eventlog
from benchmarks.children import processor_time
from benchmarks.figures import Case, Figure, Measurement, Setting, Target
from benchmarks.measure import in_turn

__all__ = ["CASES"]

START = 5
"""Times `python -c pass` that `eventlog --help` may take."""
PATIENCE = 300.0
"""Milliseconds that a command which reads a session or a page may take."""
SESSIONS = 1_000
TURNS = 20
"""Turns of a session, of 50 events each."""
DELTAS = 38
COMMANDS = {
    "sessions": "sessions",
    "stats.store": "stats",
    "show": "show SESSION",
    "tail": "tail SESSION",
    "view": "view SESSION",
    "window": "window SESSION --context 200000",
    "timeline": "timeline SESSION",
    "stats": "stats SESSION",
    "diff": "diff SESSION 10 900",
    "events": "events SESSION",
    "audit": "audit SESSION",
}
"""The calls that are measured."""


def fill(path: Path, sessions: int) -> str:
    """Make a store of this many sessions; return the id of the last one."""
    last = ""
    with eventlog.open(path) as store:
        for number in range(sessions):
            session = store.create_session(title=f"Session {number}", scope=f"user {number % 20}")
            last = session.id
            for turn in range(TURNS):
                with session.pipeline():
                    session.user(f"Question {turn} of a conversation about the tests")
                    with session.assistant(model="acme/one") as reply:
                        reply.step()
                        call = reply.tool("bash", call_id=f"c{turn}", input={"command": f"pytest -k {turn}"})
                        call.succeed(f"line {turn} of the output\n" * (turn * 10 + 1))
                        text = reply.stream_text()
                        for delta in range(DELTAS):
                            text.append(f"word {delta} ")
                        usage = eventlog.Usage(eventlog.Tokens(1_000 + turn, 60), Decimal("0.003"))
                        reply.finish("stop", usage=usage)
    return last


def _started(*words: str) -> Callable[[], list[float]]:
    return lambda: [processor_time("-m", "projections", *words)]


def _commands(setting: Setting) -> dict[str, Measurement]:
    path = setting.directory / "command-line"
    session = fill(path, min(SESSIONS, setting.sizes.sessions))
    sides: dict[str, Callable[[], list[float]]] = {
        "python": lambda: [processor_time("-c", "pass")],
        "help": _started("--help"),
    }
    for name, call in COMMANDS.items():
        sides[name] = _started("--store", str(path), *call.replace("SESSION", session).split())
    samples = in_turn(sides, setting.sizes.rounds)
    of_python = samples["python"].median * 1e3
    found = {"commands.start": Measurement(samples["help"].median * 1e3, of_python)}
    return found | {f"commands.{name}": Measurement(samples[name].median * 1e3, PATIENCE) for name in COMMANDS}


CASES = (
    Case(
        "commands",
        (
            Figure("commands.start", "eventlog --help, from nothing", "ms", "python -c pass", Target("<=", START)),
            *(
                Figure(
                    f"commands.{name}",
                    f"eventlog {call.partition(' ')[0]}{', of the store' if name == 'stats.store' else ''}",
                    "ms",
                    f"{PATIENCE:.0f} ms",
                    Target("<=", 1),
                )
                for name, call in COMMANDS.items()
            ),
        ),
        _commands,
    ),
)
