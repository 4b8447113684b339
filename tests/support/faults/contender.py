"""A process whose threads contend for versions and leases and record calls and outcomes.

Usage: `python -m tests.support.faults.contender STORE KEYS RECORD NAME THREADS SECONDS SEED`.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from eventlog.errors import BusyError, ConflictError, FencedError, UnknownOutcomeError
from eventlog.log.commit import Append, LeaseState
from eventlog.log.contract import Log
from eventlog.open_log import open_log
from tests.support.faults.linearizability import NEVER, Operation

SESSIONS = ("s0", "s1", "s2")
OPTIONS: dict[str, Any] = {
    "journal_bytes": 64 << 10,
    "fold_bytes": 32 << 10,
    "map_bytes": 64 << 20,
    "busy_timeout": 20.0,
}


class Contender:
    """One contending thread."""

    def __init__(self, log: Log, record: int, name: str, seed: int) -> None:
        self._log = log
        self._record = record
        self._name = name
        self._chance = random.Random(seed)
        self._number = 0
        self._held: dict[str, int] = {}
        """Epochs that this thread took and was not fenced for, by session."""

    def work(self, until: float) -> None:
        """Make one call after another."""
        while time.monotonic() < until:
            session = self._chance.choice(SESSIONS)
            choice = self._chance.random()
            if choice < 0.25:
                self._read(session)
            elif choice < 0.45:
                self._lease(session)
            elif choice < 0.5:
                time.sleep(self._chance.uniform(0, 0.06))  # a lease may expire meanwhile
            else:
                self._append(session)

    def _call(self, operation: Operation) -> Operation:
        self._number += 1
        made = replace(operation, name=f"{self._name}.{self._number}", writer=self._name, called=time.monotonic_ns())
        os.write(self._record, msgspec.json.encode(made) + b"\n")
        return made

    def _came_back(self, operation: Operation, outcome: str, first: int = 0) -> None:
        changed = {"returned": time.monotonic_ns(), "outcome": outcome, "first": first}
        os.write(self._record, msgspec.json.encode(replace(operation, **changed)) + b"\n")

    def _read(self, session: str) -> None:
        made = self._call(Operation("", "", session, "read", 0))
        head = self._log.head(session)
        self._came_back(made, "done", head.version if head is not None else 0)

    def _lease(self, session: str) -> None:
        """Take the lease if it is free or expired; its former holder does not release it."""
        before = self._free(session)
        if before is None:
            return
        epoch = before.epoch + 1
        made = self._call(Operation("", "", session, "lease", 0, epoch=epoch))
        try:
            won = self._log.set_lease(session, self._for_a_while(epoch), replaces=before)
        except (BusyError, UnknownOutcomeError):
            return
        self._came_back(made, "done" if won else "lost")
        if won:
            self._held[session] = epoch

    def _free(self, session: str) -> LeaseState | None:
        """Return the session's lease if it may be taken."""
        head = self._log.head(session)
        return None if head is None or head.lease.until > time.monotonic_ns() // 1_000_000 else head.lease

    def _for_a_while(self, epoch: int) -> LeaseState:
        """A lease record of this thread that expires soon."""
        return LeaseState(epoch, self._name.encode(), time.monotonic_ns() // 1_000_000 + self._chance.randrange(5, 60))

    def _record_of(self, made: Operation) -> LeaseState | None:
        """The lease record that an append carries: taken, retained or released."""
        chance = self._chance.random()
        if made.takes or (made.epoch and chance < 0.2):
            return self._for_a_while(made.epoch)
        return LeaseState(made.epoch, self._name.encode()) if made.epoch and chance < 0.25 else None

    def _append(self, session: str) -> None:
        """Append, with or without a condition or lease record; sometimes repeat the request id."""
        way = self._chance.random()
        made = Operation("", "", session, "append", 0, count=self._chance.randrange(1, 4))
        if way < 0.35:
            head = self._log.head(session)
            made = replace(made, expected=head.version if head is not None else 0)
            if self._chance.random() < 0.3:
                time.sleep(self._chance.uniform(0, 0.01))  # another thread may take it first
        elif way < 0.75 and session in self._held:
            made = replace(made, epoch=self._held[session])
        before = self._free(session) if way >= 0.85 else None
        if before is not None:
            made = replace(made, epoch=before.epoch + 1, takes=True)
        made = self._call(made)
        again = self._chance.random() < 0.1
        append = Append(
            session=session,
            payload=made.name.encode(),
            count=made.count,
            time=1,
            expected=made.expected,
            epoch=made.epoch,
            lease=self._record_of(made),
            replaces=before,
            request=made.name if again else None,
            digest=b"d",
        )
        try:
            committed = self._log.submit(append).wait(30)
        except ConflictError as error:
            self._came_back(made, "conflict", error.actual)
        except FencedError as error:
            self._came_back(made, "fenced", error.current)
            self._held.pop(session, None)
        except (BusyError, UnknownOutcomeError):
            pass
        else:
            self._came_back(made, "done", committed.first)
            if made.takes:
                self._held[session] = made.epoch
            if again:
                repeated = self._log.submit(append).wait(30)
                if not repeated.repeated or repeated.first != committed.first:
                    raise AssertionError(f"{made.name} was committed at {committed.first} and at {repeated.first}")


def read_record(record: Path) -> list[Operation]:
    """Read a process's record: every call once, with its outcome if the call returned."""
    found: dict[str, Operation] = {}
    for line in record.read_bytes().split(b"\n")[:-1]:
        operation = msgspec.json.decode(line, type=Operation)
        assert operation.returned != NEVER or operation.name not in found, "a call was made after it came back"
        found[operation.name] = operation
    return list(found.values())


def main(store: str, keys: str, record: str, name: str, *numbers: float) -> None:
    """Run all threads at once on one log."""
    threads, seconds, seed = int(numbers[0]), numbers[1], int(numbers[2])
    fd = os.open(record, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    log = open_log(store, keys=keys or None, **OPTIONS)
    until = time.monotonic() + seconds
    failed: list[threading.ExceptHookArgs] = []
    threading.excepthook = failed.append
    workers = [
        threading.Thread(target=Contender(log, fd, f"{name}.{number}", seed * 100 + number).work, args=(until,))
        for number in range(threads)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    log.close()
    if failed:
        raise SystemExit(f"{failed[0].exc_value!r}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4], *map(float, sys.argv[5:]))
