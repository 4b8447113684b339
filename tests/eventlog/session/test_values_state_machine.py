"""Values of sessions, forks and shelves against a plain dict."""

from __future__ import annotations

from typing import NamedTuple
from unittest.mock import patch

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from eventlog import events as ev
from eventlog.codec.payload import is_foreign
from eventlog.codec.redaction import is_freed
from eventlog.errors import ConflictError
from eventlog.history import value_tree
from eventlog.history.ancestry import stream_spans
from eventlog.history.catalog import entry_of
from eventlog.session.values import StoredValue, Values
from eventlog.store import Store
from projections.verify.verify import verify
from tests.faults.tally import SLOW
from tests.support.engines import ENCRYPTED, Engine

ACTORS = st.integers(0, 1)
NUMBERS = st.integers(0, 1_000)
KEYS = st.sampled_from(
    ["a", "ab", "abc", "abd", "b", "é", "é/1", "é/2", "x/1", "x/10", "x/2", "x/2/y", "\ud800", "z" * 256]
)
VALUES = st.sampled_from(
    ["", "short", "long " * 300, "longer " * 9_000, b"", b"\xff\x00", b"data " * 300, b"long " * 300]
)
SHELF = "shelf"


class Kept(NamedTuple):
    """A value of the model, and where its event lies."""

    value: str | bytes
    stream: str
    revision: int


State = dict[str, Kept]


