"""How the inspector's answers grow with an eightfold history, and as many sessions."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager

import pytest

from projections.inspector import answers
from projections.inspector.catalogue import Catalogue
from projections.inspector.room import Room
from tests.growth.judging import steep_in
from tests.growth.operation import Table, constant, history
from tests.growth.place import Place, both_sizes

_EVERY = "reads every event"
_EACH = "reads a record of each session"


@contextmanager
def entered(at: Place) -> Generator[Room]:
    """A room that has been looked at: its history and its newest state are known."""
    room = Room(at.store, "long")
    answers.history(room, {}, Catalogue(at.store))
    answers.messages(room, {"seen": "1"})
    yield room


def cold(answer: Callable[..., object], **query: str) -> Callable[[Place, object], object]:
    """An answer to the first question about a session."""
    return lambda at, _: answer(Room(at.store, "long"), query)


def warm(answer: Callable[..., object], **query: str) -> Callable[[Place, Room], object]:
    """An answer to a later question."""
    return lambda _, room: answer(room, query)


ANSWERS: Table = {
    "the newest page, first": constant(cold(answers.messages)),
    "the newest page": constant(warm(answers.messages), entered),
    "the newest page, side by side": constant(warm(answers.messages, seen="1"), entered),
    "steps": history(cold(answers.steps), _EVERY),
    "steps, again": history(warm(answers.steps), "sums up all steps", entered),
    "verdicts": history(warm(answers.verdicts, first="1", last="5"), _EVERY, entered),
    "an old version": history(cold(answers.view, at="500"), "finds later redactions"),
    "events to play": constant(warm(answers.events_to_play, after="500", limit="100"), entered),
    "the window over time": history(cold(answers.window), _EVERY),
    "the list": constant(lambda at, _: Catalogue(at.store).page(limit=20)),
    "the scopes": history(lambda at, _: Catalogue(at.store).scopes(), _EACH),
    "the tree": history(lambda at, _: answers.tree(Room(at.store, "long"), {}, Catalogue(at.store)), _EACH),
}


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Place, Place]]:
    """Two stores, one eight times as large as the other in every respect."""
    with both_sizes(tmp_path_factory.mktemp("growth")) as sizes:
        yield sizes


def test_answers_grow_at_most_with_what_they_tell(places: tuple[Place, Place]) -> None:
    """A page, a list and a stretch of a replay cost the same in a history of any length."""
    assert steep_in(ANSWERS, *places) == {}
