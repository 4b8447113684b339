"""Updates of a page, case by case: acknowledgements, resets, forks, old messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import eventlog
from eventlog.records.feed import Feed
from eventlog.records.read import Forgotten
from eventlog.session.session import Session
from eventlog.store import Store
from projections.live import live_session
from projections.live.live_session import LiveSession
from projections.transcript.message_json import Form
from projections.transcript.transcript import Transcript
from tests.support.live_page import LivePage, shown
from tests.support.toy_records import ToyMapping

HOUR = 3_600.0


@pytest.fixture
def store() -> Iterator[Store]:
    """Return a store that flushes only when it is told to."""
    with eventlog.open("memory:", flush_interval=HOUR) as opened:
        yield opened


def kinds(patches: list[dict[str, Any]]) -> list[str]:
    """Name the patches by what they do."""
    names = ("reset", "gone", "drop", "message", "of", "set", "at", "end")
    return [next(name for name in names if name in patch) for patch in patches]


def step(live: LiveSession, page: LivePage) -> list[str]:
    """Take the next update, and say what it does."""
    update = live.advance()
    if update is None:
        return []
    page.take(update.cursor, update.data)
    return kinds(update.patches)


def right(page: LivePage, session: Session) -> bool:
    """Return whether a page shows the newest messages of a session."""
    return list(page.messages.values()) == shown(session, page.next)


def test_shown_text_is_acknowledged_and_not_sent_again(store: Store) -> None:
    """Text that was shown before its commit costs 60 bytes when it is committed, however long."""
    session = store.create_session()
    page, live = LivePage(), LiveSession(store, session.id)
    with session.assistant() as reply:
        text = reply.stream_text()
        store.flush()
        assert step(live, page) == ["reset"]
        for word in ("long " * 1_000, "and short"):
            text.append(word)
            told = live.advance()
            assert told is not None
            assert told.cursor is None
            assert [patch["text"] for patch in told.patches] == [word]
            page.take(told.cursor, told.data)
        store.flush()
        acknowledged = live.advance()
        assert acknowledged is not None
        assert acknowledged.patches == []
        assert len(f"id: {acknowledged.cursor}\ndata: \n\n") + len(acknowledged.data) <= 60
        page.take(acknowledged.cursor, acknowledged.data)
        assert right(page, session)
        reply.finish()


def test_a_part_that_begins_and_is_redacted_at_once_keeps_its_place(store: Store) -> None:
    """Begun, redacted and followed by another within one update, a part is shown as redacted."""
    session = store.create_session()
    page, live = LivePage(), LiveSession(store, session.id)
    with session.assistant() as reply:
        session.flush()
        step(live, page)
        reply.add_text("secret")
        parts = [part.id for message in Transcript(session).newest_first() for part in message.parts]
        session.redact(parts[-1], search=False)
        reply.add_text("open")
        step(live, page)
        session.flush()
        step(live, page)
        assert right(page, session)
        reply.add_text("last")
        reply.finish()
        ended = [part.id for message in Transcript(session).newest_first() for part in message.parts]
        session.redact(ended[-1], search=False)
        step(live, page)
        assert right(page, session)
        assert "secret" not in str(page.messages)


def test_what_a_parent_hides_is_hidden_in_a_fork(store: Store) -> None:
    """A redaction or forgotten record of the parent resets the page of a fork."""
    parent = store.create_session()
    feed = Feed(parent, ToyMapping())
    numbers = feed.add([{"kind": "user", "text": "secret"}, {"kind": "user", "text": "private"}])
    fork = parent.fork()
    page, live = LivePage(), LiveSession(store, fork.id)
    step(live, page)
    part = next(iter(page.messages.values()))["parts"][0]["id"]
    parent.redact(part, search=False)
    assert step(live, page) == ["reset"]
    assert right(page, fork)
    other, own = LivePage(), LiveSession(store, parent.id)
    step(own, other)
    feed.forget([numbers[1]])
    assert isinstance(feed.read([numbers[1]])[0], Forgotten)
    for live_page, follower, session in ((page, live, fork), (other, own, parent)):
        assert step(follower, live_page) == ["reset"]
        assert right(live_page, session)
        assert "private" not in str(live_page.messages)
    stale = LiveSession(store, fork.id, page.cursor)
    assert stale.advance() is None


def test_a_cursor_that_leads_nowhere_is_a_reset(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cursor of another session, too far back, ahead, or of no shape is a reset."""
    session, other = store.create_session(), store.create_session()
    for each in (session, other):
        each.user("one")
        each.user("two")
    first = LiveSession(store, other.id).advance()
    assert first is not None
    for cursor in (first.cursor, "", "3", "3.", "99.00000000", "-1.00000000", "²./", "x" * 5_000):
        update = LiveSession(store, session.id, cursor).advance()
        assert update is not None
        assert kinds(update.patches) == ["reset"]
    begun = LiveSession(store, session.id).advance()
    assert begun is not None
    session.user("three")
    near = LiveSession(store, session.id, begun.cursor).advance()
    assert near is not None
    assert kinds(near.patches) == ["message"]
    monkeypatch.setattr(live_session, "FARTHEST", 1)
    far = LiveSession(store, session.id, begun.cursor).advance()
    assert far is not None
    assert kinds(far.patches) == ["reset"]


@pytest.mark.parametrize("bound", ["MOST_PATCHES", "MOST_BYTES"])
def test_a_page_that_is_far_behind_is_reset(store: Store, bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """More patches, or more bytes, than a slow client is kept are one reset instead."""
    session = store.create_session()
    page, live = LivePage(), LiveSession(store, session.id, limit=3)
    step(live, page)
    session.user("a")
    assert step(live, page) == ["message"]
    monkeypatch.setattr(live_session, bound, {"MOST_PATCHES": 4, "MOST_BYTES": 2_000}[bound])
    for number in range(9):
        session.user(f"{number}")
    assert step(live, page) == ["reset"]
    assert len(page.messages) == 3
    assert right(page, session)


def test_a_page_is_bounded_in_bytes(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page has as many messages as fit, one at least; older ones follow."""
    monkeypatch.setattr(live_session, "MOST_BYTES", 10_000)
    session = store.create_session()
    for number in range(9):
        session.user(f"{number}" * 3_000)
    session.user("x" * 50_000)
    page, live = LivePage(), LiveSession(store, session.id, limit=8)
    assert step(live, page) == ["reset"]
    assert [len(message["parts"][0]["text"]) for message in page.messages.values()] == [50_000]
    session.user("small")
    assert step(live, page) == ["message"]
    form, sizes = Form(live_session.LONGEST), list[int]()
    while page.next is not None:
        answer = live_session.page_of(session, Transcript(session), form, 8, page.next)
        sizes.append(len(answer["messages"]))
        page.add_older(answer)
    assert sizes == [2, 2, 2, 2, 1]
    assert [message["version"] for message in page.messages.values()] == [
        message.version for message in Transcript(session).oldest_first()
    ]


def test_a_page_that_comes_back_shows_what_its_connection_committed(store: Store) -> None:
    """Resuming reads the session, so a reply begins on the disk: the first update has it."""
    session = store.create_session()
    session.user("hello")
    page, live = LivePage(), LiveSession(store, session.id)
    step(live, page)
    live = LiveSession(store, session.id, page.cursor)
    with session.assistant() as reply:
        reply.stream_text()
        step(live, page)
        assert right(page, session)
        reply.finish()
