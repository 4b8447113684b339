"""The cost of every public operation and command, at two sizes, against its class."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from projections.window.prune.planners import PLANNERS
from tests.faults.tally import SLOW
from tests.growth.judging import compared
from tests.growth.measuring import least
from tests.growth.names import public_operations
from tests.growth.operation import Grows, constant, history
from tests.growth.place import LARGE, SMALL, Place, Shape, both_sizes, built
from tests.growth.tables import BESIDE, TABLES, WITHOUT, name_of

ALL = TABLES | BESIDE
UNTOUCHED = {"transcripts", "live pages", "the inspector"}
"""Tables that are measured on stores in which no other operation has left anything."""
ENTRIES = [name_of(entry) for table in TABLES.values() for entry in table]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Place, Place]]:
    """Two stores, one eight times as large as the other in every respect."""
    with both_sizes(tmp_path_factory.mktemp("growth")) as sizes:
        yield sizes


def test_every_public_name_has_a_class() -> None:
    """Every public operation and command has a table entry, and every entry a name."""
    public = public_operations()
    assert public - set(ENTRIES) == set(WITHOUT), "give it an entry in a table of this folder"
    assert set(ENTRIES) <= public


def test_what_reads_the_history_says_why() -> None:
    """Each operation of class HISTORY states its reason."""
    for table in ALL.values():
        for name, operation in table.items():
            assert bool(operation.why) == (operation.grows is Grows.HISTORY), name


@pytest.mark.timeout(900)
@pytest.mark.parametrize("table", ALL)
def test_no_operation_grows_faster_than_its_class(places: tuple[Place, Place], table: str) -> None:
    """With an eightfold history an operation costs what its declared class allows."""
    small, large = [place.copy() for place in places] if table in UNTOUCHED else places
    found = {
        name: compared(operation, small, large, LARGE.messages / SMALL.messages, patience=3 if SLOW else 1)
        for name, operation in ALL[table].items()
    }
    if table in UNTOUCHED:
        small.remove()
        large.remove()
    steep = {
        name: f"{growth.small.seconds * 1e3:.3f} ms, {growth.large.seconds * 1e3:.3f} ms: {growth.ratio:.1f} times"
        for name, growth in found.items()
        if not growth.sound
    }
    assert not steep


@pytest.mark.parametrize("planner", sorted(PLANNERS))
def test_a_prune_is_planned_in_twenty_microseconds_a_message(places: tuple[Place, Place], planner: str) -> None:
    """At both sizes, once the sizes of the results are known."""
    for place in places:
        with place.wide_window as window:
            now = window.state.situation()
            now.prune_plan(inside=True, planner=planner)
            seconds = least(partial(now.prune_plan, inside=True, planner=planner), 10)
            assert seconds <= 20e-6 * len(now.messages), f"{seconds / len(now.messages) * 1e6:.1f} µs a message"


@pytest.mark.timeout(900)
@pytest.mark.skipif(not SLOW, reason="the long form, with EVERDELTA_SLOW=1")
@pytest.mark.parametrize(
    "table", ["stores", "commands", "sessions", "cold sessions", "replies", "views", "cold views", "windows"]
)
def test_an_operation_grows_at_most_with_the_number_of_sessions(tmp_path: Path, table: str) -> None:
    """Beside eight times the sessions it costs the same, or for a whole store eight times."""
    small, large = (built(tmp_path / str(number), Shape(400, number)) for number in (1_000, 8_000))
    of_one = table not in {"stores", "commands"}
    steep: dict[str, float] = {}
    for name, operation in TABLES[table].items():
        judged = constant(operation.run, operation.within, copied=operation.copied) if of_one else operation
        growth = compared(judged, small, large, 8)
        if not growth.sound and name != "Session.redact":  # which looks for the text in all sessions
            steep[name] = growth.ratio
    small.close()
    large.close()
    assert not steep


def test_a_cost_that_grows_is_found(tmp_path: Path) -> None:
    """The harness finds linear cost declared constant, and quadratic declared linear."""
    small, large = Place(tmp_path, Shape(1_000, 0)), Place(tmp_path, Shape(8_000, 0))
    linear = constant(lambda at, _: sum(range(at.shape.messages * 20)))
    assert not compared(linear, small, large, 8).sound
    quadratic = history(lambda at, _: sum(range(at.shape.messages**2 // 20)), "a test")
    assert not compared(quadratic, small, large, 8).sound
    assert compared(linear._replace(grows=Grows.HISTORY), small, large, 8).sound
    assert compared(constant(lambda _at, _: sum(range(10_000))), small, large, 8).sound


def test_the_time_of_threads_and_children_counts() -> None:
    """Processor time of threads and child processes counts as part of a call."""
    from threading import Thread

    def work() -> None:
        thread = Thread(target=lambda: sum(range(500_000)))
        thread.start()
        thread.join()

    assert least(work) > 0.3 * least(lambda: sum(range(500_000)))
