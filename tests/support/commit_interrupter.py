"""Throw exceptions into threads that append, lead and wait; compare the log with the acks.

Usage: `python -m tests.support.commit_interrupter DIRECTORY ACKNOWLEDGEMENTS`.
"""

from __future__ import annotations

import asyncio
import ctypes
import faulthandler
import os
import random
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from threading import Thread, main_thread
from threading import enumerate as living_threads

from eventlog.log.commit import Append, Committed
from eventlog.log.embedded.engine import EmbeddedLog, open_log

WORKERS = 16
TASKS = 8
PATIENCE = 30.0
"""Seconds without an acknowledgement after which the run counts as hanging."""
PAUSE = 5e-4
"""Mean seconds between two exceptions."""


class Thrown(BaseException):
    """The exception thrown into threads."""


class Run:
    """The log, and what was acknowledged."""

    def __init__(self, path: Path, goal: int) -> None:
        self.log: EmbeddedLog = open_log(path, fold_bytes=256 << 10, journal_bytes=256 << 10)
        self.goal = goal
        self.next = dict.fromkeys(range(WORKERS + TASKS + 1), 0)
        """The number of each worker's next append."""
        self.acknowledged: list[tuple[bytes, Committed]] = []
        self.thrown = 0
        self.interrupts = 0
        self.exposed = False
        """Whether the main thread may be interrupted."""

    def interrupt(self, *_: object) -> None:
        """Handle Ctrl-C, where the main thread appends."""
        if self.exposed:
            self.interrupts += 1
            raise KeyboardInterrupt

    @property
    def going(self) -> bool:
        """Whether the goal is not yet reached, or, on a busy machine, too little was thrown."""
        return len(self.acknowledged) < self.goal or self.thrown <= self.goal // 100

    def append_of(self, worker: int) -> Append:
        """The worker's next append, unlike any other."""
        number = self.next[worker]
        self.next[worker] = number + 1
        return Append(session=f"s{worker % 5}", payload=b"%d %d" % (worker, number), count=1, time=1)

    def work(self, worker: int) -> None:
        """Append and wait, until the goal is reached or an exception ends it."""
        while self.going:
            append = self.append_of(worker)
            ticket = self.log.submit(append)
            self.acknowledged.append((append.payload, ticket.wait()))

    async def work_softly(self, worker: int) -> None:
        """Append as a task of an event loop, and count acknowledgements."""
        while self.going:
            append = self.append_of(worker)
            ticket = self.log.submit(append)
            self.acknowledged.append((append.payload, await ticket))

    async def tasks(self) -> None:
        """Run all tasks of one loop."""
        await asyncio.gather(*(self.work_softly(WORKERS + number) for number in range(TASKS)))

    def throw(self) -> None:
        """Throw into workers, helper and main thread until the goal; replace ended workers."""
        chance = random.Random(1)
        threads = {number: self._hire(number) for number in range(WORKERS)}
        seen, when = 0, time.monotonic()
        while self.going:
            time.sleep(chance.expovariate(1 / PAUSE))
            for number, thread in threads.items():
                if not thread.is_alive():
                    threads[number] = self._hire(number)
            targets: list[Thread] = [thread for thread in living_threads() if thread.name == "eventlog-commit"]
            target = chance.choice([main_thread(), *targets, *threads.values()])
            if target is main_thread():
                os.kill(os.getpid(), signal.SIGINT)
            elif target.ident is not None and target.is_alive():
                self.thrown += 1
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(target.ident), ctypes.py_object(Thrown))
            if len(self.acknowledged) > seen:
                seen, when = len(self.acknowledged), time.monotonic()
            elif time.monotonic() - when > PATIENCE:
                faulthandler.dump_traceback()
                os._exit(1)
        for thread in threads.values():
            thread.join(PATIENCE)
            if thread.is_alive():
                faulthandler.dump_traceback()
                os._exit(1)

    def _hire(self, number: int) -> Thread:
        def quietly() -> None:
            with suppress(Thrown):
                self.work(number)

        thread = Thread(target=quietly, daemon=True)
        thread.start()
        return thread

    def wrong(self, path: Path) -> list[str]:
        """Close, reopen and compare; return what is wrong."""
        self.log.close()
        log = open_log(path, read_only=True)
        found = log.commits_after(0, 10**7)
        places = {
            commit.payload: Committed(commit.session, commit.first, commit.last, commit.position) for commit in found
        }
        wrong = log.check()
        if len(places) != len(found):
            wrong.append(f"{len(found) - len(places)} appends are there twice")
        lost = [payload for payload, committed in self.acknowledged if places.get(payload) != committed]
        if lost:
            wrong.append(f"{len(lost)} acknowledged appends are gone or elsewhere: {lost[:5]}")
        return wrong


def interrupts_in(error: BaseException | None) -> int:
    """The number of exceptions in one: another may arrive while it is raised."""
    count = 0
    while error is not None:
        count += isinstance(error, KeyboardInterrupt)
        error = error.__context__
    return count


def main(path: Path, goal: int) -> int:
    """Run, compare, and say what happened."""
    run = Run(path, goal)
    for number in range(5):
        run.log.submit(Append(session=f"s{number}", payload=b"begun %d" % number, count=1, time=1, creates_at=0)).wait()
    thrower = Thread(target=run.throw, daemon=True)
    loop = Thread(target=lambda: asyncio.run(run.tasks()), daemon=True)
    in_finalizers: list[object] = []
    sys.unraisablehook = lambda found: in_finalizers.append(found.exc_type)  # only this hook sees those
    signal.signal(signal.SIGINT, run.interrupt)
    loop.start()
    thrower.start()
    caught = 0
    while run.going:
        try:
            run.exposed = True
            run.work(WORKERS + TASKS)
            run.exposed = False
        except KeyboardInterrupt as error:
            run.exposed = False
            caught += interrupts_in(error)
    loop.join()
    thrower.join()
    caught += in_finalizers.count(KeyboardInterrupt)
    wrong = run.wrong(path)
    print(
        f"{len(run.acknowledged)} acknowledged, {run.thrown} thrown, {caught} of {run.interrupts} interrupts, wrong: {wrong}"
    )
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
