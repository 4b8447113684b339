"""What history costs where there is much of it: counted in events read, or as a ratio of processor time at two sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from time import process_time

import pytest

import eventlog
from eventlog import events as ev
from eventlog.log.base import Commit, Log
from eventlog.session import Session
from eventlog.values import Patch, Text

SMALL, LARGE = 1_000, 8_000
"""Messages, or what else is counted, of the two sizes."""


def talk(session: Session, messages: int) -> None:
    """Questions and answers in turn, a hundred in an append."""
    made: list[ev.Event] = []
    for number in range(messages):
        name = f"{session.id} {session.version} {number}"
        if number % 2:
            made += [ev.AssistantMessageStarted(name), ev.PartStarted(name, f"{name}:text", Text("answer"))]
            made += [ev.PartEnded(f"{name}:text"), ev.MessageFinished(name, "stop")]
        else:
            made += [ev.UserMessageAdded(name), ev.PartStarted(name, f"{name}:text", Text("question"))]
        if number % 100 == 99 or number == messages - 1:
            session.append([(0, event) for event in made])
            made = []


@pytest.fixture
def events_read(monkeypatch: pytest.MonkeyPatch) -> Callable[[Log], list[int]]:
    """Lets a test count the events that a log reads from here on, read by read."""

    def counting(log: Log) -> list[int]:
        counts: list[int] = []
        read = log.read

        def watched(session: str, after: int = 0, upto: int | None = None) -> Iterator[Commit]:
            for commit in read(session, after, upto):
                counts.append(commit.count)
                yield commit

        monkeypatch.setattr(log, "read", watched)
        return counts

    return counting


def test_rolling_back_the_newest_message_reads_that_message(
    tmp_path: Path, events_read: Callable[[Log], list[int]]
) -> None:
    """A rollback, and its redo, cost what they hide or show again, whatever the length of the history."""
    found: list[tuple[int, int]] = []
    for messages in (SMALL, LARGE):
        with eventlog.open(tmp_path / str(messages)) as store:
            session = store.create_session(id="s")
            talk(session, messages)
            version = session.version
            session.user([Text("the newest"), Patch("hash", ("a.py",))], id="newest")
            counts = events_read(store.log)
            assert session.rollback(before="newest").patches == (Patch("hash", ("a.py",)),)
            back = sum(counts)
            session.redo()
            forth = sum(counts) - back
            session.rollback(version)
            found.append((back, forth))
    assert found[0] == found[1]
    assert sum(found[0]) < 10


def test_a_rollback_costs_the_same_after_ten_thousand_others(tmp_path: Path) -> None:
    """10,000 rollbacks stay fast: the next one and its redo take the processor no longer than after an eighth of them."""

    def cost(rollbacks: int) -> float:
        with eventlog.open(tmp_path / str(rollbacks)) as store:
            session = store.create_session(id="s")
            talk(session, 10)
            version, made = session.version, list[ev.Event]()
            for number in range(rollbacks):  # to and fro, and something is said each time
                version += 2
                to = version - 2 if number % 3 else 20 + number % 7
                made += [ev.Custom("n", "{}"), ev.RolledBack(to)]
            session.append([(0, event) for event in made])
            best = 1e9
            for _ in range(7):
                begin = process_time()
                session.rollback(session.version - 1)
                session.rollback(25)
                session.redo()
                best = min(best, process_time() - begin)
            return best

    assert any(cost(10_000 + attempt) < 2 * cost(1_250 + attempt) for attempt in range(3))
