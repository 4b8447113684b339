"""Subscribers of one store, with restarts and losses, against a plain list."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from eventlog import events as ev
from eventlog import subscription
from eventlog.codec.decoded import Recorded, events_of
from eventlog.store import Store
from tests.faults.tally import SLOW
from tests.support.engines import Engine

NAMES = [f"s{number}" for number in range(6)]


class Reader:
    """A reader that keeps its cursor with what it took in, now and then."""

    def __init__(self, store: Store, options: dict[str, Any]) -> None:
        self.options = options
        self.taken: list[Recorded] = []
        self.kept = 0
        """How many of them it has kept, with the cursor of the last one."""
        self.begin(store)

    def begin(self, store: Store) -> None:
        """Begin again at what was kept; the rest is lost."""
        del self.taken[self.kept :]
        after = self.taken[-1].cursor if self.taken else None
        self.following = store.subscribe(after, timeout=0, **self.options)

    def take(self, store: Store, count: int) -> int:
        """Take in some events, of which the uncommitted ones are only shown; return how many."""
        found = list(islice(self.following, count))
        if len(found) < count:  # it ended: another one goes on
            after = next((each.cursor for each in reversed([*self.taken, *found]) if each.cursor), None)
            self.following = store.subscribe(after, timeout=0, **self.options)
        self.taken += [recorded for recorded in found if recorded.cursor is not None]
        return len(found)

    def wants(self, recorded: Recorded) -> bool:
        """Whether the reader is to get an event."""
        session, kinds = self.options.get("session"), self.options.get("kinds")
        return session in {None, recorded.session} and (kinds is None or isinstance(recorded.event, tuple(kinds)))


class Subscribers(RuleBasedStateMachine):
    """Writers of six sessions, and readers of all or some of what they write."""

    engine_name = "partitioned"

    def __init__(self) -> None:
        super().__init__()
        self.engine = Engine(self.engine_name)
        self.readers: list[Reader] = []

    @initialize()
    def open(self) -> None:
        """Open the store."""
        self.store = self.engine.open(flush_interval=3600.0)

    def teardown(self) -> None:
        """Let every reader come to the end."""
        if self.readers:
            self.store.flush()
            for reader in self.readers:
                while reader.take(self.store, 50) == 50:
                    pass
                wanted = [each for each in self.history() if reader.wants(each)]
                assert by_session(reader.taken) == by_session(wanted)
                assert len({(each.session, each.version) for each in reader.taken}) == len(wanted)
        self.engine.close()

    def history(self) -> list[Recorded]:
        """Return the committed events, session by session."""
        return [recorded for info in self.store.sessions() for recorded in self.store.session(info.id).events()]

    @rule(name=st.sampled_from(NAMES), messages=st.integers(1, 3))
    def ask(self, name: str, messages: int) -> None:
        """Add messages to a session, and begin it with the first."""
        known = {info.id for info in self.store.sessions()}
        session = self.store.session(name) if name in known else self.store.create_session(id=name)
        with session.pipeline():
            for number in range(messages):
                session.user(f"{number}")

    @precondition(lambda self: any(True for _ in self.store.sessions()))
    @rule(data=st.data(), pieces=st.integers(1, 5), waits=st.booleans())
    def answer(self, data: st.DataObject, pieces: int, waits: bool) -> None:
        """Stream an answer, whose deltas may be accepted and not committed at its end."""
        name = data.draw(st.sampled_from([info.id for info in self.store.sessions()]))
        with self.store.session(name).assistant() as reply:
            text = reply.stream_text()
            for piece in range(pieces):
                text.append(f"{piece} ")
                if waits:
                    self.store.flush()
            for reader in self.readers[:1]:
                reader.take(self.store, 2)
            reply.finish()

    @rule(
        session=st.none() | st.sampled_from(NAMES),
        kinds=st.none() | st.just([ev.UserMessageAdded, ev.PartDelta]),
        provisional=st.booleans(),
    )
    def follow(self, session: str | None, kinds: list[Any] | None, provisional: bool) -> None:
        """Have one more reader."""
        if len(self.readers) < 4:
            options = {"session": session, "kinds": kinds, "provisional": provisional}
            self.readers.append(Reader(self.store, options))

    @precondition(lambda self: self.readers)
    @rule(data=st.data(), count=st.integers(1, 12), keeps=st.booleans())
    def read(self, data: st.DataObject, count: int, keeps: bool) -> None:
        """Let a reader take some events in, and keep its cursor, or not."""
        reader = data.draw(st.sampled_from(self.readers))
        reader.take(self.store, count)
        if keeps:
            reader.kept = len(reader.taken)

    @precondition(lambda self: self.readers)
    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        """Have a reader die; another one goes on at the cursor that was kept."""
        data.draw(st.sampled_from(self.readers)).begin(self.store)

    @rule()
    def restart(self) -> None:
        """Close the store and open it again, with what the readers kept."""
        self.store.close()
        self.store = self.engine.open(flush_interval=3600.0)
        for reader in self.readers:
            reader.begin(self.store)

    @invariant()
    def each_once_in_order(self) -> None:
        """Of each session a reader has got the first events that it wants, each once."""
        if not self.readers:
            return
        history = by_session(self.history())
        for reader in self.readers:
            for name, taken in by_session(reader.taken).items():
                assert taken == [each for each in history[name] if reader.wants(each)][: len(taken)]
            partitions: dict[int, int] = {}
            for recorded in reader.taken:
                partition = self.store.log.partition_of(recorded.session)
                assert recorded.position > partitions.get(partition, 0)
                partitions[partition] = recorded.position


def by_session(events: list[Recorded]) -> dict[str, list[Recorded]]:
    """Events by session, each in the order given."""
    found: dict[str, list[Recorded]] = {}
    for recorded in events:
        found.setdefault(recorded.session, []).append(recorded)
    return found


@pytest.mark.promise(2)
@pytest.mark.parametrize("engine_name", ["partitioned", "embedded"])
def test_subscribers_get_each_event_once(engine_name: str) -> None:
    """Promise 2: readers that lose and restart get each event once, in order."""

    class OnEngine(Subscribers):
        pass

    OnEngine.engine_name = engine_name
    examples = (60 if engine_name == "partitioned" else 15) * (20 if SLOW else 1)
    run_state_machine_as_test(OnEngine, settings=settings(max_examples=examples, stateful_step_count=30, deadline=None))


def test_the_machine_notices_a_lost_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model can fail: it rejects a subscription that leaves out one delta."""

    def forgetful(*given: Any, **more: Any) -> Iterator[Recorded]:
        events = events_of(*given, **more)
        return (each for each in events if not isinstance(each.event, ev.PartDelta) or each.event.text != "1 ")

    monkeypatch.setattr(subscription, "events_of", forgetful)
    quickly = settings(
        max_examples=500, report_multiple_bugs=False, phases=[Phase.generate], deadline=None, database=None
    )
    with pytest.raises((AssertionError, ExceptionGroup)):
        run_state_machine_as_test(Subscribers, settings=quickly)