class ValuesMachine(RuleBasedStateMachine):
    """Two handles put, drop, fork, roll back, redact, compact, erase, scrub, and lose rows."""

    engine_name = "memory"

    @initialize()
    def begin(self) -> None:
        """Open one session and one shelf in two handles, with tiny nodes in the index."""
        self.patches = [patch.object(value_tree, "LEAF_KEYS", 2), patch.object(value_tree, "CHUNK", 2)]
        for each in self.patches:
            each.start()
        self.engine = Engine(self.engine_name)
        self.stores: list[Store] = []
        self.open()
        self.stores[0].create_session(id="s0")
        self.states: dict[str, State] = {"s0": {}, SHELF: {}}
        self.history: dict[str, list[tuple[int, State]]] = {"s0": [(0, {})]}
        self.parts: dict[str, list[str]] = {"s0": []}
        self.freed: set[tuple[str, int]] = set()
        self.made = 1
        self.stores[1].shelf(SHELF)

    def open(self) -> None:
        """Open both handles; checkpoints of command state come often."""
        self.stores = [self.engine.open(checkpoint_events=7) for _ in range(2)]

    def close(self) -> None:
        """Close both handles."""
        for store in self.stores:
            store.close()

    def values(self, actor: int, name: str) -> Values:
        """The values of a session or the shelf in a handle."""
        store = self.stores[actor]
        return store.shelf(SHELF).values if name == SHELF else store.session(name).values

    def chosen(self, number: int) -> str:
        """A living session, or the shelf."""
        names = sorted(self.states)
        return names[number % len(names)]

    def session(self, number: int) -> str | None:
        """A living session, None if all are erased."""
        names = sorted(self.history)
        return names[number % len(names)] if names else None

    def changed(self, actor: int, name: str, key: str, kept: Kept | None) -> None:
        """Note a change of the model."""
        state = dict(self.states[name])
        if kept is None:
            state.pop(key, None)
        else:
            state[key] = kept
        self.states[name] = state
        if name in self.history:
            version = self.stores[actor].session(name).version if kept is None else kept.revision
            self.history[name].append((version, state))

    # -- values ------------------------------------------------------------------------------------

    @rule(actor=ACTORS, number=NUMBERS, key=KEYS, value=VALUES)
    def put(self, actor: int, number: int, key: str, value: str | bytes) -> None:
        """Put a value: the last commit wins."""
        name = self.chosen(number)
        values = self.values(actor, name)
        revision = values.put(key, value)
        self.changed(actor, name, key, Kept(value, self.stream(actor, name), revision))

    @rule(actor=ACTORS, number=NUMBERS, key=KEYS, value=VALUES)
    def put_if(self, actor: int, number: int, key: str, value: str | bytes) -> None:
        """Put a value if its key has the revision that it has."""
        name = self.chosen(number)
        revision = self.values(actor, name).put(key, value, expected=self.revision(name, key))
        self.changed(actor, name, key, Kept(value, self.stream(actor, name), revision))

    @rule(actor=ACTORS, number=NUMBERS, key=KEYS)
    def drop_if(self, actor: int, number: int, key: str) -> None:
        """Drop a key if it has the revision that it has."""
        name = self.chosen(number)
        self.values(actor, name).drop(key, expected=self.revision(name, key))
        self.changed(actor, name, key, None)

    @rule(actor=ACTORS, number=NUMBERS, key=KEYS, value=VALUES)
    def put_if_not(self, actor: int, number: int, key: str, value: str | bytes) -> None:
        """Expect a revision that a key does not have: nothing is written."""
        name = self.chosen(number)
        now = self.revision(name, key)
        for expected in {0, now - 1, now + 1} - {now}:
            with pytest.raises(ConflictError) as refused:
                self.values(actor, name).put(key, value, expected=expected)
            assert (refused.value.expected, refused.value.actual, refused.value.key) == (expected, now, key)

    def revision(self, name: str, key: str) -> int:
        """The revision of a key in the model."""
        return self.states[name][key].revision if key in self.states[name] else 0

    @rule(actor=ACTORS, number=NUMBERS, key=KEYS)
    def drop(self, actor: int, number: int, key: str) -> None:
        """Drop a key, which may have no value."""
        name = self.chosen(number)
        self.values(actor, name).drop(key)
        self.changed(actor, name, key, None)

    @rule(actor=ACTORS, number=NUMBERS, keys=st.lists(KEYS, min_size=1, max_size=4, unique=True), value=VALUES)
    def put_together(self, actor: int, number: int, keys: list[str], value: str | bytes) -> None:
        """Put several values and a message in one append."""
        if (name := self.session(number)) is None:
            return
        session = self.stores[actor].session(name)
        with session.pipeline():
            for key in keys:
                assert session.values.put(key, value) == 0
            session.user("beside")
        for key in keys:
            found = session.values.get(key)
            assert found is not None
            self.changed(actor, name, key, Kept(value, name, found.revision))

    def stream(self, actor: int, name: str) -> str:
        """The stream that new events of a session or the shelf lie in."""
        return self.stores[actor].shelf(SHELF).id if name == SHELF else name

    # -- what happens around them ------------------------------------------------------------------

    @rule(actor=ACTORS, number=NUMBERS)
    def talk(self, actor: int, number: int) -> None:
        """Add a message with a part that may be redacted."""
        if (name := self.session(number)) is not None:
            session = self.stores[actor].session(name)
            message = session.user("the secret word")
            with session.reader.deciding() as state:
                self.parts[name] += list(state.messages[message].parts)

    @rule(actor=ACTORS, number=NUMBERS, at=NUMBERS)
    def fork(self, actor: int, number: int, at: int) -> None:
        """Fork a session at any version, also of a fork."""
        if (name := self.session(number)) is None or len(self.history) > 5:
            return
        session = self.stores[actor].session(name)
        version = at % session.version + 1
        fork = f"s{self.made}"
        self.made += 1
        session.fork(version, id=fork)
        state = next(state for upto, state in reversed(self.history[name]) if upto <= version)
        state = {key: kept for key, kept in state.items() if (kept.stream, kept.revision) not in self.freed}
        self.states[fork] = state
        before = [entry for entry in self.history[name] if entry[0] <= version]
        self.history[fork] = [*before, (version + 1, state)]
        self.parts[fork] = []

    @rule(actor=ACTORS, number=NUMBERS, at=NUMBERS)
    def roll_back(self, actor: int, number: int, at: int) -> None:
        """Roll back, which undoes nothing of values."""
        if (name := self.session(number)) is not None:
            session = self.stores[actor].session(name)
            session.rollback(at % session.version + 1)

    @rule(actor=ACTORS, number=NUMBERS)
    def redact(self, actor: int, number: int) -> None:
        """Redact a part."""
        if (name := self.session(number)) is not None and self.parts[name]:
            self.stores[actor].session(name).redact(self.parts[name].pop())

    @rule(actor=ACTORS, number=NUMBERS)
    def compact(self, actor: int, number: int) -> None:
        """Let a summary stand for what was said."""
        if (name := self.session(number)) is None:
            return
        session = self.stores[actor].session(name)
        with session.lease():
            part = session.context.request_compaction()
            session.context.start_compaction(part)
            with session.assistant(summary=True) as reply:
                reply.stream_text().append("they talked")
                reply.finish("stop")
            session.context.complete_compaction(part, reply.id)

    @precondition(lambda self: len(self.history) > 1)
    @rule(actor=ACTORS, number=NUMBERS)
    def erase(self, actor: int, number: int) -> None:
        """Erase a session; its forks stay."""
        name = self.session(number)
        assert name is not None
        self.stores[actor].erase(name, forks="keep")
        del self.states[name], self.history[name]

    @rule(actor=ACTORS)
    def drop_shelf(self, actor: int) -> None:
        """Drop the shelf; its name begins anew."""
        self.stores[actor].drop_shelf(SHELF)
        self.states[SHELF] = {}

    @rule()
    def reopen(self) -> None:
        """Close all handles, and open them again."""
        self.close()
        self.open()

    @rule(number=NUMBERS, every=st.booleans())
    def lose_what_is_derived(self, number: int, every: bool) -> None:
        """Delete all derived rows, or any one of them."""
        log = self.stores[0].log.engine
        keys = log.derived_keys(b"")
        for key in keys if every else keys[number % len(keys) :][:1] if keys else []:
            log.put_derived([(key, None)])

    @precondition(lambda self: self.engine_name != "memory")
    @rule()
    def scrub(self) -> None:
        """Scrub: what no session has any more is gone, and all is sound."""
        self.close()
        with self.engine.open() as store:
            store.scrub()
            needed = {(kept.stream, kept.revision) for state in self.states.values() for kept in state.values()}
            for head in store.log.heads():
                if not is_foreign(head) and not head.gone and not entry_of(head).erased:
                    for span in stream_spans(store.log, head.session):
                        if isinstance(span.item, ev.ValuePut):
                            place = (head.session, span.first)
                            assert is_freed(span.item) == (place not in needed)
                            self.freed.update([place] if is_freed(span.item) else [])
            report = verify(store)
            assert report.sound, report
        self.open()

    # -- the contract ------------------------------------------------------------------------------

    @invariant()
    def all_is_as_in_the_model(self) -> None:
        """Every key of every living session has the model's value and revision, in both handles."""
        for actor in range(2) if hasattr(self, "states") else ():
            for name, state in self.states.items():
                values = self.values(actor, name)
                expected = [StoredValue(key, kept.value, kept.revision) for key, kept in sorted(state.items())]
                assert list(values.items()) == expected
                assert values.keys() == [found.key for found in expected]
                assert list(values.items("x/1")) == [found for found in expected if found.key.startswith("x/1")]
                for found in expected:
                    assert values.get(found.key) == found
                    assert values.revision(found.key) == found.revision
                assert values.get("never put") is None
                assert values.revision("never put") == 0

    def teardown(self) -> None:
        """Close the stores."""
        if hasattr(self, "engine"):
            self.engine.close()
            for each in self.patches:
                each.stop()


class EmbeddedMachine(ValuesMachine):
    """In a directory, with scrubs."""

    engine_name = "embedded"


class EncryptedMachine(ValuesMachine):
    """In an encrypted directory, with scrubs."""

    engine_name = ENCRYPTED


FEW = settings(max_examples=400 if SLOW else 25, stateful_step_count=30)
ValuesMachine.TestCase.settings = settings(max_examples=2_000 if SLOW else 80, stateful_step_count=40)
EmbeddedMachine.TestCase.settings = FEW
EncryptedMachine.TestCase.settings = FEW
TestValues = pytest.mark.promise(9)(ValuesMachine.TestCase)
TestEmbedded = pytest.mark.promise(13)(EmbeddedMachine.TestCase)
TestEncrypted = pytest.mark.promise(13)(EncryptedMachine.TestCase)
