"""The total of a session counts the messages that are visible, in every handle and copy."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from eventlog import events as ev
from eventlog.codec.batch import Item, encode, pack
from eventlog.errors import RefusedError
from eventlog.history.catalog import CatalogEntry
from eventlog.history.cursor import cursor_at
from eventlog.log.contract import Append
from eventlog.session.reply import Reply
from eventlog.session.session import Session
from eventlog.store import Store, open_store, repair, restore
from projections.verify.verify import verify
from tests.faults.tally import SLOW
from tests.support.engines import ENCRYPTED, Engine

PICKS = st.integers(0, 1 << 16)
STORES = st.integers(0, 1)
Shown = list[frozenset[str]]


def shown(store: Store, session: str) -> Shown:
    """The messages that are visible after each version of a session, by its events."""
    found: Shown = [frozenset()]
    for recorded in store.session(session).events():
        event, now = recorded.event, found[-1]
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
    return found


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
        there = sorted(shown(self.stores[store], session.id)[-1])
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
        for store in self.stores:
            if self.open is not None:
                store.session(self.open[2]).flush()
            listed = {info.id: info.messages for info in store.sessions()}
            assert listed == {name: len(shown(store, name)[-1]) for name in self.names}

    def teardown(self) -> None:
        """Check what is left, and close it."""
        if not hasattr(self, "engine"):
            return
        if self.open is not None:
            self.end_reply()
        if hasattr(self, "stores"):
            assert verify(self.stores[0], deep=True).sound
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
        wanted = {name: shown(store, name) for name in self.names}
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
                        assert info.messages == len(wanted[info.id][info.version]), name
                    assert verify(copy, deep=True).sound
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
                assert totals == {name: len(versions[-1]) for name, versions in wanted.items()}
                assert verify(again, deep=True).sound


class EncryptedTotals(StoredTotals):
    """Totals in an encrypted directory."""

    engine_name = ENCRYPTED


TotalsMachine.TestCase.settings = settings(max_examples=600 if SLOW else 60, stateful_step_count=25)
StoredTotals.TestCase.settings = settings(max_examples=60 if SLOW else 8, stateful_step_count=25)
EncryptedTotals.TestCase.settings = settings(max_examples=60 if SLOW else 6, stateful_step_count=25)
TestTotals = TotalsMachine.TestCase
TestStoredTotals = StoredTotals.TestCase
TestEncryptedTotals = EncryptedTotals.TestCase


def by_an_earlier_program(store: Store) -> Session:
    """A session whose total counts what was added, as earlier programs counted."""
    begun: list[Item] = [(1, ev.SessionStarted("old")), (1, ev.UserMessageAdded("a")), (1, ev.UserMessageAdded("b"))]
    hidden: list[Item] = [(2, ev.RolledBack(2))]
    for number, items in enumerate((begun, hidden)):
        append = Append(
            session="old", payload=encode(items, 1), count=len(items), time=1, messages=0 if number else 2,
            entry=None if number else pack(CatalogEntry("old")), creates_at=None if number else 0,
        )  # fmt: skip
        store.log.submit(append).wait()
    return store.session("old")


@pytest.mark.parametrize("name", ["memory", "embedded", ENCRYPTED])
def test_the_next_append_corrects_an_earlier_programs_total(name: str, tmp_path: Path) -> None:
    """A total of what was ever added is right after the next append, also a quiet one."""
    with Engine(name, tmp_path).open() as store:
        session = by_an_earlier_program(store)
        assert session.info.messages == 2
        assert verify(store, deep=True).sound
        fork = session.fork()
        assert fork.info.messages == 1
        session.rename("new")
        assert session.info.messages == 1
        session.user("c")
        assert session.info.messages == 2
        assert verify(store, deep=True).sound


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
