"""Opening and loading a conversation whose files are not in the page cache.

That is what a user waits for who comes back the next day.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import eventlog
from benchmarks.figures import Case, Figure, Measured, Setting
from benchmarks.history import small_turns
from benchmarks.scenarios.engine_sessions import begun_session, only_session
from benchmarks.scenarios.page_cache import Cached, drop
from benchmarks.scenarios.spread import Taken, figures_of, measured, spreads, taken
from benchmarks.scenarios.sqlite_sessions import SqliteSessions
from projections.transcript.transcript import Transcript

__all__ = ["CASES"]

PAGE = 50
"""Messages of the newest page."""


def _engine(path: Path, *, page: bool) -> None:
    with eventlog.open(path) as store:
        transcript = Transcript(only_session(store))
        found = transcript.page(PAGE) if page else transcript.oldest_first()
    assert found


def _sqlite(path: Path, *, page: bool) -> None:
    with SqliteSessions(path) as sqlite:
        found = sqlite.page("s", PAGE) if page else sqlite.load("s")
    assert found


def _loads(setting: Setting) -> dict[str, Measured]:
    sizes = setting.sizes
    ours, theirs = setting.directory / "engine", setting.directory / "sqlite"
    with eventlog.open(ours) as store:
        begun_session(store, small_turns(sizes.history // 2))
    with SqliteSessions(theirs) as sqlite:
        sqlite.turns("s", small_turns(sizes.history // 2))
    left: list[Cached] = []

    def cold(path: Path, work: Callable[[], None]) -> Callable[[], list[Taken]]:
        def side() -> list[Taken]:
            left.append(drop(path))
            return [taken(work)]

        return side

    works: dict[str, tuple[Path, Callable[[], None]]] = {
        "load": (ours, lambda: _engine(ours, page=False)),
        "page": (ours, lambda: _engine(ours, page=True)),
        "sqlite.load": (theirs, lambda: _sqlite(theirs, page=False)),
        "sqlite.page": (theirs, lambda: _sqlite(theirs, page=True)),
    }
    found = spreads({name: cold(*work) for name, work in works.items()}, sizes.rounds * 4)
    warm = spreads({"load": lambda: [taken(works["load"][1])]}, sizes.rounds * 4)
    return {
        **measured("cold.load", found["load"], found["sqlite.load"]),
        **measured("cold.page", found["page"], found["sqlite.page"]),
        **measured("cold.warm", found["load"], warm["load"]),
        "cold.left": Measured(sum(it.there for it in left), sum(it.all for it in left)),
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
