"""Processor time of a job, the least of several runs, without waiting."""

from __future__ import annotations

import gc
import resource
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager


def spent() -> float:
    """Processor seconds of this process so far, with all threads and ended children."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


@contextmanager
def uncollected() -> Generator[None]:
    """Disable the garbage collector: its time depends on what other tests left in memory."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def least(job: Callable[[], object], runs: int = 5) -> float:
    """The least processor seconds of a run of the job."""
    best = float("inf")
    with uncollected():
        for _ in range(runs):
            begun = spent()
            job()
            best = min(best, spent() - begun)
    return best
