"""Readers beside writers leave catalog and facts right, on every engine."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from time import monotonic

import pytest

from eventlog import ConflictError, Session, Store
from eventlog import events as ev
from projections import ModelView, Transcript
from projections.verify.verify import verify
from tests.support.engines import ENCRYPTED, ENGINES, Engine, places
from tests.support.sample_sessions import run_together

SECONDS = 2.0
SECRET = "zebra"


place = places(*ENGINES, ENCRYPTED)


class Chat:
    """A session of several writers and readers, with each acknowledged write."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.session = store.create_session(id="chat", title="0")
        self.titles: set[str] = set()
        """Acknowledged titles."""
        self.messages: list[str] = []
        self.counted = 0
        self.redacted: list[str] = []
        self._noting = threading.Lock()

    def rename(self, session: Session, pick: random.Random) -> None:
        """Give the session a title."""
        title = f"title {pick.random()}"
        session.rename(title)
        self.titles.add(title)

    def say(self, session: Session, pick: random.Random) -> None:
        """Add a message, and take every third one's text out again."""
        message = session.user(f"{SECRET} {pick.random()}")
        if pick.random() < 0.3:
            (part,) = (
                recorded.event.part
                for recorded in session.events()
                if isinstance(recorded.event, ev.PartStarted) and recorded.event.message == message
            )
            session.redact(part, "asked for", search=False)
            self.redacted.append(part)
        self.messages.append(message)

    def count(self, session: Session, _pick: random.Random) -> None:
        """Count one up, if no other thread did meanwhile."""
        value = session.values.get("n")
        now, revision = (0, 0) if value is None else (int(str(value.value)), value.revision)
        try:
            session.values.put("n", str(now + 1), expected=revision)
        except ConflictError:
            return
        with self._noting:
            self.counted += 1

    def list_sessions(self, session: Session, _pick: random.Random) -> None:
        """Read the list that a page shows, and the session's entry."""
        self.store.newest_sessions(limit=5)
        assert session.info.title

    def search(self, _session: Session, _pick: random.Random) -> None:
        """Search all sessions."""
        self.store.search(SECRET, wait=None)

    def run(self, works: list[tuple[Session, Callable[[Session, random.Random], object]]]) -> None:
        """Let a thread do each work again and again."""
        end = monotonic() + SECONDS

        def again(number: int) -> None:
            session, work = works[number]
            pick = random.Random(number)
            while monotonic() < end:
                work(session, pick)

        run_together(len(works), again)


def read_all(session: Session, _pick: random.Random) -> None:
    """Read the session as a page shows it."""
    ModelView.of(session)
    session.values.get("n")
    list(Transcript(session).newest_first())


def read_view(session: Session, _pick: random.Random) -> None:
    """Read the view."""
    ModelView.of(session)


@pytest.mark.parametrize("handles", [1, 2])
def test_readers_beside_writers_spoil_nothing(place: Engine, handles: int) -> None:
    """Lists, counts and values have each acknowledged write, and redactions hold."""
    with place.open() as store, place.open() as other:
        chat = Chat(store)
        mine, second = chat.session, (store if handles == 1 else other).session("chat")
        chat.run(
            [
                (mine, chat.rename),
                (second, chat.say),
                (mine, chat.count),
                (second, chat.count),
                (mine, read_view),
                (second, read_all),
                (mine, chat.list_sessions),
                (mine, chat.search),
            ]
        )
        chat.session.user("the last")
        for program in (store, other):
            seen = program.session("chat")
            events = [recorded.event for recorded in seen.events()]
            titles = [event.title for event in events if isinstance(event, ev.SessionRenamed)]
            assert set(titles) == chat.titles
            assert seen.info.title == titles[-1] == program.newest_sessions(limit=1).sessions[0].title
            assert seen.info.messages == len(chat.messages) + 1
            value = seen.values.get("n")
            assert chat.counted == (0 if value is None else int(str(value.value)))
            shown = len(chat.messages) - len(chat.redacted)
            assert str(list(ModelView.of(seen).messages)).count(SECRET) == shown
            assert len(program.search(SECRET, wait=10.0, limit=10_000).hits) == shown
        report = verify(store, deep=True)
        assert report.sound, [problem for one in report.sessions for problem in one.problems]
