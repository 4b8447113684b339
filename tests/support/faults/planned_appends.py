"""Comparison of a log with the appends that were planned for it."""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from eventlog.log.commit import Append, Committed, LeaseState
from eventlog.log.contract import Log

OPTIONS: dict[str, Any] = {
    "journal_bytes": 32 << 10,
    "fold_bytes": 24 << 10,
    "map_bytes": 64 << 20,
    "busy_timeout": 5.0,
}
"""A journal of a few files that are folded and reused, with short waits."""


AT_LAST = LeaseState(99, b"me", 5)
"""The lease that is written without an append, after all appends."""


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


def compare(log: Log, plan: Sequence[Append], acknowledged: Sequence[Committed]) -> int:
    """Fail unless the log is a prefix of the plan with all acknowledged appends; count it."""
    found = log.commits_after(0, 1_000_000)
    assert len(found) <= len(plan), "more was found than was submitted"
    position = 1
    for commit, append in zip(found, plan, strict=False):
        assert (commit.session, commit.payload, commit.count, commit.request) == (
            append.session,
            append.payload,
            append.count,
            append.request,
        ), f"position {commit.position} holds another append than the one submitted there"
        assert commit.position == position, "positions are not contiguous"
        position += commit.count
    spans = {(commit.session, commit.first, commit.last, commit.position) for commit in found}
    gone = [one for one in acknowledged if (one.session, one.first, one.last, one.position) not in spans]
    assert not gone, f"acknowledged and gone: {gone[0]}"
    for session in {commit.session for commit in found}:
        commits = list(log.read(session))
        assert [commit.payload for commit in commits] == [c.payload for c in found if c.session == session]
        version = 0
        for commit in commits:
            assert commit.first == version + 1, "versions are not contiguous"
            version = commit.last
        head = log.head(session)
        assert head is not None
        assert (head.version, head.appends) == (version, len(commits))
        assert head.lease in (lease_after(plan[: len(found)], session), AT_LAST), "a lease is not that of its append"
    for append in plan[: len(found)]:
        for digest, body in append.bodies:
            assert log.body(digest) == body, "a body is gone"
    assert log.check() == []
    return len(found)


def complete(log: Log, plan: Sequence[Append]) -> None:
    """Submit the whole plan again with its request ids: missing appends go in, once."""
    known = len(log.commits_after(0, 1_000_000))
    for number, append in enumerate(plan):
        assert log.submit(append).wait(30).repeated == (number < known), f"request {append.request} was not settled"
    assert compare(log, plan, []) == len(plan)
    assert log.body(hashlib.sha256(b"no such body").digest()) is None


def settle(log: Log, append: Append) -> Committed:
    """Resubmit an append of unknown outcome: a committed one returns its result."""
    known = log.request(append.session, append.request or "")
    again = log.submit(append).wait(30)
    assert again.repeated == (known is not None), "a request was settled wrongly"
    return again


@contextmanager
def scratch() -> Generator[Path]:
    """A directory in memory if possible, as replayed recordings need no flush to a disk."""
    memory = Path("/", "dev", "shm")
    with TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as directory:
        yield Path(directory)
