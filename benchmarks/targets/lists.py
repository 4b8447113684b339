"""The newest page of a scope's sessions, among few sessions and among many.

Each session has a question and an answer, so that a page counts visible messages, and finds out
whether a session is unfinished.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import eventlog
from benchmarks.engine import opened
from benchmarks.figures import Case, Figure, Measurement, Setting, Target
from benchmarks.measure import in_turn, timed
from eventlog.codec.batch import encode, pack
from eventlog.events import AssistantMessageStarted, MessageFinished, SessionStarted, UserMessageAdded
from eventlog.history.catalog import CatalogEntry
from eventlog.log.contract import Append

__all__ = ["A_SCOPE", "CASES", "fill"]

PAGE = 20
FEW = 1_000
MANY = 10
"""Times the sessions that are listed elsewhere."""
A_SCOPE = 20
ROUNDS = 100
"""Pages, each after one more event in the scope."""
UNSEEN = 30
"""Pages of scopes of which the process has not read a session."""
BOUND = 2.0
"""Milliseconds."""


def fill(store: eventlog.Store, sessions: int, *, known: bool = True) -> None:
    """Begin sessions, `A_SCOPE` in each scope, without waiting for each of them.

    Unless it is `known` that they are answered, a list reads each session to find that out.
    """
    for number in range(sessions):
        title, scope = f"Session {number}", f"user {number % (sessions // A_SCOPE)}"
        events = (
            SessionStarted(title, scope),
            UserMessageAdded("q"),
            AssistantMessageStarted("a", "q"),
            MessageFinished("a", "stop"),
        )
        store.log.submit(
            Append(
                session=f"s{number:06}",
                payload=encode([(number, event) for event in events], number, 2),
                entry=pack(CatalogEntry(title, scope, answered=len(events) if known else 0)),
                count=len(events),
                messages=2,
                time=number,
                creates_at=0,
            )
        )
    store.log.sync()


def page_of(store: eventlog.Store, scope: str) -> float:
    """Read the newest page of a scope; return the seconds it took."""
    return timed(lambda: store.newest_sessions(scope, archived=False, subsessions=False, limit=PAGE))


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
                return [page_of(store, session.info.scope)]

            return page

        def unseen(store: eventlog.Store) -> Callable[[], list[float]]:
            scopes = count(5)
            return lambda: [page_of(store, f"user {next(scopes)}")]

        samples = in_turn({"few": side(few), "many": side(many)}, ROUNDS, warm_up=5)
        first = in_turn({"few": unseen(few), "many": unseen(many)}, UNSEEN, warm_up=1)
    short, long = (samples[name].median * 1e3 for name in sizes)
    fresh = first["many"].median * 1e3
    return {
        "lists.newest": Measurement(long, short),
        "lists.bound": Measurement(long, BOUND),
        "lists.unseen": Measurement(fresh, first["few"].median * 1e3),
    }


WHAT = f"newest {PAGE} sessions of a scope with totals and states, among all (100,000 in 5,000 scopes with --full)"

CASES = (
    Case(
        "lists",
        (
            Figure("lists.newest", WHAT, "ms", f"among {FEW:,} sessions", Target("<=", 2)),
            Figure("lists.bound", WHAT, "ms", f"{BOUND:g} ms", Target("<=", 1)),
            Figure(
                "lists.unseen",
                f"{WHAT}, which the process reads first",
                "ms",
                f"among {FEW:,} sessions",
                Target("<=", 2),
            ),
        ),
        _newest,
    ),
)
