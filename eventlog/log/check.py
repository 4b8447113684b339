"""Verification of a log in memory or on a server: commits, positions and bodies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eventlog.errors import DamagedError
from eventlog.log.merkle_check import first_mismatch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eventlog.log.contract import Log

_PAGE = 1000


def check(log: Log) -> list[str]:
    """Read a whole log; return a line for each thing that is wrong."""
    faults: list[str] = []
    gone = [False] * log.partitions
    for head in log.heads():
        gone[log.partition_of(head.session)] |= head.gone
        try:
            mismatch = first_mismatch(head, log.read(head.session, 0, head.version))
        except DamagedError as error:
            faults.append(str(error))
            continue
        if mismatch is not None:
            faults.append(str(DamagedError(mismatch.problem, session=head.session, version=mismatch.version)))
    last = log.last_positions()
    for partition in range(log.partitions):
        faults += _gaps(log, partition, last[partition], may_have=gone[partition])
    for digest in log.bodies():
        try:
            log.body(digest)
        except DamagedError as error:
            faults.append(str(error))
    return faults


def _gaps(log: Log, partition: int, last: int, *, may_have: bool) -> Iterator[str]:
    """Yield the places where positions do not continue; those of removed commits are no fault."""
    end = 0
    while commits := log.commits_after(end, _PAGE, partition=partition):
        for commit in commits:
            if commit.position <= end or (commit.position > end + 1 and not may_have):
                yield f"session {commit.session}: position {commit.position} where {end + 1} belongs"
            if log.partition_of(commit.session) != partition:
                yield f"session {commit.session}: in partition {partition}, where it does not belong"
            end = commit.last_position
    if end > log.last_positions()[partition] or (end < last and not may_have):
        yield f"partition {partition}: it ends at position {end}, its counter says {last}"
