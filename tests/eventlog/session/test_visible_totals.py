"""The total of a session counts the messages that are visible, in every handle and copy."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from eventlog import Feed, RecordBuilder
from eventlog import events as ev
from eventlog.codec.batch import encode
from eventlog.errors import RefusedError
from eventlog.history.catalog import entry_of
from eventlog.history.cursor import cursor_at
from eventlog.history.forgotten import forgotten_in
from eventlog.history.ranges import Range, covers, merged, without
from eventlog.history.streams import head_of
from eventlog.log.contract import Append
from eventlog.session.reply import Reply
from eventlog.session.session import Session, Sessions
from eventlog.store import Store, open_store, repair, restore
from projections.verify.streams import Problem
from projections.verify.verify import verify
from tests.faults.tally import SLOW
from tests.support.engines import ENCRYPTED, Engine

PICKS = st.integers(0, 1 << 16)
STORES = st.integers(0, 1)


def shown(store: Store, session: str, at: int | None = None) -> frozenset[str]:
    """The messages that are visible after a version of a session, by its events.

    What was forgotten by then is left out; now all that is forgotten, in parents as well.
    """
    events = list(store.session(session).events(upto=at))
    forgotten = store.session(session).reader.forgotten()
    if at is not None:
        own = [one.event.ranges for one in events if isinstance(one.event, ev.RecordForgotten)]
        forgotten = merged(chain.from_iterable(own))
    found = [frozenset[str]()]
    for recorded in events:
        event, now = recorded.event, found[-1]
        if isinstance(event, ev.RolledBack) or not covers(forgotten, recorded.version):
            match event:
                case ev.UserMessageAdded() | ev.AssistantMessageStarted():
                    now |= {event.message}
                case ev.MessageRemoved():
                    now -= {event.message}
                case ev.RolledBack():
                    now = found[event.to]
                case _:
                    pass
        found.append(now)
    return found[-1]


def problems(store: Store) -> list[Problem]:
    """The faults that a deep check finds."""
    return [problem for session in verify(store, deep=True).sessions for problem in session.problems]


def forgotten_in_parents(store: Sessions, session: str) -> list[Range]:
    """The records that were forgotten in the parents of a session."""
    return without(forgotten_in(store.log, session), entry_of(head_of(store.log, session)).forgotten)


class Removing:
    """Records that are messages to add, or messages to remove, by their names."""

    format = "removing"

    def read(self, record: Any, to: RecordBuilder) -> None:
        """Add or remove what the record names."""
        for name in record:
            if not to.remove(name):
                to.user(name)


class TotalsMachine(RuleBasedStateMachine):
    """Two handles add, remove, roll back, redo, fork, compact and import messages."""

    engine_name = "memory"

    @initialize()
    def begin(self) -> None:
        """Begin one session."""
        self.engine = Engine(self.engine_name)
        self.stores = [self.engine.open() for _ in range(2)]
        self.names = [self.stores[0].create_session().id]
        self.open: tuple[Reply, ExitStack, str] | None = None
        self.late: set[str] = set()
        """Forks that do not follow yet what was forgotten in a parent."""

    def session(self, store: int, pick: int) -> Session:
        """A session, through one of the handles."""
        return self.stores[store].session(self.names[pick % len(self.names)])

    def is_busy(self, session: Session) -> bool:
        """Whether a reply is open in it."""
        return self.open is not None and self.open[2] == session.id

    @rule(store=STORES, pick=PICKS, queued=st.booleans())
    def ask(self, store: int, pick: int, *, queued: bool) -> None:
        """Add a user message, also while a reply streams elsewhere."""
        self.session(store, pick).user("hi", delivery="queue" if queued else "steer")

    @rule(store=STORES, pick=PICKS)
    def several(self, store: int, pick: int) -> None:
        """Add two messages and a title in one append."""
        session = self.session(store, pick)
        with session.pipeline():
            session.user("one")
            session.rename("title")
            session.user("two")

    @precondition(lambda self: self.open is None)
    @rule(store=STORES, pick=PICKS)
    def begin_reply(self, store: int, pick: int) -> None:
        """Leave a reply open, with accepted text."""
        session, stack = self.session(store, pick), ExitStack()
        reply = stack.enter_context(session.assistant())
        reply.stream_text().append("word")
        self.open = reply, stack, session.id

    @precondition(lambda self: self.open is not None)
    @rule()
    def end_reply(self) -> None:
        """Finish the open reply."""
        assert self.open is not None
        reply, stack, _ = self.open
        self.open = None
        with stack:
            reply.finish()

    @rule(store=STORES, pick=PICKS, which=PICKS)
    def remove(self, store: int, pick: int, which: int) -> None:
        """Remove a visible message."""
        session = self.session(store, pick)
        there = sorted(shown(self.stores[store], session.id))
        if there and not self.is_busy(session):
            session.remove_message(there[which % len(there)])

    @rule(store=STORES, pick=PICKS, to=PICKS)
    def roll_back(self, store: int, pick: int, to: int) -> None:
        """Roll back to any version."""
        session = self.session(store, pick)
        if not self.is_busy(session):
            session.rollback(1 + to % session.version)

    @rule(store=STORES, pick=PICKS)
    def redo(self, store: int, pick: int) -> None:
        """Take the newest rollback back, if there is one."""
        session = self.session(store, pick)
        if not self.is_busy(session):
            try:
                session.redo()
            except RefusedError:
                return

    @precondition(lambda self: len(self.names) < 6)
    @rule(store=STORES, pick=PICKS, at=PICKS)
    def fork(self, store: int, pick: int, at: int) -> None:
        """Fork at any version, also inside an append."""
        session = self.session(store, pick)
        session.flush()
        self.names.append(session.fork(1 + at % session.version).id)

    @rule(store=STORES, pick=PICKS, undone=st.booleans())
    def compact(self, store: int, pick: int, *, undone: bool) -> None:
        """Compact, and perhaps undo that."""
        session = self.session(store, pick)
        if self.is_busy(session):
            return
        with session.lease():
            part = session.context.request_compaction()
            session.context.start_compaction(part)
            with session.assistant(summary=True) as reply:
                reply.add_text("summary")
                reply.finish()
            session.context.complete_compaction(part, reply.id)
        if undone:
            session.context.undo_compaction()

    @rule(store=STORES, pick=PICKS, to=PICKS)
    def load(self, store: int, pick: int, to: int) -> None:
        """Append events in a row, as an importer does."""
        session = self.session(store, pick)
        if self.is_busy(session):
            return
        bulk = session.executor.bulk()
        assert bulk is not None
        new = session.executor.host.new_id
        first = new("msg_")
        bulk.append([(1, ev.UserMessageAdded(first)), (1, ev.UserMessageAdded(new("msg_")))], {})
        bulk.append([(2, ev.MessageRemoved(first)), (2, ev.UserMessageAdded(new("msg_")))], {})
        bulk.append([(3, ev.RolledBack(1 + to % bulk.version))], {})
        bulk.wait()

    @rule(store=STORES, pick=PICKS, kinds=st.lists(st.integers(0, 2), min_size=1, max_size=4))
    def tell(self, store: int, pick: int, kinds: list[int]) -> None:
        """Tell records: one adds messages, one removes the oldest message, one means nothing."""
        session = self.session(store, pick)
        if self.open is None:
            there = sorted(shown(self.stores[store], session.id))
            Feed(session, Removing()).add([(["hi"], there[:1], [])[kind] for kind in kinds])

    @rule(store=STORES, pick=PICKS, which=PICKS, several=st.integers(1, 3))
    def forget(self, store: int, pick: int, which: int, several: int) -> None:
        """Forget some records, inherited ones as well."""
        session = self.session(store, pick)
        if self.open is not None:
            return
        numbers = [one.version for one in session.events() if isinstance(one.event, ev.RecordKept)]
        start = which % (len(numbers) or 1)
        before = {name: forgotten_in_parents(session.store, name) for name in self.names}
        Feed(session, Removing()).forget(numbers[start : start + several])
        self.late |= {name for name in self.names if forgotten_in_parents(session.store, name) != before[name]}

    @precondition(lambda self: self.open is None and self.late)
    @rule(store=STORES)
    def go_on(self, store: int) -> None:
        """All handles are opened anew, and each late fork goes on."""
        for place in range(2):
            self.reopen(place)
        for name in self.late:
            self.stores[store].session(name).set_metadata("gone", "1")
        self.late.clear()

    @precondition(lambda self: self.open is None)
    @rule(store=STORES)
    def reopen(self, store: int) -> None:
        """Close a handle and open the store again."""
        self.stores[store].close()
        self.stores[store] = self.engine.open()

    @invariant()
    def totals(self) -> None:
        """Every handle lists the number of visible messages."""
        if not hasattr(self, "stores"):
            return
        if self.open is not None:  # by both handles, before either looks
            for store in self.stores:
                store.session(self.open[2]).flush()
        for store in self.stores:
            listed = {info.id: info.messages for info in store.sessions()}
            wanted = {name: len(shown(store, name)) for name in self.names}
            assert {**listed, **{name: wanted[name] for name in self.late}} == wanted

    def teardown(self) -> None:
        """Check what is left, and close it."""
        if not hasattr(self, "engine"):
            return
        if self.open is not None:
            self.end_reply()
        if hasattr(self, "stores"):
            assert problems(self.stores[0]) == []
            if self.late:
                self.go_on(0)
                self.totals()
                assert problems(self.stores[0]) == []
            self.copies()
        self.engine.close()

    def copies(self) -> None:
        """Nothing more in memory."""


class StoredTotals(TotalsMachine):
    """Totals in a directory, with copies of it."""

    engine_name = "embedded"

    def copies(self) -> None:
        """Compare the totals of a backup, of restores of earlier positions, and of a repair."""
        store = self.stores[0]
        keys = self.engine.path.with_name("store.keys") if self.engine_name == ENCRYPTED else None
        wanted = {name: len(shown(store, name)) for name in self.names}
        (last,) = store.log.last_positions()
        positions = sorted({1, last // 3, last // 2, last})
        cursors = [cursor_at(store.log, (position,)) for position in positions]
        with TemporaryDirectory() as directory:
            place = Path(directory)
            store.backup(place / "backup")
            for each in self.stores:
                each.close()
            repair(self.engine.path, place / "repaired")
            for position, cursor in zip(positions, cursors, strict=True):
                restore(place / "backup", place / str(position), cursor=cursor)
            for name in ("backup", "repaired", *map(str, positions)):
                with open_store(place / name, keys=keys) as copy:
                    for info in copy.sessions():
                        follows = not forgotten_in_parents(copy, info.id) or name in {"backup", "repaired"}
                        assert not follows or info.messages == len(shown(copy, info.id)), name
                    assert problems(copy) == []
            with open_store(self.engine.path, keys=keys) as again:
                for name in self.names:
                    for part in [
                        recorded.event.part
                        for recorded in again.session(name).events()
                        if isinstance(recorded.event, ev.PartStarted)
                    ][:2]:
                        again.session(name).redact(part, search=False)
                again.scrub()
                totals = {info.id: info.messages for info in again.sessions()}
                assert totals == wanted
                assert problems(again) == []


class EncryptedTotals(StoredTotals):
    """Totals in an encrypted directory."""

    engine_name = ENCRYPTED


TotalsMachine.TestCase.settings = settings(max_examples=600 if SLOW else 60, stateful_step_count=25)
StoredTotals.TestCase.settings = settings(max_examples=60 if SLOW else 8, stateful_step_count=25)
EncryptedTotals.TestCase.settings = settings(max_examples=60 if SLOW else 6, stateful_step_count=25)
TestTotals = TotalsMachine.TestCase
TestStoredTotals = StoredTotals.TestCase
TestEncryptedTotals = EncryptedTotals.TestCase


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
        assert session.info.messages == len(shown(store, session.id)) == 2
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
