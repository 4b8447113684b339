"""A process beside a test: streams ten deltas into a session, waits for a line, then ends the message.

Started with `python -m tests.streaming_worker STORE SESSION`.
"""

from __future__ import annotations

import sys

from eventlog.store import open_store

if __name__ == "__main__":
    with open_store(sys.argv[1]) as store, store.session(sys.argv[2]).assistant(model="m") as reply:
        text = reply.text()
        for number in range(10):
            text.append(f"word {number} ")
        sys.stdin.readline()
        reply.finish("stop")
