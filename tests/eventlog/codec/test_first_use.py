"""Several threads may decode a process's first events at once without a crash."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys, threading
from eventlog import events as ev
from eventlog.codec import batch
payload = batch.encode([(0, ev.SessionRenamed("t"))], 0)
begin, read = threading.Barrier(8), []
def first():
    begin.wait()
    read.append(batch.decode(payload))
sys.setswitchinterval(1e-6)
threads = [threading.Thread(target=first) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert len(read) == 8
"""


@pytest.mark.parametrize("_", range(3))
def test_several_threads_read_the_first_events(_: int) -> None:
    """Threads that decode the first events at once all find the event types complete."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
