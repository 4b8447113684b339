"""A program that kills itself at each fault point of journal I/O and checks what is left.

Usage: `python -m tests.support.log_crasher DIRECTORY MODE FIRST STEP`.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any

from eventlog.errors import EventlogError
from eventlog.log.commit import Append, LeaseState
from eventlog.log.embedded.engine import open_log
from eventlog.log.embedded.filesystem import JournalIO

SMALL = {"journal_bytes": 32 << 10, "fold_bytes": 24 << 10, "map_bytes": 64 << 20}
SECTOR = 512
AT_LAST = LeaseState(99, b"me", 5)
"""The lease that is written without an append, after all appends."""


class CrashingIO(JournalIO):
    """Journal I/O that dies at the n-th call."""

    def __init__(self, at: int, mode: str) -> None:
        self._left = at
        self._mode = mode
        self._lock = Lock()  # no other call runs while the process dies
        self._unflushed: dict[int, list[tuple[int, bytes]]] = {}

    def _step(self, *, can_die: bool = True) -> bool:
        self._left -= 1
        if self._left == 0 and can_die:
            self._die()
        return self._left == 0

    def _die(self) -> None:
        if self._mode == "power":
            chance = random.Random(1)
            for fd, writes in self._unflushed.items():
                for offset, old in reversed(writes):
                    for begin in range(0, len(old), SECTOR):
                        if chance.random() < 0.5:
                            os.pwrite(fd, old[begin : begin + SECTOR], offset + begin)
        os.kill(os.getpid(), signal.SIGKILL)

    def open(self, path: str, flags: int) -> int:
        """Open, or fail."""
        with self._lock:
            self._step()
            fd = super().open(path, flags)
            self._unflushed.pop(fd, None)  # the number belonged to a file that was closed
            return fd

    def pwrite(self, fd: int, data: Any, offset: int) -> int:
        """Write, or fail."""
        with self._lock:
            dying = self._step(can_die=self._mode == "before")
            old = os.pread(fd, len(data), offset)
            self._unflushed.setdefault(fd, []).append((offset, old.ljust(len(data), b"\0")))
            if dying and self._mode == "half":
                super().pwrite(fd, bytes(data)[: len(data) // 2], offset)
                self._die()
            written = super().pwrite(fd, data, offset)
            if dying:
                self._die()
            return written

    def fdatasync(self, fd: int) -> None:
        """Flush, or fail."""
        with self._lock:
            self._step()
            super().fdatasync(fd)
            self._unflushed.pop(fd, None)

    def rename(self, old: str, new: str) -> None:
        """Rename, or fail."""
        with self._lock:
            self._step()
            super().rename(old, new)

    def unlink(self, path: str) -> None:
        """Remove, or fail."""
        with self._lock:
            self._step()
            super().unlink(path)

    def sync_directory(self, path: str) -> None:
        """Flush names, or fail."""
        with self._lock:
            self._step()
            super().sync_directory(path)

    def reach(self, point: str) -> None:  # noqa: ARG002 - every point counts alike
        """Reach a point of the fold, or fail there."""
        with self._lock:
            self._step()


def workload() -> list[Append]:
    """The appends of every run, small and large; two of three change a lease."""
    chance = random.Random(7)
    appends: list[Append] = []
    held: dict[str, LeaseState] = {}
    for number in range(60):
        session = f"s{chance.randrange(3)}"
        size = chance.choice([20, 200, 900, 3000, 9000])
        body = b"body %d" % (number % 7)
        before = held.get(session, LeaseState())
        lease = None if number % 3 == 0 else LeaseState(before.epoch + (before.until == 0), b"owner", number % 5)
        appends.append(
            Append(
                session=session,
                payload=b"%d:" % number + chance.randbytes(size),
                count=chance.randrange(1, 4),
                time=number,
                creates_at=None if session in held else 0,
                epoch=0 if lease is None else lease.epoch,
                lease=lease,
                replaces=before if lease is not None and lease.epoch > before.epoch else None,
                request=f"r{number}",
                digest=b"%d" % number,
                bodies=[(hashlib.sha256(body).digest(), body)],
                messages=1,
            )
        )
        held[session] = before if lease is None else lease
    return appends


def lease_after(appends: Sequence[Append], session: str) -> LeaseState:
    """The lease of a session after these appends."""
    return next((one.lease for one in reversed(appends) if one.session == session and one.lease), LeaseState())


def work(path: Path, acks: int, at: int, mode: str) -> None:
    """Append all in groups of one to four; acknowledge durable ones through the pipe `acks`."""
    log = open_log(path, io=CrashingIO(at, mode), **SMALL)
    appends = workload()
    last = lease_after(appends, "s0")
    chance = random.Random(3)
    while appends:
        group = [appends.pop(0) for _ in range(min(len(appends), chance.randrange(1, 5)))]
        for ticket in [log.submit(append) for append in group]:
            committed = ticket.wait(60)
            os.write(acks, f"{committed.session} {committed.first} {committed.last} {committed.position}\n".encode())
    log.set_lease("s0", AT_LAST, replaces=last)
    os.write(acks, b"lease\n")
    log.close()
    os.write(acks, b"closed\n")


def verify(path: Path, acknowledged: list[str]) -> list[str]:
    """Open the store and compare."""
    wrong: list[str] = []
    planned = workload()
    log = open_log(path, **SMALL)
    try:
        found = log.commits_after(0, 10**6)
        for commit, append in zip(found, planned, strict=False):
            if (commit.session, commit.payload, commit.count) != (append.session, append.payload, append.count):
                wrong.append(f"position {commit.position}: another append than the one submitted there")
        spans = {f"{c.session} {c.first} {c.last} {c.position}" for c in found}
        wrong += [f"acknowledged and gone: {line}" for line in acknowledged if " " in line and line not in spans]
        wrong += log.check()
        for session in {append.session for append in planned[: len(found)]}:
            head = log.head(session)
            lease = None if head is None else head.lease
            if lease != lease_after(planned[: len(found)], session) and (session, lease) != ("s0", AT_LAST):
                wrong.append(f"the lease of {session} is not that of its last append: {lease}")
            if session == "s0" and "lease" in acknowledged and lease != AT_LAST:
                wrong.append("the lease is gone")
        for append in planned:
            ticket = log.submit(append)
            if ticket.wait(60).repeated != (f"r{append.time}" in {c.request for c in found}):
                wrong.append(f"request r{append.time} was not settled rightly")
        again = log.commits_after(0, 10**6)
        if [c.payload for c in again] != [append.payload for append in planned]:
            wrong.append("after the retry the log is not the whole workload, once")
        wrong += [
            f"body {number} is gone"
            for number in range(7)
            if not log.body(hashlib.sha256(b"body %d" % number).digest())
        ]
        wrong += log.check()
    finally:
        log.close()
    return wrong


def crash(path: Path, at: int, mode: str) -> tuple[list[str], bool]:
    """Try one point; return what the child acknowledged, and whether it finished."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            work(path, writing, at, mode)
        except BaseException as error:  # noqa: BLE001 - the child's only way out is `_exit`
            os.write(2, f"the worker failed: {error!r}\n".encode())
            os._exit(3)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        lines = pipe.read().decode().split("\n")
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        raise SystemExit(f"point {at}: the worker failed")
    return [line for line in lines if line], os.WIFEXITED(status)


def main() -> int:
    """Try every `step`-th point from `first` on, until the worker survives."""
    root, mode, at, step = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    failures = 0
    while True:
        path = root / "store"
        acknowledged, finished = crash(path, at, mode)
        if mode == "power" and at % 2 and (path / "mark").exists():
            (path / "mark").write_bytes(b"")  # the watermark's pages need not have reached the disk either
        try:
            wrong = verify(path, acknowledged)
        except EventlogError as error:
            wrong = [repr(error)]
        for line in wrong:
            failures += 1
            print(f"{mode} point {at}: {line}")
        shutil.rmtree(path)
        if finished:
            break
        at += step
    print(f"points up to {at}, acknowledged at the end {len(acknowledged)}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
