"""Lists by cost: the cost that is shown decides, recorded or estimated."""

from __future__ import annotations

import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import eventlog
from eventlog.session.session import Session
from eventlog.store import Store
from eventlog.values import Tokens, Usage
from projections.inspector import answers
from projections.inspector.catalogue import Catalogue, Estimates
from projections.inspector.room import Room
from projections.reports.usage import UsageTotals, session_usage, total
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


def _spend(session: Session, tokens: int, cost: str | None, model: str = "openai/gpt-5") -> None:
    session.record_usage(Usage(Tokens(tokens), None if cost is None else Decimal(cost)), model=model)


def _sum(found: dict[str, Any]) -> tuple[Decimal, Decimal, int]:
    return Decimal(found["cost"] or 0), Decimal(found["estimate"] or 0), found["unknown"]


def _known(sums: UsageTotals) -> tuple[Decimal, Decimal, int]:
    return sums.cost, sums.estimate, sums.unknown


@pytest.mark.parametrize("engine", ["directory", "encrypted", "postgres"])
def test_the_cost_with_sub_sessions_is_that_of_stats(engine: str, tmp_path: Path) -> None:
    """The own cost and that with sub-sessions are sums of `stats`, in list, header and tree."""
    place = new_place() if engine == "postgres" else os.fspath(tmp_path / "store")
    keys = Service() if engine == "encrypted" else None
    try:
        with eventlog.open(place, keys=keys, prices=lambda _model, _tokens: None) as store:
            top = store.create_session(id="top")
            low = top.subsession(id="low")
            for session, tokens, cost in (
                (top, 10, "0.5"),
                (low, 1_000_000, None),
                (low.subsession(id="last"), 1, "2"),
            ):
                _spend(session, tokens, cost)
            _spend(top.subsession(id="other"), 7, None, "acme/unknown")
            catalogue = Catalogue(store)
            whole = _known(total(session_usage(top).tree))
            assert whole == (Decimal("2.5"), Decimal("1.25"), 1)
            rows = {info["id"]: info for info in catalogue.page({"estimates": "1"})["sessions"]}
            assert _sum(rows["top"]) == (Decimal("0.5"), Decimal(0), 0)
            assert _sum(rows["top"]["together"]) == whole
            assert _sum(rows["low"]["together"]) == (Decimal(2), Decimal("1.25"), 0)
            assert rows["last"]["together"] is None
            assert _sum(answers.session(Room(store, "top"), {}, catalogue)["together"]) == whole
            top.fork(id="fork").record_usage(Usage(Tokens(1), Decimal(4)), model="acme/unknown")
            tree = answers.tree(Room(store, "last"), {}, catalogue)
            assert _sum(tree["cost"]) == _known(total(session_usage(top).tree))
            assert next(_sum(info["together"]) for info in tree["sessions"] if info["id"] == "top") == whole
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
