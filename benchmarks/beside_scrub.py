"""A durable turn while another process scrubs the store, beside a turn of an idle store.

python -m benchmarks.beside_scrub [MEGABYTES]
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import eventlog
from benchmarks.measure import Samples
from tests.support.faults.large_stores import fill

SCRUBBING = """
import sys, time
import eventlog
store = eventlog.open(sys.argv[1])
print("begun", flush=True)
while True:
    store.session("ballast").user("one more, so that something is new")
    begun = time.monotonic()
    store.scrub()
    print(time.monotonic() - begun, flush=True)
"""


SECONDS = 15.0


def turns(session: eventlog.Session, seconds: float) -> Samples:
    """Take turns for some seconds; return their times."""
    taken = Samples()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        begun = time.perf_counter()
        with session.turn("Go on, and say what you have found so far", str(uuid4())), session.assistant("p/m") as reply:
            reply.add_text("The tests fail at the parser, which has no case for an empty line.")
            reply.finish()
        taken.add([time.perf_counter() - begun])
        time.sleep(0.005)  # a program that does other things, too
    return taken


def main() -> None:
    """Measure, and print."""
    megabytes = int(sys.argv[1]) if sys.argv[1:] else 200
    with TemporaryDirectory(dir=".") as directory:
        path = Path(directory) / "s"
        fill(path, megabytes * 1_000_000)
        with eventlog.open(path) as store:
            session = store.create_session()
            idle = turns(session, SECONDS)
            with subprocess.Popen(
                [sys.executable, "-c", SCRUBBING, str(path)], stdout=subprocess.PIPE, text=True
            ) as scrubber:
                assert scrubber.stdout is not None
                scrubber.stdout.readline()
                beside = turns(session, SECONDS)
                took = float(scrubber.stdout.readline())
                scrubber.kill()
        for name, share in (("median", 0.5), ("99 of 100 below", 0.99)):
            of, to = beside.percentile(share) * 1e3, idle.percentile(share) * 1e3
            print(f"{name}: {of:.2f} ms while scrubbing, {to:.2f} ms idle, ratio {of / to:.2f}")
        print(f"longest {max(beside.times) * 1e3:.0f} ms; a scrub of {megabytes} MB takes {took:.1f} s")


if __name__ == "__main__":
    main()
