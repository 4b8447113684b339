"""Sums of costs say how many calls have no price, and mark what is estimated."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import pytest

import eventlog
from eventlog.errors import DamagedError
from projections.cli.exits import Exit
from projections.inspector import answers
from projections.inspector.room import Room
from projections.reports import usage
from tests.support.cli_runner import Cli, on_terminal, valid

TOKENS = eventlog.Tokens(input=100_000, output=2_000)
KNOWN, UNKNOWN = "openai/gpt-5", "acme/secret"
RECORDED = Decimal("0.05")
CALLS = 8
"""Calls of the known model without a cost."""


def spend(session: eventlog.Session, model: str, cost: Decimal | None = None) -> None:
    """Record one call of a model."""
    with session.assistant(model) as reply:
        reply.add_text("yes")
        reply.finish(usage=eventlog.Usage(TOKENS, cost))


@pytest.fixture
def price(tmp_path: Path) -> Decimal:
    """Make a store whose costs are recorded in part; return the list price of a known call."""
    with eventlog.open(tmp_path / "store", prices=lambda _model, _tokens: None) as store:
        for name in ("imported", "mixed", "other", "paid"):
            store.create_session(id=name, title=name).user("hello")
        for _ in range(CALLS):
            spend(store.session("imported"), KNOWN)
        spend(store.session("mixed"), KNOWN, RECORDED)
        spend(store.session("mixed"), UNKNOWN)
        spend(store.session("other"), UNKNOWN)
        spend(store.session("paid"), KNOWN, RECORDED)
        found = store.host.models.price(eventlog.Model("openai", "gpt-5"), TOKENS)
        assert found is not None
        return found.cost


def test_the_store_counts_unpriced_calls(cli: Cli, price: Decimal) -> None:
    """`stats` has what was recorded, how many calls were not, and the estimate apart."""
    totals = cli("stats", "--json").json
    valid("stats", totals)
    found = totals["store"]
    assert (found["calls"], found["unpriced"], found["estimated"]) == (CALLS + 4, CALLS + 2, CALLS)
    assert (Decimal(found["cost"]), Decimal(found["estimate"])) == (2 * RECORDED, CALLS * price)
    assert [one["id"] for one in found["dearest"]] == ["imported", "mixed", "paid"]
    assert [(one["unpriced"], one["estimated"]) for one in found["dearest"]] == [(CALLS, CALLS), (1, 0), (0, 0)]
    rows = dict(line.split("\t") for line in cli("stats").out.splitlines())
    assert (rows["cost"], rows["calls of unknown cost"]) == (str(2 * RECORDED), str(CALLS + 2))
    (estimate,) = [value for name, value in rows.items() if name.startswith("estimate")]
    assert Decimal(estimate) == CALLS * price


def test_a_damaged_session_does_not_stop_the_counting(
    cli: Cli, price: Decimal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`stats` goes on without the estimate of a session that cannot be read, and names it."""
    whole = usage.own_total

    def damaged(session: eventlog.Session) -> usage.UsageTotals:
        if session.id == "mixed":
            raise DamagedError("a chunk is damaged")
        return whole(session)

    monkeypatch.setattr(usage, "own_total", damaged)
    answer = cli("stats", "--json")
    found = answer.json["store"]
    assert (answer.code, found["calls"], found["unpriced"]) == (Exit.OK, CALLS + 4, CALLS + 2)
    assert Decimal(found["estimate"]) == CALLS * price
    assert "session mixed: no cost of it is estimated: a chunk is damaged; `eventlog verify`" in answer.err


def test_the_store_is_counted_by_model_and_by_scope(cli: Cli, tmp_path: Path) -> None:
    """`stats --by model` and `--by scope` list what each cost, the dearest first."""
    with eventlog.open(tmp_path / "store", prices=lambda _model, _tokens: None) as store:
        for scope, model, cost in (("a", UNKNOWN, "0.5"), ("b", UNKNOWN, "0.25"), ("", KNOWN, "2")):
            store.create_session(scope=scope).record_usage(eventlog.Usage(TOKENS, Decimal(cost)), model=model)
    for by, expected in (
        ("model", {KNOWN: "2", UNKNOWN: "0.75"}),
        ("scope", {"no scope": "2", "a": "0.5", "b": "0.25"}),
    ):
        found = cli("stats", "--by", by, "--json").json
        valid("stats", found)
        assert all({*row} & {"day", "model", "scope"} == {by} for row in found[f"{by}s"])
        assert [row[by] or f"no {by}" for row in found[f"{by}s"]] == [*expected]
        rows = [line.split("\t") for line in cli("stats", "--by", by).out.splitlines()]
        assert {row[0]: row[-1] for row in rows[1:]} == expected
        assert rows[0][0] == by
    shown = on_terminal("--store", tmp_path / "store", "stats", "--by", "model", columns=80)[1]
    assert KNOWN in shown


def test_what_a_cache_gave_and_took_is_told_apart(cli: Cli, tmp_path: Path) -> None:
    """Tokens read from a cache and written to it are two columns; those read are always shown."""
    with eventlog.open(tmp_path / "store") as store:
        session = store.create_session(id="cached")
        session.record_usage(eventlog.Usage(eventlog.Tokens(1, 2, 0, 777, 333)), model=KNOWN)
        session.record_usage(eventlog.Usage(eventlog.Tokens(1)), model=UNKNOWN)
    header, row = (line.split("\t") for line in cli("stats", "--by", "day").out.splitlines())
    found = dict(zip(header, row, strict=True))
    assert (found["cache read"], found["cache write"]) == ("777", "333")
    for columns in (80, 100, 120):
        shown = on_terminal("--store", tmp_path / "store", "stats", "cached", columns=columns)[1]
        assert "cache read" in shown
        assert "777" in shown
        days = on_terminal("--store", tmp_path / "store", "stats", "--by", "day", columns=columns)[1]
        assert "cache read" in days.splitlines()[0]


