"""Run the documented loop in lives that end at random, until one of them comes to its end.

Usage: `python -m tests.support.loop_lives PROGRAM DIRECTORY SEED QUESTION…`.
"""

from __future__ import annotations

import json
import os
import random
import signal
import ssl
import sys
import threading
import time
import traceback
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

import eventlog
from eventlog import events as ev
from projections import Transcript
from projections.reports.audit import audit
from projections.tokens.counter import counter_named
from projections.verify.verify import verify

NAME = ("loop", "notes")
MOST_LIVES = 200
"""Lives after which the loop is taken to make no progress."""
LONGEST = 0.35
"""Seconds that a life has at most before it is killed or interrupted."""
STOPPED = signal.SIGUSR1
"""Stands for a user's stop, which is no signal."""
WAITING = 60
"""Seconds after which a life that is left alone is taken to hang."""


def live(program: str, directory: Path, questions: list[str], end: signal.Signals | None, seconds: float) -> int:
    """Run the program in a process that gets a signal after some seconds; return its status."""
    child = os.fork()
    if child == 0:
        try:
            _run(program, directory, questions)
        except SystemExit as ended:
            sys.stderr.write(f"{ended}\n")
            sys.stderr.flush()
            os._exit(0 if ended.code in {0, None} else 1)
        except BaseException:  # noqa: BLE001  # every error ends the life
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)
    deadline = time.monotonic() + (WAITING if end is None else seconds)
    while True:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            if end == STOPPED:
                _stop(directory)
            else:
                os.kill(child, signal.SIGKILL if end is None else end)
            if end is None:
                raise SystemExit("a life hung")
            end, deadline = None, time.monotonic() + WAITING
        time.sleep(0.002)


def _stop(directory: Path) -> None:
    """Ask the running program to stop, as a page of another process does."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            with eventlog.open(directory / "chats") as store:
                store.open_session(NAME).interrupt()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0


def _run(program: str, directory: Path, questions: list[str]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    os.chdir(directory)
    said = os.open("said", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    os.dup2(said, 1)
    errors = os.open("errors", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.dup2(errors, 2)
    sys.argv = ["loop", *questions]
    exec(compile(program, "README.md", "exec"), {"__name__": "__main__"})  # noqa: S102  # the README's own lines
    sys.stdout.flush()


def result(directory: Path) -> dict[str, Any]:
    """Read what the lives left."""
    with eventlog.open(directory / "chats", read_only=True) as store:
        main = store.open_session(NAME, create=False)
        sessions = [info.id for info in store.sessions()]
        report = verify(store, deep=True)
        texts: Counter[str] = Counter()
        for name in sessions:
            for message in Transcript(store.session(name)).newest_first():
                for part in message.parts:
                    if message.role == "assistant" and not message.removed and part.kind == "text" and not part.removed:
                        texts[part.text] += 1
        return {
            "said": (directory / "said").read_text().splitlines(),
            "files": {path.name: path.read_text() for path in sorted(directory.glob("*.txt"))},
            "texts": dict(texts),
            "tasks": [info.messages for info in store.sessions(parent=main.id)],
            "asked": sum(
                isinstance(found.event, ev.UserMessageAdded) and not found.event.synthetic and found.event.cause is None
                for found in main.events()
            ),
            "kinds": Counter(type(found.event).__name__ for found in main.events()),
            "sound": report.sound,
            "problems": [*report.problems, *(str(problem) for one in report.sessions for problem in one.problems)],
            "open": [name for name in sessions if store.session(name).reader.state().open_messages()],
            "unfinished": [info.id for info in store.unfinished()],
            "verdicts": sorted({step.verdict for name in sessions for step in audit(store.session(name))}),
        }


def main() -> None:
    """Live until one life comes to its end."""
    program, directory, seed, *questions = (
        Path(sys.argv[1]).read_text(),
        Path(sys.argv[2]),
        int(sys.argv[3]),
        *sys.argv[4:],
    )
    stops = [STOPPED] * ("--stops" in questions)
    questions = [question for question in questions if question != "--stops"]
    chance = random.Random(seed)
    for name in ("load_verify_locations", "load_default_certs"):  # the server speaks no TLS
        setattr(ssl.SSLContext, name, _nothing)
    _warm_up()
    ends: list[str] = []
    while len(ends) < MOST_LIVES:
        end = chance.choice([signal.SIGKILL, signal.SIGINT, signal.SIGINT, None, *stops])
        status = live(program, directory, questions, end, chance.uniform(0.02, LONGEST))
        ends.append("done" if status == 0 else "killed" if status == -signal.SIGKILL else "ended")
        if status == 0:
            break
    print(json.dumps({"ends": ends}), flush=True)
    print(json.dumps(result(directory)), flush=True)


def _nothing(*_given: Any, **_more: Any) -> None:
    """Load no certificates."""


def _warm_up() -> None:
    """Import what a life needs, so that it starts at once."""
    for module in (
        "openai.resources.chat.completions",
        "projections.loop.context.window",
        "projections.loop.context.compaction_run",
    ):
        import_module(module)
    counter_named("o200k_base").count("warm")
    assert threading.active_count() == 1


if __name__ == "__main__":
    main()
