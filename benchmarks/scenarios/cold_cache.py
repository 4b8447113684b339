"""Open and load a conversation whose files are not in the page cache.

A user who comes back the next day waits for that.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import eventlog
from benchmarks.figures import Case, Figure, Measurement, Setting
from benchmarks.history import begun, small_turns
from benchmarks.measure import Timing, in_turn, spent
from benchmarks.scenarios.latency import add_rows, beside, figures_of
from benchmarks.scenarios.page_cache import PageCount, drop
from benchmarks.scenarios.sqlite_sessions import SqliteSessions
from projections.transcript.transcript import Transcript

__all__ = ["CASES"]

PAGE = 50
"""Messages of the newest page."""


def _engine(path: Path, session: str, *, page: bool) -> None:
    with eventlog.open(path) as store:
        transcript = Transcript(store.session(session))
        messages = transcript.page(PAGE) if page else transcript.oldest_first()
    assert messages


def _sqlite(path: Path, *, page: bool) -> None:
    with SqliteSessions(path) as sqlite:
        messages = sqlite.page("s", PAGE) if page else sqlite.load("s")
    assert messages


def _loads(setting: Setting) -> dict[str, Measurement]:
    sizes = setting.sizes
    ours, theirs = setting.directory / "engine", setting.directory / "sqlite"
    with eventlog.open(ours) as store:
        session = begun(store, small_turns(sizes.history // 2))
    with SqliteSessions(theirs) as sqlite:
        sqlite.turns(small_turns(sizes.history // 2), "s")
    still_cached: list[PageCount] = []

    def cold(path: Path, work: Callable[[], None]) -> Callable[[], list[Timing]]:
        def side() -> list[Timing]:
            still_cached.append(drop(path))
            return [spent(work)]

        return side

    works: dict[str, tuple[Path, Callable[[], None]]] = {
        "load": (ours, lambda: _engine(ours, session, page=False)),
        "page": (ours, lambda: _engine(ours, session, page=True)),
        "sqlite.load": (theirs, lambda: _sqlite(theirs, page=False)),
        "sqlite.page": (theirs, lambda: _sqlite(theirs, page=True)),
    }
    samples = in_turn({name: cold(*work) for name, work in works.items()}, sizes.rounds * 4)
    warm = in_turn({"load": lambda: [spent(works["load"][1])]}, sizes.rounds * 4)
    rows = {
        "everdelta, whole": samples["load"],
        f"everdelta, newest {PAGE}": samples["page"],
        "everdelta, whole, page cache warm": warm["load"],
        "SQLite FULL, whole": samples["sqlite.load"],
        f"SQLite FULL, newest {PAGE}": samples["sqlite.page"],
    }
    add_rows(setting.notes, "open, load and close, page cache cold", rows)
    return {
        **beside("cold.load", samples["load"], samples["sqlite.load"]),
        **beside("cold.page", samples["page"], samples["sqlite.page"]),
        **beside("cold.warm", samples["load"], warm["load"]),
        "cold.left": Measurement(sum(it.there for it in still_cached), sum(it.all for it in still_cached)),
    }


SQLITE_COLD = "SQLite, a row for each message, its files dropped too"

CASES = (
    Case(
        "cold",
        (
            *figures_of("cold.load", "open, load a whole conversation and close, page cache cold", SQLITE_COLD),
            *figures_of("cold.page", f"open, load its newest {PAGE} messages and close, page cache cold", SQLITE_COLD),
            *figures_of("cold.warm", "open, load a whole conversation and close, page cache cold", "page cache warm"),
            Figure(
                "cold.left",
                "pages that were still cached after dropping (of this system; a host's not)",
                "pages",
                "all",
            ),
        ),
        _loads,
    ),
)
