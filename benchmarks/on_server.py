"""The log on a PostgreSQL server, beside `eventsourcing` and the embedded engine.

    python -m benchmarks.on_server [--seconds S] [--rounds N] [--only writers|reads]

It starts a server of its own on loopback, with fsync. The sides take turns in one run. A writer
appends one event to a stream of its own and waits for it, as fast as it can.
"""

from __future__ import annotations

import multiprocessing
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Callable
from functools import cache
from pathlib import Path
from statistics import median
from threading import Thread
from typing import Any
from uuid import uuid4

from rich.console import Console
from rich.table import Table

import eventlog
from eventlog.log.commit import Append
from eventlog.log.contract import Log
from eventlog.log.postgres.connections import Connections
from eventlog.log.postgres.opening import create, open_log
from eventlog.open_log import open_log as open_any
from projections import ModelView
from tests.support.postgres_server import Server

WRITERS = 8
PARTITIONS = (1, 4, 16, 64, 256)
PAYLOAD = (b'{"role": "user", "text": "Go on, and say what you have found so far in one sentence."}' * 3)[:256]
TURNS, SESSIONS = 200, 500
Work = Callable[[], None]


def _log_writer(place: str) -> Work:
    """A writer of one session of a log."""
    log: Log = _opened(place, open_any)
    name = str(uuid4())
    log.submit(Append(session=name, payload=PAYLOAD, count=1, time=1, creates_at=0)).wait()
    version = [1]

    def write() -> None:
        version[0] = log.submit(Append(session=name, payload=PAYLOAD, count=1, time=1, expected=version[0])).wait().last

    return write


_OPEN: dict[str, Any] = {}
"""Logs or stores of this process, by place."""


def _opened(place: str, opening: Callable[[str], Any]) -> Any:
    """Open a place, once for all writers of a process, as in a server."""
    if place not in _OPEN:
        _OPEN[place] = opening(place)
    return _OPEN[place]


def _session_writer(place: str) -> Work:
    """A writer of user messages."""
    session: eventlog.Session = _opened(place, eventlog.open).create_session()

    def write() -> None:
        session.user(PAYLOAD.decode())

    return write


def _recorder_writer(place: str) -> Work:
    """A writer of one aggregate in the recorder of `eventsourcing`, with its defaults."""
    recorder = _recorder(place)
    from eventsourcing.persistence import StoredEvent

    name, version = uuid4(), [0]

    def write() -> None:
        version[0] += 1
        recorder.insert_events([StoredEvent(name, version[0], "said", PAYLOAD)])

    return write


@cache
def _recorder(place: str, *, create: str = "n") -> Any:
    from eventsourcing.postgres import Factory
    from eventsourcing.utils import Environment

    host, port, database = place.split(" ")
    settings = {"DBNAME": database, "HOST": host, "PORT": port, "USER": "postgres", "PASSWORD": "x"}
    env = Environment("bench", {f"POSTGRES_{name}": value for name, value in settings.items()})
    env["CREATE_TABLE"] = create
    env["POSTGRES_MAX_OVERFLOW"], env["POSTGRES_POOL_SIZE"] = "10", "8"
    return Factory(env).application_recorder()


WRITER = {"log": _log_writer, "session": _session_writer, "recorder": _recorder_writer}