def test_the_store_is_counted_by_day(cli: Cli, price: Decimal) -> None:
    """`stats --by day` sums up to what the store cost, and is for the store alone."""
    found = cli("stats", "--by", "day", "--json").json
    valid("stats", found)
    assert sum(day["calls"] for day in found["days"]) == CALLS + 4
    assert sum(Decimal(day["cost"] or 0) for day in found["days"]) == 2 * RECORDED
    assert sum(Decimal(day["estimate"] or 0) for day in found["days"]) == CALLS * price
    first = cli("stats", "--by", "day").out.splitlines()[1].split("\t")
    assert len(first[0]) == len("2026-01-01")
    assert first[-1].startswith("≥")
    assert Decimal(first[-1][1:]) == 2 * RECORDED + CALLS * price
    assert cli("stats", "--by", "day", "paid").code == Exit.USAGE


def test_a_terminal_marks_what_is_not_known(tmp_path: Path, price: Decimal) -> None:
    """On a terminal ≈ marks an estimate, and ≥ a sum that lacks a call."""
    store = tmp_path / "store"
    _, stats = on_terminal("--store", store, "stats")
    assert f"≈ ${CALLS * price:,.2f}" in stats
    assert "≥ $0.05" in stats
    _, listed = on_terminal("--store", store, "sessions")
    lines = {name: next(line for line in listed.splitlines() if name in line) for name in ("imported", "mixed", "paid")}
    assert "?" in lines["imported"]
    assert "≥ $0.05" in lines["mixed"]
    assert "$0.05" in lines["paid"]
    assert "≥" not in lines["paid"]


def test_sessions_count_unpriced_calls(cli: Cli, price: Decimal) -> None:
    """`sessions` counts the calls of each session, and those that its cost lacks."""
    del price
    listed = cli("sessions", "--json").json
    valid("sessions", listed)
    assert {one["id"]: (one["cost"], one["calls"], one["unpriced"]) for one in listed["sessions"]} == {
        "imported": (None, CALLS, CALLS),
        "mixed": (str(RECORDED), 2, 1),
        "other": (None, 1, 1),
        "paid": (str(RECORDED), 1, 0),
    }


def test_a_timeline_estimates_its_calls(cli: Cli, price: Decimal) -> None:
    """`timeline` estimates each call without a cost, and sums up both and what is not known."""
    document = cli("timeline", "imported", "--json").json
    valid("timeline", document)
    calls = [entry for entry in document["entries"] if "estimate" in entry]
    assert [Decimal(entry["estimate"]) for entry in calls] == [price] * CALLS
    assert not any("cost" in entry or "spent" in entry for entry in calls)
    assert f"≈ ${CALLS * price:,.4f}" in cli("timeline", "imported").err
    assert f"${RECORDED}, not known for 1 call" in cli("timeline", "mixed").err


def test_exports_have_the_estimate(cli: Cli, price: Decimal, tmp_path: Path) -> None:
    """SQLite has an estimate beside each missing cost, HTML says what it does not know."""
    path = tmp_path / "all.db"
    assert cli("export", "--format", "sqlite", "--output", path).code == Exit.OK
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT id, cost, unpriced, estimate FROM sessions ORDER BY id").fetchall()
        calls = connection.execute("SELECT cost, estimate FROM usage WHERE session = 'imported'").fetchall()
    assert rows == [
        ("imported", None, CALLS, str(CALLS * price)),
        ("mixed", str(RECORDED), 1, None),
        ("other", None, 1, None),
        ("paid", str(RECORDED), 0, None),
    ]
    assert calls == [(None, str(price))] * CALLS
    assert f"≈ ${CALLS * price:,.4f}" in cli("export", "imported", "--format", "html").out
    assert f"${RECORDED}, not known for 1 call" in cli("export", "mixed", "--format", "html").out
    assert "not known" in cli("export", "other", "--format", "html").out


def test_replies_without_usage_are_told_beside_each_sum(cli: Cli, tmp_path: Path) -> None:
    """One that a user stopped, and one whose provider told none: the sum is a lower bound."""
    with eventlog.open(tmp_path / "store") as store:
        session = store.create_session(id="cut")
        session.user("go")
        spend(session, UNKNOWN, RECORDED)
        for end in (eventlog.Reply.abort, eventlog.Reply.finish):
            session.user("go on")
            with session.assistant(UNKNOWN) as reply:
                reply.add_text("so")
                end(reply)
        steps = answers.steps(Room(store, "cut"), {})
    assert (steps["untold"], steps["cost"]) == (2, str(RECORDED))
    told = f"${RECORDED}, + 2 replies without usage"
    assert told in cli("timeline", "cut").err
    assert told in cli("stats", "cut").out
    assert "≥ $0.05" in on_terminal("--store", tmp_path / "store", "stats", "cut")[1]
    found = cli("stats", "cut", "--json").json
    valid("stats", found)
    assert [sums["untold"] for sums in found["session"]["usage"]["own"]] == [2]
    history = cli("timeline", "cut", "--json").json
    valid("timeline", history)
    assert history["untold"] == 2
