"""Measure sides in turn: times, medians, bytes written, bytes on the disk.

On a shared machine an absolute figure says little. So all sides of a comparison run in one process
or in workers, in rounds of changing order, and the medians of all rounds are compared.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import NamedTuple


class Timing(NamedTuple):
    """Seconds and processor time of one piece of work."""

    seconds: float
    cpu: float
    """Processor seconds of all threads of the process, those that did other work included."""


class Samples:
    """Times of the same work, in seconds."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.cpu: list[float] = []
        """Processor times, if they were measured."""

    def add(self, samples: Iterable[float | Timing]) -> None:
        """Add times."""
        for sample in samples:
            if isinstance(sample, Timing):
                self.times.append(sample.seconds)
                self.cpu.append(sample.cpu)
            else:
                self.times.append(sample)

    @property
    def median(self) -> float:
        """Return the median time."""
        return median(self.times)

    @property
    def median_cpu(self) -> float:
        """Return the median processor time."""
        return median(self.cpu)

    def percentile(self, share: float) -> float:
        """Return the time that `share` of the times do not exceed."""
        return sorted(self.times)[min(int(len(self.times) * share), len(self.times) - 1)]

    def columns(self) -> dict[str, float]:
        """Return milliseconds by heading, for times with processor times."""
        return {"ms": self.median * 1e3, "p10 ms": self.percentile(0.1) * 1e3, "CPU ms": self.median_cpu * 1e3}


def in_turn(
    sides: Mapping[str, Callable[[], Iterable[float | Timing]]], rounds: int, *, warm_up: int = 1
) -> dict[str, Samples]:
    """Run each side once per round in a rotating order; return the times of each.

    The times of `warm_up` additional rounds are dropped. Existing objects are frozen, so that no
    side pays for the garbage collector's walks over objects that others made.
    """
    samples = {name: Samples() for name in sides}
    names = list(sides)
    gc.collect()
    gc.freeze()
    try:
        for number in range(rounds + warm_up):
            shift = number % len(names)
            for name in names[shift:] + names[:shift]:
                seconds = sides[name]()
                if number >= warm_up:
                    samples[name].add(seconds)
    finally:
        gc.unfreeze()
    return samples


def timed(work: Callable[[], object]) -> float:
    """Return the seconds that one call takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def spent(work: Callable[[], object]) -> Timing:
    """Return the seconds and processor time that one call takes."""
    cpu, start = time.process_time(), time.perf_counter()
    work()
    return Timing(time.perf_counter() - start, time.process_time() - cpu)


def _counted(file: str, name: str) -> int:
    """Return the kernel's count for this process in a file of `/proc/self`; 0 if unknown."""
    try:
        lines = (Path("/proc/self") / file).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{name}:")), 0)


def written() -> int:
    """Return the bytes this process has handed to `write` and the like (`wchar`).

    `write_bytes`, which counts what reaches the disk, varies by several times for the same work.
    """
    return _counted("io", "wchar")


def disk_bytes(directory: Path) -> int:
    """Return the allocated bytes of a directory on the disk."""
    blocks = 0
    for path in directory.rglob("*"):
        with suppress(FileNotFoundError):  # a file that was used again meanwhile
            blocks += path.lstat().st_blocks if path.is_file() else 0
    return blocks * 512
