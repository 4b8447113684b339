"""A process beside the test: appends, or contends for versions or a lease, and reports.

Started with `python -m tests.support.log_worker TASK PATH NAME …`; prints one line per acknowledged
append.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

from eventlog.errors import ConflictError, FencedError
from eventlog.log.commit import Append, LeaseState
from eventlog.log.embedded.engine import open_log

SMALL = {"journal_bytes": 128 << 10, "fold_bytes": 64 << 10, "map_bytes": 64 << 20}


def say(line: str) -> None:
    """Print and flush at once, so that a later kill loses no line."""
    os.write(1, (line + "\n").encode())


def stream(path: str, name: str) -> None:
    """Append to the session `name` until killed."""
    log = open_log(path, **SMALL)
    head = log.head(name)
    number = head.version if head else 0
    while True:
        tickets = [
            log.submit(
                Append(
                    session=name,
                    payload=b"%s %d " % (name.encode(), number + ahead + 1) * 40,
                    count=1,
                    time=1,
                    creates_at=None if number + ahead else 0,
                )
            )
            for ahead in range(3)
        ]
        for ticket in tickets:
            committed = ticket.wait(60)
            say(f"{name} {committed.last} {committed.position}")
        number += 3


def contend(path: str, name: str, rounds: str) -> None:
    """Win versions of the session "shared" with the expected version, until won enough."""
    log = open_log(path, **SMALL)
    say("ready")
    sys.stdin.readline()
    won = 0
    while won < int(rounds):
        head = log.head("shared")
        assert head is not None
        try:
            ticket = log.submit(Append(session="shared", payload=name.encode(), count=1, time=1, expected=head.version))
            say(f"won {ticket.wait(60).first}")
            won += 1
        except ConflictError:
            say("lost")
    log.close()


def hold(path: str, name: str, rounds: str) -> None:
    """Take the free lease of "shared", write two events under it, and release it, repeatedly."""
    log = open_log(path, **SMALL)
    say("ready")
    sys.stdin.readline()
    done = 0
    while done < int(rounds):
        head = log.head("shared")
        assert head is not None
        free = head.lease
        if free.until:
            time.sleep(0.0005)
            continue
        mine = LeaseState(free.epoch + 1, name.encode(), 1)
        if not log.set_lease("shared", mine, replaces=free):
            continue
        for step in range(2):
            payload = f"{name} {mine.epoch} {step}".encode()
            log.submit(Append(session="shared", payload=payload, count=1, time=1, epoch=mine.epoch)).wait(60)
        assert log.set_lease("shared", LeaseState(mine.epoch, b"", 0), replaces=mine)
        try:
            log.submit(Append(session="shared", payload=b"late", count=1, time=1, epoch=free.epoch or 999)).wait(60)
            say("not fenced")
        except FencedError:
            say(f"held {mine.epoch}")
        done += 1
    log.close()


def alternate(path: str, name: str) -> None:
    """Append one event for each line of input, and print its position."""
    log = open_log(path, **SMALL)
    say("ready")
    first = True
    while sys.stdin.readline().strip():
        append = Append(session=name, payload=name.encode(), count=1, time=1, creates_at=0 if first else None)
        say(f"{log.submit(append).wait(60).position}")
        first = False
    log.close()


def forgetful(path: str, name: str) -> None:
    """Submit and return: the interpreter's exit must make it durable."""
    log = open_log(path, **SMALL)
    for number in range(100):
        log.submit(Append(session=name, payload=b"x", count=1, time=1, creates_at=None if number else 0))


TASKS: dict[str, Callable[..., None]] = {
    "stream": stream,
    "contend": contend,
    "hold": hold,
    "forgetful": forgetful,
    "alternate": alternate,
}

if __name__ == "__main__":
    TASKS[sys.argv[1]](*sys.argv[2:])