def _run(kind: str, place: str, threads: int, seconds: float, begun: Any) -> list[float]:
    """Write with some threads for some seconds; return the time of each append."""
    writers = [WRITER[kind](place) for _ in range(threads)]
    times: list[list[float]] = [[] for _ in writers]
    begun.wait()
    until = time.perf_counter() + seconds

    def loop(write: Work, taken: list[float]) -> None:
        while (start := time.perf_counter()) < until:
            write()
            taken.append(time.perf_counter() - start)

    running = [Thread(target=loop, args=(write, taken)) for write, taken in zip(writers, times, strict=True)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    while _OPEN:
        _OPEN.popitem()[1].close()
    return [one for taken in times for one in taken]


def _worker(arguments: tuple[str, str, int, float], begun: Any, results: Any) -> None:
    results.put(_run(*arguments, begun))


def rate(kind: str, place: str, processes: int, threads: int, seconds: float) -> list[float]:
    """Return the time of each append of all writers."""
    context = multiprocessing.get_context("spawn")
    begun, results = context.Barrier(processes), context.Queue()
    workers = [
        context.Process(target=_worker, args=((kind, place, threads, seconds), begun, results))
        for _ in range(processes)
    ]
    for worker in workers:
        worker.start()
    found = [one for _ in workers for one in results.get()]
    for worker in workers:
        worker.join()
    return found


class Side:
    """One side of a comparison, and what it took in each round."""

    def __init__(self, title: str, kind: str, place: str, processes: int, threads: int) -> None:
        self.title = title
        self._arguments = (kind, place, processes, threads)
        self.rates: list[float] = []
        self.times: list[float] = []

    def measure(self, seconds: float) -> None:
        """Run one round."""
        found = rate(*self._arguments, seconds)
        self.rates.append(len(found) / seconds)
        self.times += found

    def row(self, base: float) -> list[str]:
        """Return the figures as cells."""
        times = sorted(self.times)
        p50, p99 = (times[int(len(times) * share)] * 1000 for share in (0.5, 0.99))
        each = median(self.rates)
        return [self.title, f"{each:,.0f}/s", f"{each / base:.1f}", f"{p50:.2f} ms", f"{p99:.2f} ms"]


def writers(console: Console, server: Server, directory: Path, seconds: float, rounds: int) -> None:
    """Compare eight writers."""
    server.ask("CREATE DATABASE theirs")
    theirs = f"127.0.0.1 {server.port} theirs"
    _recorder(theirs, create="y").datastore.close()  # its tables are made, which several processes cannot do at once
    places = {count: server.new_schema() for count in PARTITIONS}
    for count, place in places.items():
        create(place, partitions=count)
    for processes, threads in ((1, WRITERS), (WRITERS, 1)):
        sides = [Side("eventsourcing, PostgreSQL recorder", "recorder", theirs, processes, threads)]
        sides += [
            Side(f"everdelta, {count} partitions", "log", place, processes, threads) for count, place in places.items()
        ]
        sides.append(Side("everdelta, user messages, 256 partitions", "session", places[256], processes, threads))
        sides.append(Side("everdelta, a directory", "log", str(directory / f"log{processes}"), processes, threads))
        for _ in range(rounds):
            for side in sides:
                side.measure(seconds)
        table = Table(
            "side", "appends", "ratio", "p50", "p99", title=f"{processes} processes with {threads} writers each"
        )
        for side in sides:
            table.add_row(*side.row(median(sides[0].rates)))
        console.print(table)


def reads(console: Console, server: Server, directory: Path) -> None:
    """Count the round trips of reads in a fresh handle, and the bytes that are kept."""
    address, trips = server.new_schema(), _count_trips()
    table = Table("what", "round trips", "time", title=f"{SESSIONS} sessions, one of {TURNS} turns")
    for place in (address, str(directory / "reads")):
        with eventlog.open(place) as store:
            for number in range(SESSIONS):
                chat = store.create_session(id=f"s{number}", title=f"Chat {number}")
                chat.user("Hi")
                with chat.assistant(model="m") as reply:
                    reply.stream_text().append("Hello, what can I do for you?")
                    reply.finish()
            session = store.session("s0")
            for number in range(TURNS):
                session.user(f"question {number}")
                with session.assistant(model="m") as reply:
                    reply.stream_text().append(f"answer {number} " * 20)
                    reply.finish()
            ModelView.of(session)
            store.newest_sessions()
        kind = "server" if place == address else "directory"
        reads: dict[str, Callable[[eventlog.Store], object]] = {
            "a cold view": lambda store: ModelView.of(store.session("s0")),
            "page 1 of the list": lambda store: store.newest_sessions(),
            "a durable user message, cold": lambda store: store.session("s1").user("again"),
        }
        for what, read in reads.items():
            with eventlog.open(place) as store:
                before, start = len(trips), time.perf_counter()
                read(store)
                taken = time.perf_counter() - start
                table.add_row(f"{what}, {kind}", str(len(trips) - before), f"{taken * 1000:.1f} ms")
    console.print(table)
    log = open_log(address)
    kept = sum(path.stat().st_size for path in (directory / "reads").rglob("*") if path.is_file())
    console.print(f"bytes kept: server {log.bytes_stored():,}, directory {kept:,}")
    log.close()


def _count_trips() -> list[None]:
    """Return a list that grows each time this process is lent a connection."""
    one, trips = Connections.one, list[None]()

    def counted(self: Connections, timeout: float | None = None) -> Any:
        trips.append(None)
        return one(self, timeout)

    Connections.one = counted  # type: ignore[method-assign]  # a measurement, in this process alone
    return trips


def main(arguments: list[str] | None = None) -> None:
    """Measure, and print tables."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=["writers", "reads"])
    options = parser.parse_args(arguments)
    console = Console(width=110)
    server = Server(settings={"fsync": "on", "full_page_writes": "on", "shared_buffers": "256MB"})
    with tempfile.TemporaryDirectory() as directory:
        if options.only != "reads":
            writers(console, server, Path(directory), options.seconds, options.rounds)
        if options.only != "writers":
            reads(console, server, Path(directory))
    server.remove()


if __name__ == "__main__":
    main(sys.argv[1:])
