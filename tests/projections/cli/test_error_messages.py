"""Messages for a new user: ambiguous ids, unknown values, times, narrow terminals."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

import eventlog
from eventlog.values import Tokens, Usage
from projections import event_kind, event_record, event_summary
from projections.cli.exits import Exit
from tests.support.cli_runner import Cli, valid

NOW = 1_750_000_000_000
"""2025-06-15T15:06:40Z."""


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli) -> Cli:
    """The command line on a store of three sessions: cost known, cost unknown, no model call."""
    monkeypatch.setenv("EVENTLOG_STORE", str(tmp_path / "store"))
    with eventlog.open(tmp_path / "store", clock=lambda: NOW) as store:
        for name, cost in (("priced", Decimal("0.25")), ("unpriced", None)):
            session = store.create_session(id=name, title="A title of some words")
            session.user("question")
            with session.assistant(model="acme/one") as reply:
                reply.add_text("answer")
                reply.finish(usage=Usage(Tokens(10, 5), cost))
        store.create_session(id="quiet").user("one message")
    return cli


def test_a_beginning_names_the_session_that_others_begin_with(tmp_path: Path, cli: Cli) -> None:
    """`abcdef` names `abcdefg` beside `abcdefg:side`, and is ambiguous beside `abcdefh`."""
    with eventlog.open(tmp_path / "store") as store:
        for name in ("abcdefg", *(f"abcdefg:side{number}" for number in range(9))):
            store.create_session(id=name)
    assert cli("stats", "abcdef", "--json").json["session"]["id"] == "abcdefg"
    assert cli("stats", "abcdefg:side3", "--json").json["session"]["id"] == "abcdefg:side3"
    with eventlog.open(tmp_path / "store") as store:
        store.create_session(id="abcdefh")
    refused = cli("stats", "abcdef")
    assert (refused.code, "more than one session begins with 'abcdef': abcdefg, abcdefg:side0" in refused.err) == (
        Exit.USAGE,
        True,
    )
    assert cli("stats", "abcdefg:", "--json").code == Exit.USAGE


def test_a_cost_that_nobody_said_is_unknown(cli: Cli) -> None:
    """`sessions` and `stats` give no cost where no call has a price, instead of zero."""
    listed = cli("sessions", "--json").json
    valid("sessions", listed)
    costs = {info["id"]: info["cost"] for info in listed["sessions"]}
    assert costs == {"priced": "0.25", "unpriced": None, "quiet": None}
    for name in ("priced", "unpriced"):
        found = cli("stats", name, "--json").json
        valid("stats", found)
        assert [spent["cost"] for spent in found["session"]["usage"]["own"]] == [costs[name]]


def test_a_diff_backwards_says_so(cli: Cli) -> None:
    """Towards an earlier version a missing part is "not there yet", not rolled back."""
    with_all = cli("stats", "priced", "--json").json["session"]["version"]
    found = cli("diff", "priced", with_all, 1, "--json").json
    valid("diff", found)
    assert {change["kind"] for change in found["changes"]} == {"later"}
    assert cli("diff", "priced", with_all, 1).out.splitlines()[-2].startswith("not there yet: 2 parts in 2 messages")
    assert cli("rollback", "priced", "--to", 1).code == Exit.OK
    gone = cli("diff", "priced", with_all, with_all + 1, "--json").json
    assert {change["kind"] for change in gone["changes"]} == {"rolled-back"}


@pytest.mark.parametrize(
    ("since", "found"),
    [
        ("2025-06-15", 3),
        ("2025-06-16", 0),
        ("2025-06-15T15:06:40", 3),
        ("2025-06-15 15:06:40Z", 3),
        ("2025-06-15T15:06:41", 0),
        ("2025-06-15T17:06:40+02:00", 3),
        ("1s", 0),
        ("9999w", 3),
        ("99y", 3),
        ("today", 0),
        ("yesterday", 0),
    ],
)
def test_since_takes_a_time_or_how_long_ago(cli: Cli, since: str, found: int) -> None:
    """--since takes a date, a time or a duration; times without a zone are UTC."""
    assert len(cli("sessions", "--since", since, "--json").json["sessions"]) == found


@pytest.mark.parametrize("since", ["soon", "30", "2025-13-01", "30d ago", ""])
def test_since_says_what_it_takes(cli: Cli, since: str) -> None:
    """A wrong time is a wrong call that lists the accepted forms."""
    refused = cli("sessions", "--since", since)
    assert refused.code == Exit.USAGE
    assert "as in 2025-01-31 or 2025-01-31T17:30, or how long ago, as in 30d or 1y" in refused.err
    assert "Value error" not in refused.err
    aged = cli("expire", "--age", since)
    assert (aged.code, "a number and s, m, h, d, w or y, as in 30d" in aged.err) == (Exit.USAGE, True)


def test_times_say_that_they_are_utc(cli: Cli) -> None:
    """Tables and lines for people mark times as UTC."""
    for command in (["sessions"], ["events", "quiet"], ["timeline", "quiet"]):
        assert "2025-06-15 15:06:40Z" in cli(*command).out


def test_one_is_not_many(cli: Cli) -> None:
    """Singular and plural are right, and every table begins with a header."""
    assert "1 message of the view, " in cli("view", "quiet").out
    assert "2 messages of the view, " in cli("view", "priced").out
    head, *rows = (line.split("\t") for line in cli("stats").out.splitlines())
    assert head[0] == "store"
    assert dict(rows)["sessions"] == "3"


def test_an_event_has_a_public_form_for_interfaces(tmp_path: Path, cli: Cli) -> None:
    """`projections.event_record` gives the line of `events --json`, provisional events too."""
    lines = cli("events", "priced", "--json").out.splitlines()
    with eventlog.open(tmp_path / "store") as store:
        session = store.session("priced")
        events = list(store.subscribe(session="priced", timeout=0))
        assert [event_record(found) for found in events] == [json.loads(line) for line in lines]
        assert [event_kind(found.event) for found in events] == [json.loads(line)["kind"] for line in lines]
        assert event_summary(events[0].event).startswith("title='A title of some words'")
        following = store.subscribe(store.cursor(), session="priced", provisional=True, timeout=30)
        with session.assistant() as reply:
            reply.stream_text().append("early")
            early = next(found for found in following if event_kind(found.event) == "part-delta")
            valid("events", event_record(early))
            assert (event_record(early)["cursor"], event_record(early)["event"]["text"]) == (None, "early")
