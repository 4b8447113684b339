"""A process beside a test: streams ten deltas, waits for a line, then ends the message.

`start` runs it as `python -m tests.support.streaming_worker STORE SESSION`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from eventlog.open_store import open_store

ROOT = Path(__file__).resolve().parents[2]


def start(path: Path, session: str) -> subprocess.Popen[bytes]:
    """Start the process."""
    command = [sys.executable, "-W", "error", "-m", "tests.support.streaming_worker", str(path), session]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


if __name__ == "__main__":
    with open_store(sys.argv[1]) as store, store.session(sys.argv[2]).assistant(model="m") as reply:
        text = reply.stream_text()
        for number in range(10):
            text.append(f"word {number} ")
        sys.stdin.readline()
        reply.finish("stop")
