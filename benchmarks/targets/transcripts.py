"""The newest page of a transcript, in sessions of every length."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.engine import opened
from benchmarks.figures import Case, Figure, Measurement, Setting, Target
from benchmarks.history import begun, small_turns
from benchmarks.measure import in_turn, timed
from projections.transcript.transcript import Transcript

__all__ = ["CASES"]

PAGE = 20
SHORT = 1_000
"""Messages of the session that the longest one is compared with."""
ROUNDS = 50
"""Pages, each after one more message."""


def _pages(setting: Setting) -> dict[str, Measurement]:
    lengths = SHORT, setting.sizes.lengths[-1]
    with opened(setting.directory, "pages") as store:
        names = {str(length): begun(store, small_turns(length // 2)) for length in lengths}

        def side(name: str) -> Callable[[], list[float]]:
            session = store.session(name)

            def page() -> list[float]:
                session.user("Go on")
                return [timed(lambda: Transcript(session).page(PAGE))]

            return page

        samples = in_turn({length: side(name) for length, name in names.items()}, ROUNDS, warm_up=2)
    short, long = (samples[str(length)].median * 1e3 for length in lengths)
    return {"transcript.page": Measurement(long, short)}


CASES = (
    Case(
        "transcript",
        (
            Figure(
                "transcript.page",
                f"newest page of {PAGE} messages, longest session (100,000 messages with --full)",
                "ms",
                f"in a session of {SHORT:,} messages",
                Target("<=", 1.2),
            ),
        ),
        _pages,
    ),
)
