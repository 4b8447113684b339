"""A durable turn while another process scrubs the store, beside a turn of an idle store.

    python -m benchmarks.beside_scrub [--megabytes 200] [--seconds 15] [--directory PATH]

Prints the median, the time below which 99 of 100 turns stay, their ratios, and what a scrub takes.
"""

from __future__ import annotations

import subprocess
import sys
import time
from argparse import ArgumentParser
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


def turns(session: eventlog.Session, seconds: float) -> Samples:
    """The times of turns for some seconds."""
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
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--directory", type=Path)
    asked = parser.parse_args()
    with TemporaryDirectory(dir=asked.directory) as directory:
        path = Path(directory) / "s"
        fill(path, asked.megabytes * 1_000_000)
        with eventlog.open(path) as store:
            session = store.create_session()
            turns(session, 2)
            idle = turns(session, asked.seconds)
            command = [sys.executable, "-c", SCRUBBING, str(path)]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as scrubber:
                assert scrubber.stdout is not None
                scrubber.stdout.readline()
                beside = turns(session, asked.seconds)
                took = float(scrubber.stdout.readline())
                scrubber.kill()
        for name, share in (("median", 0.5), ("99 of 100 below", 0.99)):
            of, to = beside.percentile(share) * 1e3, idle.percentile(share) * 1e3
            print(f"{name}: {of:.2f} ms while scrubbing, {to:.2f} ms idle, ratio {of / to:.2f}")
        print(f"longest {max(beside.times) * 1e3:.0f} ms; a scrub of {asked.megabytes} MB takes {took:.1f} s")


if __name__ == "__main__":
    main()
