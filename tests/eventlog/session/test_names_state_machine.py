"""Names, notes and take-overs by two handles against plain dicts, with kills."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from eventlog.errors import AlreadyExistsError, FencedError, LeaseHeldError, NotFoundError, RefusedError
from eventlog.history.name_streams import newest_state, stream_of
from eventlog.log.commit import Append
from eventlog.session.reply import Reply
from eventlog.session.session import Session
from eventlog.store import Store
from projections.verify.verify import verify
from tests.faults.tally import SLOW
from tests.support.engines import ENCRYPTED, Engine

pytestmark = pytest.mark.promise(4)

PICKS = st.integers(0, 1 << 16)
STORES = st.integers(0, 1)
KEYS = st.sampled_from(["a", "a/b", "b", "long " * 60])
APPENDS = st.integers(0, 3)


class Killed(BaseException):
    """The end of the caller, between two appends."""


def killed(store: Store, appends: int, work: Callable[[], object]) -> bool:
    """Do some work that dies before it makes one append more; return whether it died."""
    submit: Callable[[Append], Any] = store.log.submit
    left = appends

    def counted(append: Append) -> Any:
        nonlocal left
        if not left:
            raise Killed
        left -= 1
        return submit(append)

    store.log.submit = counted  # type: ignore[method-assign]
    try:
        work()
    except Killed:
        return True
    finally:
        store.log.submit = submit  # type: ignore[method-assign, assignment]
    return False


class Model:
    """One session, as its users know it."""

    def __init__(self, name: str | None = None) -> None:
        self.name = name
        self.note = ""
        self.erased = False


class NamesMachine(RuleBasedStateMachine):
    """Two handles open, give, free, note, fork, roll back, erase and take over."""

    engine_name = "memory"

    @initialize()
    def begin(self) -> None:
        """Open two handles on an empty store."""
        self.engine = Engine(self.engine_name)
        self.stores = [self.engine.open(flush_interval=1000.0) for _ in range(2)]
        self.models: dict[str, Model] = {}
        self.unsure: set[str] = set()
        """Keys of names of which a kill may have left anything."""
        self.reply: tuple[int, Session, Reply, ExitStack] | None = None
        """The reply that is open: its handle's number, session, itself, and its block."""
        self.words = 0

    # -- what the model says -------------------------------------------------------------------

    def owner(self, key: str) -> str | None:
        """The session that has a name."""
        return next((id for id, model in self.models.items() if model.name == key and not model.erased), None)

    def alive(self, pick: int) -> str | None:
        """A session that is not erased."""
        there = sorted(id for id, model in self.models.items() if not model.erased)
        return there[pick % len(there)] if there else None

    def is_reserved(self, key: str) -> bool:
        """Whether a kill left a name reserved for a session that has not begun."""
        log = self.stores[0].log
        reserved = newest_state(log.head(stream_of(log, ("f", key)))).session
        return reserved is not None and log.head(reserved) is None

    def look(self, key: str) -> None:
        """Take over what a kill left of a name: any of its states is allowed, and then stays."""
        if key not in self.unsure:
            return
        store = self.stores[0]
        with suppress(NotFoundError):
            store.open_session(("f", key), create=False)  # completes what can be completed
        for info in store.sessions():
            model = self.models.setdefault(info.id, Model())
            has = info.name is not None and info.name[1] == key
            model.name = key if has else None if model.name == key else model.name
        for id, model in self.models.items():
            head = store.log.head(id)
            assert head is not None
            model.erased = model.erased or not any(info.id == id for info in store.sessions())
        self.unsure.discard(key)

    # -- rules -----------------------------------------------------------------------------------

    @rule(store=STORES, key=KEYS)
    def open(self, store: int, key: str) -> None:
        """Open a session by name: the one that has it, or a new one."""
        self.look(key)
        session = self.stores[store].open_session(("f", key))
        owner = self.owner(key)
        if owner is None:
            assert self.models.get(session.id) is None
            self.models[session.id] = Model(key)
        else:
            assert session.id == owner

    @rule(store=STORES, key=KEYS)
    def find(self, store: int, key: str) -> None:
        """Open a session by name only if there is one."""
        self.look(key)
        owner = self.owner(key)
        if owner is None:
            with pytest.raises(NotFoundError):
                self.stores[store].open_session(("f", key), create=False)
        else:
            assert self.stores[store].open_session(("f", key), create=False).id == owner

    @rule(store=STORES)
    def create(self, store: int) -> None:
        """Begin a session without a name."""
        if len(self.models) < 12:
            self.models[self.stores[store].create_session().id] = Model()

    @rule(store=STORES, key=KEYS, pick=PICKS)
    def give(self, store: int, key: str, pick: int) -> None:
        """Give a session a name, which is free or not."""
        self.look(key)
        id = self.alive(pick)
        if id is None:
            return
        model, owner = self.models[id], self.owner(key)
        give = self.stores[store].names.give
        if model.name not in {None, key}:
            with pytest.raises(RefusedError):
                give(id, ("f", key))
        elif owner not in {None, id} or self.is_reserved(key):
            with pytest.raises(AlreadyExistsError):
                give(id, ("f", key))
        else:
            give(id, ("f", key))
            model.name = key

    @rule(store=STORES, key=KEYS)
    def free(self, store: int, key: str) -> None:
        """Free a name, which a session has or not."""
        self.look(key)
        owner = self.owner(key)
        if owner is None:
            with pytest.raises(NotFoundError):
                self.stores[store].names.free(("f", key))
        else:
            assert self.stores[store].names.free(("f", key)) == owner
            self.models[owner].name = None

    @rule(store=STORES, pick=PICKS, note=st.text(max_size=5))
    def set_note(self, store: int, pick: int, note: str) -> None:
        """Set the note of a session; needs no lease."""
        id = self.alive(pick)
        if id is not None:
            self.stores[store].session(id).set_note(note)
            self.models[id].note = note

    @rule(store=STORES, pick=PICKS, at=PICKS)
    def fork(self, store: int, pick: int, at: int) -> None:
        """Fork a session: without its name and note."""
        id = self.alive(pick)
        if id is not None and len(self.models) < 12:
            session = self.stores[store].session(id)
            self.models[session.fork(1 + at % session.version).id] = Model()

    @rule(store=STORES, pick=PICKS, to=PICKS)
    def roll_back(self, store: int, pick: int, to: int) -> None:
        """Roll back a session: it keeps its name and note."""
        id = self.alive(pick)
        if id is not None and (self.reply is None or self.reply[1].id != id):
            session = self.stores[store].session(id)
            session.rollback(1 + to % session.version)

    @rule(store=STORES, pick=PICKS)
    def erase(self, store: int, pick: int) -> None:
        """Erase a session: its name is free."""
        id = self.alive(pick)
        if id is None:
            return
        if self.reply is not None and self.reply[1].id == id:
            with pytest.raises(LeaseHeldError):
                self.stores[store].erase(id, forks="keep")
            return
        self.stores[store].erase(id, forks="keep")
        self.models[id].erased = True

    @rule(store=STORES, key=KEYS, pick=PICKS, appends=APPENDS, what=st.sampled_from(["open", "give", "free", "erase"]))
    def die(self, store: int, key: str, pick: int, appends: int, what: str) -> None:
        """Die between two appends of a command; the next caller finds one state or the other."""
        self.look(key)
        used, id = self.stores[store], self.alive(pick)
        if what == "erase":
            id = self.owner(key)
        busy = self.reply is not None and self.reply[1].id == id
        if (id is None and what in {"give", "erase"}) or (busy and what == "erase"):
            return

        def work() -> None:
            with suppress(NotFoundError, AlreadyExistsError, RefusedError):
                if what == "open":
                    used.open_session(("f", key))
                elif what == "give":
                    used.names.give(str(id), ("f", key))
                elif what == "free":
                    used.names.free(("f", key))
                else:
                    used.erase(str(id), forks="keep")

        killed(used, appends, work)
        self.unsure.add(key)
        self.look(key)

    @precondition(lambda self: self.reply is None)
    @rule(store=STORES, pick=PICKS)
    def begin_reply(self, store: int, pick: int) -> None:
        """Leave a reply open, with text that is accepted and not written."""
        id = self.alive(pick)
        if id is None:
            return
        session, stack = self.stores[store].session(id), ExitStack()
        session.user("hi")
        reply = session.assistant()
        stack.enter_context(reply)
        text = reply.stream_text()
        session.flush()
        self.words = 2
        for _ in range(self.words):
            text.append("word")
        self.reply = store, session, reply, stack

    @precondition(lambda self: self.reply is not None)
    @rule()
    def end_reply(self) -> None:
        """Finish the open reply."""
        assert self.reply is not None
        _, session, reply, stack = self.reply
        self.reply = None
        with stack:
            reply.finish()
        assert not session.executor.holds_lease

    @precondition(lambda self: self.reply is not None)
    @rule()
    def take_over(self) -> None:
        """Take the lease of the open reply from the other handle: its owner hears what it lost."""
        assert self.reply is not None
        number, session, reply, stack = self.reply
        self.reply = None
        other = self.stores[1 - number].session(session.id)
        with pytest.raises(LeaseHeldError), other.lease():
            pass
        written = not session.executor.writer.is_ahead  # a command of the same handle took it along
        with other.lease(take_over=True) as lease:
            assert other.reader.state().open_messages() == ()
            with pytest.raises(FencedError) as caught:
                reply.finish()
            assert caught.value.current == lease.epoch
            assert (caught.value.deltas, caught.value.characters) == ((0, 0) if written else (2, 8))
            with suppress(FencedError):
                stack.close()
        with session.lease():
            pass

    @rule(store=STORES)
    def reopen(self, store: int) -> None:
        """Close a handle and open the store again."""
        if self.reply is None:
            self.stores[store].close()
            self.stores[store] = self.engine.open(flush_interval=1000.0)

    @invariant()
    def lists(self) -> None:
        """Both handles list the same sessions, names and notes."""
        if not hasattr(self, "stores"):
            return
        for store in self.stores:
            there = {id: model for id, model in self.models.items() if not model.erased}
            assert {info.id: info.note for info in store.sessions()} == {id: model.note for id, model in there.items()}
            assert {info.id: info.name for info in store.sessions()} == {
                id: None if model.name is None else ("f", model.name) for id, model in there.items()
            }
            for prefix in ("", "a", "long "):
                wanted = {model.name for model in there.values() if model.name and model.name.startswith(prefix)}
                found = [info.name[1] for info in store.sessions(format="f", prefix=prefix) if info.name]
                assert found == sorted(wanted)

    def teardown(self) -> None:
        """Check what is left, and close it."""
        if hasattr(self, "stores"):
            if self.reply is not None:
                self.end_reply()
            assert verify(self.stores[0], deep=True).sound
        if hasattr(self, "engine"):
            self.engine.close()


class StoredNames(NamesMachine):
    """Names in a directory."""

    engine_name = "embedded"


class EncryptedNames(NamesMachine):
    """Names in an encrypted directory."""

    engine_name = ENCRYPTED


NamesMachine.TestCase.settings = settings(max_examples=1_000 if SLOW else 80, stateful_step_count=30)
StoredNames.TestCase.settings = settings(max_examples=200 if SLOW else 12, stateful_step_count=30)
EncryptedNames.TestCase.settings = settings(max_examples=200 if SLOW else 12, stateful_step_count=30)
TestNames = NamesMachine.TestCase
TestStoredNames = StoredNames.TestCase
TestEncryptedNames = EncryptedNames.TestCase
