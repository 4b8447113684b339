"""Updates of a page, case by case: acknowledgements, resets, forks, old messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import eventlog
from eventlog.errors import NotFoundError
from eventlog.records.feed import Feed
from eventlog.records.read import Forgotten
from eventlog.session.session import Session
from eventlog.store import Store
from projections.live import live_session
from projections.live.form import Form
from projections.live.live_session import LiveSession
from projections.loop import ContextWindow
from projections.transcript.transcript import Transcript
from tests.support.live_page import LivePage, as_utf16
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
    form = Form(live_session.LONGEST)
    messages = as_utf16([form.message(message) for message in Transcript(session).oldest_first()])
    return list(page.messages.values()) == [
        message for message in messages if page.next is None or message["version"] >= page.next
    ]


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


def test_text_that_was_never_committed_goes(store: Store) -> None:
    """Text that is lost after it was shown is cut, in one connection and after the next."""
    session = store.create_session()
    pages = [(LivePage(), LiveSession(store, session.id)) for _ in range(2)]
    with session.assistant() as reply:
        text = reply.stream_text()
        text.append("kept")
        store.flush()
        for page, live in pages:
            assert step(live, page) == ["reset"]
        text.append(" lost")
        for page, live in pages:
            assert step(live, page) == ["at"]
        session.executor.writer.buffer.drop()
        (first, live), (second, _) = pages
        assert step(live, first) == ["end"]
        assert step(LiveSession(store, session.id, second.cursor), second) == ["end"]
        assert right(first, session)
        assert right(second, session)
        reply.finish()


def test_a_repeated_delta_changes_nothing(store: Store) -> None:
    """A delta that comes twice is known by its offset, also behind characters of two units."""
    session = store.create_session()
    page, live = LivePage(), LiveSession(store, session.id)
    with session.assistant() as reply:
        text = reply.stream_text()
        store.flush()
        step(live, page)
        for word in ("😀", "é\ud83d", "\ude00!"):
            text.append(word)
            told = live.advance()
            assert told is not None
            for _ in range(2):
                page.take(told.cursor, told.data)
        store.flush()
        step(live, page)
        assert right(page, session)
        reply.finish()


def test_an_old_message_changes_where_it_stands(store: Store) -> None:
    """Changes of messages before the first page reach a page that has read them since."""
    session = store.create_session()
    names = [session.user(f"{number}") for number in range(9)]
    page, live = LivePage(), LiveSession(store, session.id, limit=2)
    step(live, page)
    form = Form(live_session.LONGEST)
    page.add_older(
        live_session.page_of(session, Transcript(session), form, 9, page.next) if page.next is not None else {}
    )
    assert len(page.messages) == 9
    first = next(iter(page.messages.values()))["parts"][0]["id"]
    session.redact(first, search=False)
    assert step(live, page) == ["set"]
    session.remove_message(names[1])
    assert step(live, page) == ["message"]
    assert right(page, session)


def test_a_compaction_covers_the_page_and_drops_what_is_older(store: Store) -> None:
    """A compaction marks the newest messages; the page forgets those before."""
    session = store.create_session()
    for number in range(12):
        session.user(f"question {number} " + "about a long matter " * 200)
        with session.assistant("openai/gpt-5") as reply:
            reply.add_text(f"answer {number}")
            reply.finish()
    page, live = LivePage(), LiveSession(store, session.id, limit=20)
    step(live, page)
    with ContextWindow(session, limits=eventlog.Limits(context=40_000, output=4_000)) as window:
        assert window.compact().completed
    assert "drop" in step(live, page)
    assert any(message["covered"] for message in page.messages.values())
    assert right(page, session)
    session.context.undo_compaction()
    assert "drop" in step(live, page)
    assert not any(message["covered"] for message in page.messages.values())
    assert right(page, session)


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


def test_an_erased_session_is_gone(store: Store) -> None:
    """A page of a session that is erased is told once; one that never was is an error."""
    session = store.create_session()
    session.user("hello")
    page, live = LivePage(), LiveSession(store, session.id)
    step(live, page)
    store.erase(session.id)
    assert step(live, page) == ["gone"]
    assert live.advance() is None
    assert step(LiveSession(store, session.id, page.cursor), LivePage()) == ["gone"]
    with pytest.raises(NotFoundError):
        LiveSession(store, "unknown").advance()


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


def test_a_drop_leaves_no_gap(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that has fewer messages than the limit goes on behind its own oldest one."""
    monkeypatch.setattr(live_session, "MOST_BYTES", 10_000)
    session = store.create_session()
    for number in range(9):
        session.user(f"{number}" * 3_000)
    page, live = LivePage(), LiveSession(store, session.id, limit=8)
    step(live, page)
    began = page.next
    page.apply({"drop": 2})
    assert page.next == began


def test_a_long_text_is_cut(store: Store) -> None:
    """A text beyond the longest is cut while it grows, and says so."""
    session = store.create_session()
    page, live = LivePage(), LiveSession(store, session.id, longest=10)
    with session.assistant() as reply:
        text = reply.stream_text()
        store.flush()
        step(live, page)
        for word in ("12345678", "9012", "345"):
            text.append(word)
            step(live, page)
            store.flush()
            step(live, page)
        (message,) = page.messages.values()
        assert message["parts"][-1]["text"] == "1234567890"
        assert message["parts"][-1]["cut"] is True
        assert live_session.part_of(session, message["parts"][-1]["id"])["text"] == "123456789012345"
        reply.finish()
