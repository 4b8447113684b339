"""The total of a session counts the messages that are visible, in every handle and copy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from eventlog import Feed, RecordBuilder
from eventlog import events as ev
from eventlog.codec.batch import encode
from eventlog.log.commit import Append
from eventlog.open_store import open_store
from eventlog.store import Store
from projections.verify.streams import Problem
from projections.verify.verify import verify
from tests.support.engines import Engine


def problems(store: Store) -> list[Problem]:
    """The faults that a deep check finds."""
    return [problem for session in verify(store, deep=True).sessions for problem in session.problems]


class Removing:
    """Records that are messages to add, or messages to remove, by their names."""

    format = "removing"

    def read(self, record: Any, to: RecordBuilder) -> None:
        """Add or remove what the record names."""
        for name in record:
            if not to.remove(name):
                to.user(name)


def test_a_wrong_total_is_found(tmp_path: Path) -> None:
    """A head whose total is not what its appends say is reported by `verify`."""
    with open_store(tmp_path / "s") as store:
        session = store.create_session(id="s")
        session.user("hi")
        session.rollback(1)
        payload = encode([(5, ev.MetadataSet("a", "1"))], 5, 7)
        store.log.submit(Append(session="s", payload=payload, count=1, time=5, messages=7)).wait()
        assert verify(store).sound
        (report,) = verify(store, deep=True).sessions
        assert [problem.problem for problem in report.problems if "visible" in problem.problem]


def test_a_forgotten_removal_counts_its_message_again() -> None:
    """A message whose removal was forgotten is shown again, and counted."""
    with Engine("memory").open() as store:
        session = store.create_session()
        first, _ = session.user("one"), session.user("two")
        session.remove_message(first)
        removed = session.version
        assert session.info.messages == 1
        session.append([(1, ev.RecordForgotten(((removed, removed),)))])
        assert session.info.messages == 2
        session.rollback(removed - 1)
        assert session.info.messages == 2
        session.redo()
        assert session.info.messages == session.fork().info.messages == 2


def test_a_fork_follows_its_parent_with_the_next_append() -> None:
    """A fork's total leaves out what its parent forgot since, once a new handle appends."""
    engine = Engine("memory")
    with engine.open() as store:
        parent = store.create_session()
        feed = Feed(parent, Removing())
        (number, _) = feed.add([["a"], ["b"]])
        fork, other = parent.fork().id, parent.fork()
        feed.forget([number])
        assert parent.info.messages == 1
        assert store.session(fork).info.messages == 2
        assert problems(store) == []
        with engine.open() as later:
            later.session(fork).rename("new")
            assert later.session(fork).info.messages == 1
        Feed(other, Removing()).forget([number])
        other.rename("new")
        assert other.info.messages == 1
        assert parent.fork().info.messages == 1
