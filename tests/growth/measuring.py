"""Processor time of a job, the least of several runs: what waits for a disk or for another program does not count.

No tests here.
"""

from __future__ import annotations

import gc
import resource
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

__all__ = ["least", "spent", "uncollected"]


def spent() -> float:
    """Seconds of processor time of this process so far, all threads and ended children included."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


@contextmanager
def uncollected() -> Generator[None]:
    """Keep the garbage collector out: its time depends on what other tests have left in memory."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def least(job: Callable[[], object], runs: int = 5) -> float:
    """The least processor time that a run of the job took, in seconds."""
    best = float("inf")
    with uncollected():
        for _ in range(runs):
            begun = spent()
            job()
            best = min(best, spent() - begun)
    return best
