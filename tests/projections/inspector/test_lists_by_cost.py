"""Lists by cost: the cost that is shown decides, recorded or estimated."""

from __future__ import annotations

import os
from decimal import Decimal
from pathlib import Path

import pytest
from msgspec.structs import replace

import eventlog
from eventlog.session.session import Session
from eventlog.store import Store
from eventlog.values import Tokens, Usage
from projections.inspector.catalogue import Catalogue, Estimates
from tests.support.encrypted_store import Service
from tests.support.postgres_server import give_back, new_place

_COSTS = {"dear": (3_000_000, None), "recorded": (10, "2.5"), "cheap": (1_000_000, None)}
"""By session its tokens and the recorded cost; list prices make 3.75 and 1.25."""


def _fill(store: Store) -> None:
    for name, (tokens, cost) in _COSTS.items():
        with store.create_session(id=name).assistant("openai/gpt-5") as reply:
            reply.finish(usage=Usage(Tokens(tokens), None if cost is None else Decimal(cost)))


@pytest.mark.parametrize("engine", ["directory", "encrypted", "postgres"])
def test_order_and_bound_are_by_the_shown_cost(engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call without a recorded cost counts with its estimate; until then the list says so."""
    place = new_place() if engine == "postgres" else os.fspath(tmp_path / "store")
    keys = Service() if engine == "encrypted" else None
    try:
        with eventlog.open(place, keys=keys, prices=lambda _model, _tokens: None) as store:
            _fill(store)
            catalogue = Catalogue(store)
            first = catalogue.page({"sort": "cost"})
            assert (first["unestimated"], first["estimating"]) == (2, True)
            assert first["sessions"][0]["id"] == "recorded"
            page = catalogue.page({"sort": "cost", "estimates": "1"})
            assert (page["unestimated"], page["estimating"]) == (0, False)
            assert [info["id"] for info in page["sessions"]] == ["dear", "recorded", "cheap"]
            shown = [Decimal(info["cost"] or 0) + Decimal(info["estimate"] or 0) for info in page["sessions"]]
            assert shown == sorted(shown, reverse=True)
            bounded = catalogue.page({"cost": "2", "sort": "created"})["sessions"]
            assert {info["id"] for info in bounded} == {"dear", "recorded"}
            monkeypatch.setattr("projections.inspector.catalogue._SLICE", -1.0)
            late = Catalogue(store).page({"cost": "2", "estimates": "1"})
            assert (late["unestimated"], late["estimating"]) == (2, True)
    finally:
        if engine == "postgres":
            give_back(place)


def test_what_was_estimated_stays_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list that asks on comes to an end, however many sessions the store has."""
    many = 60_000
    with eventlog.open("memory:") as store:
        session = store.create_session()
        info = replace(session.info, unpriced=1, version=session.version, events=1)

        def same(_: str) -> Session:
            return session

        monkeypatch.setattr(store, "session", same)  # to make so many takes a minute
        estimates = Estimates(store)
        monkeypatch.setattr("projections.inspector.catalogue._SLICE", 60.0)
        estimates.of(replace(info, id=str(number)) for number in range(many))
        assert len(estimates.of((replace(info, id=str(number)) for number in range(many)), wait=False)) == many
