"""A redaction takes every title that quotes the part, whenever the session had it."""

from __future__ import annotations

from pathlib import Path

import pytest

import eventlog
from eventlog.session.redact import _quotes
from eventlog.testing.file_search import files_with
from projections.verify.verify import verify
from tests.support.sample_sessions import started

SECRET = "hunter2 of the vault"


def test_a_title_between_others_goes_with_the_part(tmp_path: Path) -> None:
    """Also where titles were redacted before; after a scrub no file has it, and all verifies."""
    with eventlog.open(tmp_path / "store") as store:
        session = store.create_session(title="New chat")
        asked = [session.user(f"{SECRET}, {name}") for name in ("the first", "the second")]
        for message, name in zip(asked, ("the first", "the second"), strict=True):
            session.rename(f"{SECRET}, {name}")
            session.rename(f"About {name}")
            session.redact(started(session, {message})[0])
        assert session.info.title == "About the second"
        head = store.head()
        store.scrub()
        assert verify(store, deep=True, against=head).sound
    assert not files_with(tmp_path / "store", SECRET)


def test_a_title_between_others_of_a_subsession_goes_with_the_call(tmp_path: Path) -> None:
    """The input of a call is quoted by a title that the sub-session had for a while."""
    with eventlog.open(tmp_path / "store") as store:
        session = store.create_session()
        session.user("Do it")
        with session.assistant(model="acme/one") as reply:
            call = reply.tool("task", call_id="c1", input={"prompt": SECRET})
            call.succeed("done")
            reply.finish("tool-calls")
        child = session.subsession()
        child.rename(SECRET)
        child.rename("Neutral")
        session.redact(call.id)
        store.scrub()
        assert child.info.title == "Neutral"
        assert SECRET not in str([recorded.event for recorded in child.events()])


def test_a_part_that_a_fork_kept_of_an_erased_session_is_redacted(tmp_path: Path) -> None:
    """The session that said it is gone; the titles of its forks go with the part."""
    with eventlog.open(tmp_path / "store") as store:
        session = store.create_session(title="New chat")
        asked = session.user(f"{SECRET}, again and again")
        fork = session.fork()
        fork.rename(SECRET)
        fork.rename("Better")
        store.erase(session.id, forks="keep")
        fork.redact(started(fork, {asked})[0])
        store.scrub()
        assert SECRET not in str([recorded.event for recorded in fork.events()])


@pytest.mark.parametrize("given", ["Better", f"{SECRET}, again"])
def test_a_title_given_during_a_redaction_is_kept_or_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    """A redaction decides on the newest title, also on one that came while it looked."""
    with eventlog.open(tmp_path / "store") as store:
        session = store.create_session(title=SECRET)
        asked = session.user(f"{SECRET}, again and again")

        def late(title: str, said: list[str]) -> bool:
            if session.info.title == SECRET:
                session.rename(given)
            return _quotes(title, said)

        monkeypatch.setattr("eventlog.session.redact._quotes", late)
        session.redact(started(session, {asked})[0], search=False)
        assert session.info.title == ("Better" if given == "Better" else "")
        store.scrub()
        assert SECRET not in str([recorded.event for recorded in session.events()])
