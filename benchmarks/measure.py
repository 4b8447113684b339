"""How things are measured: sides in turn, medians, bytes written, bytes kept.

Knows no engine.

On a shared machine an absolute figure says little, so all sides of a comparison run in one process or in workers, in turn, in rounds
of changing order; what is compared is the medians of all rounds.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import NamedTuple

__all__ = ["Samples", "Spent", "in_turn", "kept", "of_process", "spent", "timed", "written"]


class Spent(NamedTuple):
    """What one piece of work took."""

    seconds: float
    cpu: float
    """Seconds of processor time of all threads of the process.

    Those that worked for others meanwhile are included.
    """


class Samples:
    """Times of the same work, in seconds."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.cpu: list[float] = []
        """Processor times, where they were measured."""

    def add(self, found: Iterable[float | Spent]) -> None:
        """Take in more times."""
        for sample in found:
            if isinstance(sample, Spent):
                self.times.append(sample.seconds)
                self.cpu.append(sample.cpu)
            else:
                self.times.append(sample)

    @property
    def median(self) -> float:
        """Half of the times are below."""
        return median(self.times)

    @property
    def median_cpu(self) -> float:
        """Half of the processor times are below."""
        return median(self.cpu)

    def percentile(self, share: float) -> float:
        """The time that `share` of the times do not exceed."""
        return sorted(self.times)[min(int(len(self.times) * share), len(self.times) - 1)]

    def columns(self) -> dict[str, float]:
        """Milliseconds by their headings, of times that were measured with processor times."""
        return {"ms": self.median * 1e3, "p10 ms": self.percentile(0.1) * 1e3, "CPU ms": self.median_cpu * 1e3}


def in_turn(
    sides: Mapping[str, Callable[[], Iterable[float | Spent]]], rounds: int, *, warm_up: int = 1
) -> dict[str, Samples]:
    """Run each side once per round, in an order that rotates.

    Returns the times of each.

    The times of the first `warm_up` rounds, which come on top, are thrown away.  What is there before is frozen, so that no side
    pays for the collector's walks over what others have imported or prepared.
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
    """Seconds that one call takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def spent(work: Callable[[], object]) -> Spent:
    """Seconds and processor time that one call takes."""
    cpu, start = time.process_time(), time.perf_counter()
    work()
    return Spent(time.perf_counter() - start, time.process_time() - cpu)


def of_process(file: str, name: str) -> int:
    """What the kernel counts of this process, 0 where it does not.

    A number in a file of `/proc/self`.
    """
    try:
        lines = (Path("/proc/self") / file).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{name}:")), 0)


def written() -> int:
    """Bytes that this process has handed to `write` and its kin so far (`wchar`).

    What reaches the disk, `write_bytes`, varies by several times for the same work.
    """
    return of_process("io", "wchar")


def kept(directory: Path) -> int:
    """Bytes that a directory takes on the disk: allocated blocks, whatever they hold."""
    blocks = 0
    for path in directory.rglob("*"):
        with suppress(FileNotFoundError):  # a file that was used again meanwhile
            blocks += path.lstat().st_blocks if path.is_file() else 0
    return blocks * 512
