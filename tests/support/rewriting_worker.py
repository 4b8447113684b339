"""A program beside a rewriting: writes, stays idle, rewrites, or dies in rewriting."""

from __future__ import annotations

import os
import signal
import sys

import eventlog
from eventlog.log.embedded.filesystem import JournalIO


def idle(path: str) -> None:
    """Have a store open without a call, then tell how many of its messages can be read."""
    with eventlog.open(path) as store:
        kept = store.session("kept")
        list(kept.events())
        print("ready", flush=True)
        sys.stdin.readline()
        count = sum(
            1 for recorded in store.session("w").events() if type(recorded.event).__name__ == "UserMessageAdded"
        )
        print(count + 1, kept.id, flush=True)


def write(path: str, name: str, count: str) -> None:
    """Write messages into a session."""
    with eventlog.open(path) as store:
        session = store.create_session(id=name)
        print("ready", flush=True)
        for number in range(int(count)):
            session.user(f"{name} {number}")


def die(path: str, step: str) -> None:
    """Die at a step of a rewriting."""

    def reach(self: JournalIO, point: str) -> None:
        del self
        if point == f"rewriting: {step}":
            os.kill(os.getpid(), signal.SIGKILL)

    JournalIO.reach = reach  # type: ignore[method-assign]
    eventlog.open(path).scrub()


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
