"""A process that appends to sessions of a server's log, and prints what was acknowledged.

Usage: `python -m tests.support.server_writer ADDRESS NAME SECONDS`.
"""

from __future__ import annotations

import sys
import time
from threading import Thread

from eventlog.errors import RetryError
from eventlog.log.commit import Append, Committed
from eventlog.log.postgres.opening import open_log

THREADS = 4
PATIENCE = 60.0


def say(line: str) -> None:
    """Print a line in one piece."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(address: str, name: str, seconds: float) -> None:
    """Append until the time is over."""
    log = open_log(address, busy_timeout=1.0)
    until = time.monotonic() + seconds

    def certain(append: Append) -> Committed:
        give_up = time.monotonic() + PATIENCE
        while True:
            try:
                return log.submit(append).wait()
            except RetryError as error:
                say(f"again {type(error).__name__}")
                if time.monotonic() > give_up:
                    raise
                time.sleep(0.05)

    def write(session: str) -> None:
        number = 0
        while time.monotonic() < until:
            done = certain(
                Append(
                    session=session,
                    payload=b"%d" % number,
                    count=1,
                    time=1,
                    creates_at=None if number else 0,
                    request=f"r{number}",
                    digest=b"d",
                )
            )
            say(f"acknowledged {session} {number} {done.first}")
            number += 1

    threads = [Thread(target=write, args=(f"{name}-{each}",)) for each in range(THREADS)]
    say("ready")
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
