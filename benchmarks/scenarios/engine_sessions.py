"""What scenarios begin with: stores in use for a while, and sessions with a history.

Made through public names only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import eventlog
from benchmarks.engine import take_turn
from benchmarks.workloads import Turn

__all__ = ["begun_session", "only_session", "season"]

SEASON = 40
"""Megabytes written first, if turns are not fewer: then the journal's files have their full size and are used again."""


def season(path: Path, count: int) -> None:
    """Write to a store until `count` turns cost what they cost after months."""
    with eventlog.open(path) as store:
        session = store.create_session(title="what was before")
        noise = json.dumps("x" * (1 << 20))
        for _ in range(min(SEASON, count)):
            session.record_custom("benchmark", noise)
        store.erase(session.id)


def begun_session(store: eventlog.Store, work: Iterable[Turn]) -> eventlog.Session:
    """A new session with these turns; nothing holds its lease afterwards."""
    session = store.create_session(title="history")
    with session.lease():
        for turn in work:
            take_turn(session, turn)
    return session


def only_session(store: eventlog.Store) -> eventlog.Session:
    """The session of a store that has one."""
    [info] = store.sessions()
    return store.session(info.id)
