"""A process that appends until it is killed.

Started with `python -m tests.support.log_worker PATH NAME`; prints a line per acknowledged append.
"""

from __future__ import annotations

import os
import sys

from eventlog.log.commit import Append
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


if __name__ == "__main__":
    stream(*sys.argv[1:])
