"""Answers that a live page and the inspector's page ask for."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

from projections.inspector import answers
from projections.inspector.catalogue import Catalogue
from projections.inspector.room import Room
from projections.live.live_session import LiveSession
from tests.growth.operation import Table, constant, history
from tests.growth.place import Place

_EVERY = "reads every event"
_EACH = "reads a record of each session"


@contextmanager
def _shown(at: Place) -> Generator[LiveSession]:
    """A page that was sent, and a rename since."""
    live = LiveSession(at.store, "long")
    live.advance()
    at.store.session("long").rename("Another title")
    yield live


@contextmanager
def _entered(at: Place) -> Generator[Room]:
    """A room that has been looked at: its history and its newest state are known."""
    room = Room(at.store, "long")
    answers.history(room, {}, Catalogue(at.store))
    answers.messages(room, {"seen": "1"})
    yield room


def _cold(answer: Callable[..., object], **query: str) -> Callable[[Place, object], object]:
    """An answer to the first question about a session."""
    return lambda at, _: answer(Room(at.store, "long"), query)


def _warm(answer: Callable[..., object], **query: str) -> Callable[[Place, Room], object]:
    """An answer to a later question."""
    return lambda _, room: answer(room, query)


PAGES: Table = {
    "LiveSession.advance, the first page": constant(lambda at, _: LiveSession(at.store, "long").advance()),
    "LiveSession.advance, what came": constant(lambda _, live: live.advance(), _shown),
    "LiveSession.is_ahead": constant(lambda _, live: live.is_ahead, _shown),
}
ANSWERS: Table = {
    "the newest page, first": constant(_cold(answers.messages)),
    "the newest page": constant(_warm(answers.messages), _entered),
    "the newest page, side by side": constant(_warm(answers.messages, seen="1"), _entered),
    "steps": history(_cold(answers.steps), _EVERY),
    "steps, again": history(_warm(answers.steps), "sums up all steps", _entered),
    "verdicts": history(_warm(answers.verdicts, first="1", last="5"), _EVERY, _entered),
    "an old version": constant(_cold(answers.view, at="500")),
    "events to play": constant(_warm(answers.events_to_play, after="500", limit="100"), _entered),
    "the window over time": history(_cold(answers.window), _EVERY),
    "the list": constant(lambda at, _: Catalogue(at.store).page({"limit": "20"})),
    "the scopes": history(lambda at, _: Catalogue(at.store).scopes(), _EACH),
    "the tree": history(lambda at, _: answers.tree(Room(at.store, "long"), {}, Catalogue(at.store)), _EACH),
}
"""Answers of the inspector, which have no public names."""
