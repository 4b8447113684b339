"""A scrub takes a redacted title out of the catalog entries inside encrypted appends."""

from __future__ import annotations

from pathlib import Path

import pytest

import eventlog
from projections.verify.verify import verify
from tests.support.encrypted_store import SECRET, Service, opened_by_the_keys
from tests.support.postgres_server import running
from tests.support.sample_sessions import exchange, started


@pytest.fixture(params=["directory", "server"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place without a store on each engine."""
    return str(tmp_path / "store") if request.param == "directory" else running().new_schema()


def test_every_entry_that_had_a_redacted_title_loses_it_and_no_other_does(place: str) -> None:
    """Titles given later stay, and those of others; what such appends redacted stays redacted."""
    with eventlog.open(place, keys=Service()) as store:
        shelf = store.shelf("prices")
        for price in "80", "90":
            shelf.values.put("hotel", price)
        session = store.create_session(id="p", title="First")
        other = store.create_session(id="o", title="Other")
        session.user("also secret", id="a")
        session.user(SECRET, id="m")
        session.rename(SECRET[:20])
        for one in session, other:
            exchange(one)
            one.record_usage(eventlog.Usage(eventlog.Tokens(3, 1)), model="acme/one")
        session.redact(started(session, {"a"})[0])  # recorded by an append whose entry has the title
        session.set_note("behind it")
        session.redact(started(session, {"m"})[0])
        session.rename("Last")
        session.set_note("at last")
        head, shown = store.head(), [info.title for info in store.sessions()]
        assert SECRET[:20].encode() in opened_by_the_keys(store)

        store.scrub()
        left = opened_by_the_keys(store)
        said = {title: title in left for title in (b"First", SECRET[:20].encode(), b"Other", b"Last")}
        assert list(said.values()) == [False, False, True, True], said
        assert [info.title for info in store.sessions()] == shown
        assert list(store.shelves()) == ["prices"]
        assert verify(store, deep=True, against=head).sound

        head, stored = store.head(), [*store.log.engine.read("p"), *store.log.engine.read("o")]
        assert store.scrub().emptied == 0
        assert (store.head(), [*store.log.engine.read("p"), *store.log.engine.read("o")]) == (head, stored)
