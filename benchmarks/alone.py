"""Processor time, bytes and syncs of a turn, in a process that does nothing else.

Background work is included. It cannot be attributed while several sides are measured in one
process. `strace` counts the syncs, because those of SQLite and LMDB happen in C: every `fsync`,
`fdatasync` and `msync`, and each `pwritev2` that syncs. Writes to files opened with `O_DSYNC` are
not counted: LMDB makes one for each of its commits.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from shutil import which
from time import process_time

import msgspec

from benchmarks.measure import disk_bytes, written
from benchmarks.turn_sides import SIDES
from benchmarks.workloads import turns

WARM_UP = 20
_ROOT = Path(__file__).resolve().parents[1]
_MARK = (1 << 20) - 1
"""File descriptor that is not open: a sync of it fails, and marks a place in the trace."""
_TRACED = "fsync,fdatasync,msync,sync_file_range,pwritev2"
_CALL = re.compile(r"^\d+ +(\w+)\((\d*)(.*)")


class Alone(msgspec.Struct, frozen=True):
    """Costs of one turn, the mean of many."""

    cpu: float
    """Seconds of processor time, all threads."""
    written: float
    """Bytes handed to `write` and the like."""
    kept: float
    """Bytes by which the directory has grown on the disk."""
    syncs: float | None = None
    """None where system calls cannot be traced."""


@cache
def tracer() -> tuple[str, ...]:
    """Return the command that traces syncs; empty if it is missing or not permitted.

    The caller adds the name of the file to which it writes.
    """
    command = ("strace", "-f", "--seccomp-bpf", "-qq", "-e", f"trace={_TRACED}", "-e", "signal=none", "-o")
    if which(command[0]) is None:
        return ()
    tried = subprocess.run(
        [*command, os.devnull, sys.executable, "-S", "-c", ""], check=False, capture_output=True, timeout=60
    )
    return () if tried.returncode else command


def alone(side: str, directory: Path, count: int) -> Alone:
    """Run `count` turns in a process of their own, in a new directory."""
    directory.mkdir()
    trace = directory.with_suffix(".trace")
    before = [*tracer(), str(trace)] if tracer() else []
    ran = subprocess.run(
        [*before, sys.executable, "-m", "benchmarks.alone", side, str(directory), str(count)],
        check=True,
        stdout=subprocess.PIPE,
        cwd=_ROOT,
        timeout=3600,
    )
    costs = msgspec.json.decode(ran.stdout, type=Alone)
    if not before:
        return costs
    return msgspec.structs.replace(costs, syncs=syncs_between_marks(trace.read_text(encoding="utf-8")) / count)


def syncs_between_marks(trace: str) -> int:
    """Count the syncs between the first two marks of a trace."""
    inside, syncs = False, 0
    for line in trace.splitlines():
        call = _CALL.match(line)
        if call is None:
            continue
        name, fd, arguments = call.groups()
        if fd == str(_MARK):
            if inside:
                return syncs
            inside = True
        elif inside and (name != "pwritev2" or "SYNC" in arguments):
            syncs += 1
    raise ValueError("a trace without its two marks")


def _mark() -> None:
    with suppress(OSError):
        os.fsync(_MARK)


def _measured(name: str, directory: Path, count: int) -> Alone:
    work = iter(turns(count + WARM_UP))
    side = SIDES[name].make(directory)
    for _ in range(WARM_UP):
        side.turn(next(work))
    side.finish_work()
    size = disk_bytes(directory)
    bytes_before, cpu_before = written(), process_time()
    _mark()
    for turn in work:
        side.turn(turn)
    side.finish_work()
    _mark()
    cpu, bytes_written, more = process_time() - cpu_before, written() - bytes_before, disk_bytes(directory) - size
    side.close()
    return Alone(cpu / count, bytes_written / count, more / count)


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(_measured(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))))
