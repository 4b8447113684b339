"""Run the README's loop in processes that are killed at every point and started anew.

Usage: `python -m tests.support.readme_loop_runner PROGRAM DIRECTORY`.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import ssl
import sys
import threading
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from openai.resources.chat.completions import Completions

import eventlog
from eventlog import events as ev
from eventlog.log.embedded.filesystem import JournalIO
from projections import ModelView
from projections.reports.audit import audit

WHAT = "write the files"


class Points:
    """Counts the points of one run and dies at one of them."""

    def __init__(self, dies_at: int | None) -> None:
        self.dies_at = dies_at
        self.passed = 0

    def __call__(self) -> None:
        """Pass a point, or die there."""
        self.passed += 1
        if self.passed == self.dies_at:
            os.kill(os.getpid(), signal.SIGKILL)

    @contextmanager
    def watching(self) -> Generator[None]:
        """Make requests, the tool and the journal pass points."""
        with (
            self._watch(Completions, "create", before=True),
            self._watch(Path, "write_text", before=True),
            self._watch(JournalIO, "fdatasync", before=False),
        ):
            yield

    @contextmanager
    def _watch(self, owner: type[Any], name: str, *, before: bool) -> Generator[None]:
        real: Callable[..., Any] = getattr(owner, name)

        def watched(*given: Any, **more: Any) -> Any:
            if before:
                self()
            found = real(*given, **more)
            self()
            return found

        setattr(owner, name, watched)
        try:
            yield
        finally:
            setattr(owner, name, real)


def once(program: str, directory: Path, dies_at: int | None) -> bool:
    """Run once in a process of its own; return whether the run finished."""
    directory.mkdir(parents=True, exist_ok=True)
    child = os.fork()
    if child == 0:
        os.chdir(directory)
        try:
            _run(program, dies_at)
        except BaseException:  # noqa: BLE001  # every error goes to the parent
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL and dies_at is not None:
        return False
    if status:
        raise SystemExit(f"a run ended with {status}")
    return True


def _run(program: str, dies_at: int | None) -> None:
    points = Points(dies_at)
    with points.watching():
        _execute(program)
    with Path("points").open("w") as file:
        file.write(str(points.passed))


def _execute(program: str) -> None:
    said = os.open("said", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    os.dup2(said, 1)
    sys.argv = ["loop", WHAT]
    exec(compile(program, "README.md", "exec"), {"__name__": "__main__"})  # noqa: S102  # the README's own lines
    sys.stdout.flush()


def result(directory: Path) -> dict[str, Any]:
    """Result of a run that came to its end."""
    with eventlog.open(directory / "chats", read_only=True) as store:
        session = store.open_session(("loop", "notes"), create=False)
        events = [recorded.event for recorded in session.events()]
        view = ModelView.of(session)
        return {
            "said": (directory / "said").read_text(),
            "files": {path.name: path.read_text() for path in sorted(directory.glob("*.txt"))},
            "questions": sum(isinstance(event, ev.UserMessageAdded) and not event.synthetic for event in events),
            "running": sum(isinstance(event, ev.ToolRunning) for event in events),
            "completed": sum(isinstance(event, ev.ToolCompleted) for event in events),
            "compactions": sum(isinstance(event, ev.CompactionCompleted) for event in events),
            "undone": len(session.reader.state().open_messages()),
            "last": [message.role for message in view.messages][-1],
            "verdicts": sorted({step.verdict for step in audit(session)}),
        }


def main() -> None:
    """Run to the end once, then killed at each point; print the result each time."""
    program, directory = Path(sys.argv[1]).read_text(), Path(sys.argv[2])
    _warm_up(program, directory / "warm")
    once(program, directory / "whole", None)
    points = int((directory / "whole" / "points").read_text())
    print(json.dumps({"points": points, **_apart(directory / "whole")}), flush=True)
    for point in range(1, points + 1):
        place = directory / str(point)
        killed = not once(program, place, point)
        once(program, place, None)
        print(json.dumps({"point": point, "killed": killed, **_apart(place)}), flush=True)


def _warm_up(program: str, directory: Path) -> None:
    """Run the loop once in this process, so that forked runs find everything imported."""
    for name in ("load_verify_locations", "load_default_certs"):  # the server speaks no TLS
        setattr(ssl.SSLContext, name, _nothing)
    before, output = Path.cwd(), os.dup(1)
    directory.mkdir(parents=True)
    os.chdir(directory)
    _run(program, None)
    sys.stdout.flush()
    os.dup2(output, 1)
    os.chdir(before)
    result(directory)
    gc.collect()
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join(30)  # the store's and the server's threads are ending
    assert threading.active_count() == 1


def _nothing(*_given: Any, **_more: Any) -> None:
    """Load no certificates."""


def _apart(directory: Path) -> dict[str, Any]:
    """Read the result in a process of its own, so that this one has no threads."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, json.dumps(result(directory)).encode())
        except BaseException:  # noqa: BLE001  # as above
            traceback.print_exc()
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as file:
        found: dict[str, Any] = json.load(file)
    os.waitpid(child, 0)
    return found


if __name__ == "__main__":
    main()
