"""Ctrl-C in the thread that commits: each waiter hears an outcome, and it is true."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from itertools import count

import pytest

from eventlog.errors import UnknownOutcomeError
from eventlog.log.commit import Append, Committed, LeaseState
from eventlog.log.postgres.engine import PostgresLog
from eventlog.log.postgres.opening import open_log
from tests.faults.tally import SLOW, tally
from tests.support.interrupter import breaks_off

STEP = 1 if SLOW else 13
"""Which places are tried: each, or one of so many."""


def appended(log: PostgresLog, append: Append) -> None:
    """Append and wait; the outcome may be unknown."""
    with suppress(UnknownOutcomeError):
        log.submit(append).wait()


@pytest.mark.promise(1, 4)
def test_an_interrupted_commit_leaves_no_waiter(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Promises 1, 4: interrupted anywhere, each append is committed once, refused or unknown."""
    log = open_log(place)
    lane = log._commits
    monkeypatch.setattr(lane._worker, "call", lambda: False)  # the waiting thread commits, as where none is to be had
    for session in ("s", "t"):
        log.submit(Append(session=session, payload=b"first", count=1, time=1, creates_at=0)).wait()
    unknown = tried = 0
    for at in count(1, STEP):
        tried += 1
        tickets = {
            b"%s %d" % (session.encode(), at): log.submit(
                Append(session=session, payload=b"%s %d" % (session.encode(), at), count=1, time=1)
            )
            for session in ("s", "t")
        }
        interrupted = breaks_off(
            at, partial(appended, log, Append(session="s", payload=b"own %d" % at, count=1, time=1))
        )
        log.sync()
        stored = [commit.payload for session in ("s", "t") for commit in log.read(session)]
        for payload, ticket in tickets.items():
            assert ticket.done()
            try:
                done = ticket.wait()
            except UnknownOutcomeError:
                unknown += 1
                assert stored.count(payload) <= 1
            else:
                assert isinstance(done, Committed)
                assert stored.count(payload) == 1
        if not interrupted:
            break
    assert tried > 20
    assert unknown
    held = LeaseState(1, b"me", 10)
    assert log.set_lease("s", held, replaces=LeaseState())
    assert log.check() == []
    log.close()
    tally("places of a commit on a server that were interrupted", tried)
