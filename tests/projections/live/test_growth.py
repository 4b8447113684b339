"""How live pages grow with an eightfold history, and as many sessions."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager

import pytest

from projections.live.live_session import LiveSession
from tests.growth.judging import steep_in
from tests.growth.operation import Table, constant
from tests.growth.place import Place, both_sizes


@contextmanager
def shown(at: Place) -> Generator[LiveSession]:
    """A page that was sent, and a rename since."""
    live = LiveSession(at.store, "long")
    live.advance()
    at.store.session("long").rename("Another title")
    yield live


PAGES: Table = {
    "the first page": constant(lambda at, _: LiveSession(at.store, "long").advance()),
    "what came": constant(lambda _, live: live.advance(), shown),
    "whether anything came": constant(lambda _, live: live.is_ahead, shown),
}


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Place, Place]]:
    """Two stores, one eight times as large as the other in every respect."""
    with both_sizes(tmp_path_factory.mktemp("growth")) as sizes:
        yield sizes


def test_pages_cost_the_same_in_any_history(places: tuple[Place, Place]) -> None:
    """A first page and a later patch cost the same in a history eight times as long."""
    assert steep_in(PAGES, *places) == {}
