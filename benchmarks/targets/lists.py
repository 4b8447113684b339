"""The newest page of a scope's sessions, among few sessions and among many."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import eventlog
from benchmarks.engine import opened
from benchmarks.figures import Case, Figure, Measurement, Setting, Target
from benchmarks.measure import in_turn, timed
from eventlog.codec.batch import encode, pack
from eventlog.events import SessionStarted
from eventlog.history.catalog import CatalogEntry
from eventlog.log.contract import Append

__all__ = ["CASES"]

PAGE = 20
FEW = 1_000
MANY = 10
"""Times the sessions that are listed elsewhere."""
A_SCOPE = 20
ROUNDS = 100
"""Pages, each after one more event in the scope."""
BOUND = 2.0
"""Milliseconds."""


def fill(store: eventlog.Store, sessions: int) -> None:
    """Begin sessions, `A_SCOPE` in each scope, without waiting for each of them."""
    for number in range(sessions):
        title, scope = f"Session {number}", f"user {number % (sessions // A_SCOPE)}"
        store.log.submit(
            Append(
                session=f"s{number:06}",
                payload=encode([(number, SessionStarted(title, scope))], number),
                entry=pack(CatalogEntry(title, scope)),
                count=1,
                time=number,
                creates_at=0,
            )
        )
    store.log.sync()


def _newest(setting: Setting) -> dict[str, Measurement]:
    sizes = {"few": FEW, "many": setting.sizes.sessions * MANY}
    for name, sessions in sizes.items():
        with opened(setting.directory, f"lists-{name}") as store:
            fill(store, sessions)
    with opened(setting.directory, "lists-few") as few, opened(setting.directory, "lists-many") as many:

        def side(store: eventlog.Store) -> Callable[[], list[float]]:
            begun = count()

            def page() -> list[float]:
                session = store.session(f"s{3 * (next(begun) % 5):06}")
                session.user("Go on")
                scope = session.info.scope
                return [timed(lambda: store.newest_sessions(scope, archived=False, subsessions=False, limit=PAGE))]

            return page

        samples = in_turn({"few": side(few), "many": side(many)}, ROUNDS, warm_up=5)
    short, long = (samples[name].median * 1e3 for name in sizes)
    return {"lists.newest": Measurement(long, short), "lists.bound": Measurement(long, BOUND)}


WHAT = f"newest {PAGE} sessions of a scope, among all (100,000 in 5,000 scopes with --full)"

CASES = (
    Case(
        "lists",
        (
            Figure("lists.newest", WHAT, "ms", f"among {FEW:,} sessions", Target("<=", 2)),
            Figure("lists.bound", WHAT, "ms", f"{BOUND:g} ms", Target("<=", 1)),
        ),
        _newest,
    ),
)
