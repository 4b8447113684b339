"""A rewriting of a store: the next generation, made while programs use this one.

1. Commits are copied while appends go on, again and again, until few are left.
2. The write lock of LMDB keeps folds away; what else is folded is copied: heads that changed
   without a commit, and derived values.
3. The writers' lock keeps appends away; the rest is in memory, and is copied. The next generation
   is flushed, the file `generation` names it, and the mark says that it does.

So the writers' lock is held for a few appends and flushes, however large the store is. A process
that dies on the way leaves the store as it was, or rewritten (`generations.py`).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from eventlog.log.embedded import generations
from eventlog.log.embedded.bulk_writer import BulkWriter
from eventlog.log.embedded.journal import frames
from eventlog.log.embedded.locks import WriterLock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from eventlog.log.commit import Head
    from eventlog.log.embedded.engine import EmbeddedLog
    from eventlog.log.embedded.partition import Partition

_FEW = 200
"""Events that may be left when the writers' lock is taken."""
_ROUNDS = 20
_MOVED = 8.0
"""Seconds to wait for other processes to go over: their fold threads look every two."""
_POLL = 0.05


def make_next(
    log: EmbeddedLog,
    copy_to: Callable[[BulkWriter, int], object],
    copy_folded: Callable[[BulkWriter], None],
    copy_last: Callable[[BulkWriter, Iterable[Head]], None],
) -> None:
    """Make the next generation of a store the one in force.

    `copy_to` copies commits up to a position, `copy_folded` what no fold changes any more,
    `copy_last` the heads in memory, and what stands behind the last commit.
    """
    partition = log.partition
    path, options = partition.path, partition.options
    partition.require_generation(partition.tail.segments.generation.number)
    partition.fold()  # derived values in memory may be of sessions that go
    following = generations.following(path)
    try:
        copy = BulkWriter(following, options)
        try:
            for _ in range(_ROUNDS):
                last = log.last_position()
                if last - copy.position <= _FEW:
                    break
                copy_to(copy, last)
            segments = partition.tail.segments  # kept: a sweep overwrites the file that LMDB's lock lies in
            with segments.environment.holding():
                copy_to(copy, log.last_position())
                copy_folded(copy)
                lock = WriterLock(path, options.busy_timeout)
                try:
                    partition.tail.lock_to_write(lock)
                    copy_to(copy, partition.tail.position)
                    with partition.tail.guard:
                        heads = partition.tail.memtable.heads()
                    copy_last(copy, heads.values())
                    _become(partition, copy)
                finally:
                    lock.release()
                    lock.close()
        finally:
            copy.close()
    except BaseException:
        generations.discard(path)
        raise


def _become(partition: Partition, copy: BulkWriter) -> None:
    """Make a copy that is complete the store, under the writers' lock."""
    tail, io = partition.tail, partition.options.io
    assert tail.mark is not None
    copy.finish(None, sequence=frames.sequence_of(tail.journal.address) + 1)
    io.reach("rewriting: made")
    partition.require_generation(tail.segments.generation.number)
    tail.mark.switch()
    io.reach("rewriting: switching")
    generations.commit(partition.path, io.random(16).hex())
    io.reach("rewriting: committed")
    tail.catch_up()
    io.reach("rewriting: moved")


def sweep(partition: Partition) -> tuple[int, ...]:
    """Remove the earlier generations once all have gone over; return who has not in time."""
    until = time.monotonic() + _MOVED
    while (pending := generations.sweep(partition.path, partition.options.io)) and time.monotonic() < until:
        time.sleep(_POLL)
    return pending
