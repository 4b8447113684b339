"""`give_title` names a session once, records what that cost, and never fails a turn."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from decimal import Decimal
from typing import cast

import pytest

from eventlog import events as ev
from eventlog.errors import CallError
from eventlog.session.session import Session
from eventlog.store import Store
from eventlog.values import File, Model, Tokens, Usage
from projections import ModelView, SummaryRequest
from projections.reports.usage import usage_by_model
from projections.window import Piece, Summarizer, Summary, ToolCalled, give_title
from projections.window.compaction.titles import LONGEST_TITLE, SYSTEM

SMALL = Model("openai", "small")
COST = Usage(Tokens(12, 3), Decimal("0.001"))


class Namer:
    """A model that answers with these pieces, and keeps what it was asked."""

    def __init__(self, *said: Piece | Exception) -> None:
        self.said = said
        self.asked: list[SummaryRequest] = []

    def __call__(self, request: SummaryRequest) -> Iterator[Piece]:
        """Answer piece by piece; an error among them is raised."""
        self.asked.append(request)
        for piece in self.said:
            if isinstance(piece, Exception):
                raise piece
            yield piece


@pytest.fixture
def session(store: Store) -> Session:
    """A session without a title that was asked something."""
    session = store.create_session()
    session.user("Why do the tests fail?", files=[File("image/png", "data:image/png;base64,AAAA")])
    return session


def costs(session: Session) -> list[ev.UsageRecorded]:
    """The recorded costs."""
    return [recorded.event for recorded in session.events() if isinstance(recorded.event, ev.UsageRecorded)]


def test_a_session_is_named_once(session: Session) -> None:
    """The title is asked for once, with the text of the first question, and is the session's."""
    before = ModelView.of(session).digest
    namer = Namer("Failing", " tests", COST)
    with session.turn("And why?", "r"):
        assert give_title(session, namer, model="openai/small") == "Failing tests"
        assert give_title(session, namer) is None
    assert session.info.title == "Failing tests"
    (request,) = namer.asked
    assert (request.system, request.model) == (SYSTEM, SMALL)
    assert "Why do the tests fail?" in str(request.messages)
    assert "base64" not in str(request.messages)
    assert costs(session) == [ev.UsageRecorded(COST, model=SMALL, purpose="title")]
    session.rollback(before=next(message.source for message in ModelView.of(session).messages[1:]))
    assert ModelView.of(session).digest == before
    assert session.info.title == "Failing tests"


def test_what_has_a_title_or_no_question_is_not_asked_for(store: Store) -> None:
    """Without a question, or with a title, no model is called."""
    namer = Namer("a title")
    assert give_title(store.create_session(), namer) is None
    named = store.create_session(title="Mine")
    named.user("hi")
    assert give_title(named, namer) is None
    assert namer.asked == []
    for wrong in ((named, "a text"), ("s", namer), (named, None)):
        with pytest.raises(CallError):
            give_title(cast("Session", wrong[0]), cast("Summarizer", wrong[1]))


@pytest.mark.parametrize(
    "said",
    [(COST, ConnectionError("gone")), (COST, ToolCalled("bash")), (COST, " \n"), (COST, 5), ("<think>Hm", COST)],
    ids=["error", "tool", "nothing", "a number", "thoughts"],
)
def test_a_failure_is_recorded_and_raises_nothing(session: Session, said: tuple[Piece, ...]) -> None:
    """A failed call leaves its cost and no title; the next call asks again."""
    assert give_title(session, Namer(*said)) is None
    assert session.info.title == ""
    assert costs(session) == [ev.UsageRecorded(COST, purpose="title", failed=True)]
    assert give_title(session, Namer("A title")) == "A title"
    (totals,) = usage_by_model(session.reader.spans())
    assert (totals.calls, totals.failed, totals.cost) == (2, 1, COST.cost)


async def in_a_task() -> AsyncIterator[str]:
    """An answer that is awaited."""
    yield "1 question"


TITLES: list[tuple[Callable[[], Summary], str]] = [
    (lambda: '<think>A long\nthought</think>\n\n## "The  title"\nand more', "The title"),
    (lambda: "word " * 100, ("word " * 100)[: LONGEST_TITLE - 1].rstrip() + "…"),
    (lambda: ["a ", *["b"] * 50_000], "a " + "b" * (LONGEST_TITLE - 3) + "…"),
    (in_a_task, "1 question"),
]


@pytest.mark.parametrize(("answer", "title"), TITLES, ids=["thoughts", "long", "endless", "a task"])
def test_a_title_is_one_short_line(session: Session, answer: Callable[[], Summary], title: str) -> None:
    """Thoughts, marks and further lines of an answer are dropped, and a long line is cut."""
    assert give_title(session, lambda _: answer()) == title
    assert len(session.info.title) <= LONGEST_TITLE


def test_a_title_that_a_user_gave_meanwhile_stays(session: Session) -> None:
    """A user who names the session while the model is asked has the last word."""

    def ask(_: SummaryRequest) -> str:
        session.rename("Mine")
        return "Yours"

    asking: Callable[[SummaryRequest], str] = ask
    assert give_title(session, asking) is None
    assert session.info.title == "Mine"
