"""Commands of all kinds together, by two stores on one place, against a plain model."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from itertools import count
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, settings
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
from eventlog.errors import (
    AlreadyExistsError,
    ConflictError,
    ErasedError,
    FencedError,
    LeaseHeldError,
    NotFoundError,
    RefusedError,
)
from eventlog.records.feed import Feed
from eventlog.records.read import Forgotten, Redacted
from eventlog.session.reply import Reply
from eventlog.session.session import Session
from eventlog.store import Store
from eventlog.testing.file_search import files_with
from projections.transcript.transcript import Transcript
from projections.verify.verify import verify
from tests.faults.tally import SLOW
from tests.support.engines import ENCRYPTED, ENGINES, POSTGRES, Engine
from tests.support.toy_records import ToyMapping, shown

INTERRUPTED = "[Tool execution was interrupted]"
REDACTED = "[Redacted]"
ASKED = "What did we do so far?"
PICKS = st.integers(0, 1 << 16)
STORES = st.integers(0, 1)
KINDS = st.lists(
    st.sampled_from(["user", "answer", "call", "call", "result", "other", "summary"]), min_size=1, max_size=4
)
KEYS = st.sampled_from(["a", "a/b", "b", "\ud800"])
NAMES = st.sampled_from(["n1", "n1/x", "n2"])
REQUESTS = st.sampled_from(["r0", "r1", "r2"])
NUMBERS = count(1)
MOST = 5
"""Sessions at once."""


class Said:
    """Something with a content that only it has: a record, a message, a result or a value."""

    def __init__(self, kind: str, text: str = "", value: dict[str, Any] | None = None, message: str = "") -> None:
        self.kind = kind
        self.text = text
        self.value = value or {}
        self.message = message
        self.calls: tuple[str, ...] = ()
        self.outputs = 0
        self.done = False
        self.forgotten = False
        self.redacted = False
        self.record = False


class Late(NamedTuple):
    """A result that came alone."""

    call: str
    output: str


class Gone(NamedTuple):
    """A removal of a message."""

    message: str


class Now(NamedTuple):
    """The items, rollbacks and values that count right after a version."""

    items: tuple[Any, ...] = ()
    undo: tuple[tuple[int, tuple[Any, ...]], ...] = ()
    """Versions before the rollbacks that were not redone, and what counted then."""
    values: Mapping[str, tuple[str | bytes, int]] = MappingProxyType({})
    """Values by their key, each with its revision."""


class Model:
    """A session: what it says now, and what it said at the versions that the test knows."""

    def __init__(self) -> None:
        self.now = Now()
        self.at: dict[int, Now] = {}
        self.after: dict[int, tuple[Any, ...]] = {}
        self.before: dict[int, tuple[Any, ...]] = {}
        self.told: dict[int, Said] = {}
        self.secrets: list[tuple[int, Said, str]] = []
        """Version, and a content that came with it."""
        self.asked: dict[str, Said] = {}
        self.note = ""
        self.name: str | None = None
        self.messages: dict[str, int] = {}

    def add(self, *items: Any) -> None:
        """Say more."""
        self.now = self.now._replace(items=(*self.now.items, *items))

    def go_back(self, items: tuple[Any, ...], to: int, before: int) -> None:
        """Roll back at version `before`; to the version before the newest rollback: a redo."""
        undo = self.now.undo
        undo = undo[:-1] if undo and undo[-1][0] == to else (*undo, (before, self.now.items))
        self.now = self.now._replace(items=items, undo=undo)

    def fork(self, at: int) -> Model:
        """The model of a fork at a version that the test knows."""
        fork = Model()
        fork.now = self.at[at]
        fork.at = {version: now for version, now in self.at.items() if version <= at}
        fork.told = {number: told for number, told in self.told.items() if number <= at}
        fork.after = {number: self.after[number] for number in fork.told}
        fork.before = {number: self.before[number] for number in fork.told}
        fork.secrets = [secret for secret in self.secrets if secret[0] <= at]
        return fork

    def records(self) -> list[int]:
        """Numbers of the effective records."""
        numbers = {id(told): number for number, told in self.told.items()}
        said = [one for one in self.now.items if isinstance(one, Said) and one.record and not one.forgotten]
        return [numbers[id(one)] for one in said]

    def outputs(self) -> dict[str, str | None]:
        """Outputs of the calls by their id, None for one without a result."""
        found: dict[str, str | None] = {}
        for one in self.now.items:
            if isinstance(one, Late):
                found[one.call] = one.output
            elif isinstance(one, Said):
                found.update(dict.fromkeys(one.calls))
                call = one.value.get("call", "")
                if found.get(call, "") is None:
                    found[call] = INTERRUPTED if one.forgotten else one.value["output"]
        return found

    def view(self) -> list[tuple[Any, ...]]:
        """The messages that a view shows."""
        outputs = self.outputs()
        gone = {one.message for one in self.now.items if isinstance(one, Gone)}
        found: list[tuple[Any, ...]] = []
        for one in self.now.items:
            if not isinstance(one, Said) or one.forgotten or (one.message and one.message in gone):
                continue
            text = REDACTED if one.redacted else one.text
            if one.kind == "summary":
                found = [("user", ASKED, ()), ("assistant", text, ())]
            elif one.kind in {"user", "answer"}:
                found.append(("user" if one.kind == "user" else "assistant", text, one.calls))
                results = [(call, outputs[call]) for call in one.calls]
                found += [("tool", INTERRUPTED if output is None else output, call) for call, output in results]
        return found

    def total(self) -> int:
        """Messages that are neither rolled back nor removed nor forgotten."""
        gone = {one.message for one in self.now.items if isinstance(one, Gone)}
        sizes = {"user": 1, "answer": 1, "summary": 2}
        return sum(
            sizes.get(one.kind, 0)
            for one in self.now.items
            if isinstance(one, Said) and not one.forgotten and not (one.message and one.message in gone)
        )

    def visible(self, *kinds: str) -> list[Said]:
        """Messages in force that are no records."""
        gone = {one.message for one in self.now.items if isinstance(one, Gone)}
        return [
            one
            for one in self.now.items
            if isinstance(one, Said) and one.kind in kinds and not one.record and one.message not in gone
        ]


class Held(NamedTuple):
    """A lease that a store keeps over several commands; with an open reply in a turn, or bare."""

    store: int
    id: str
    stack: ExitStack
    reply: Reply | None = None
    said: Said | None = None


class Everything(RuleBasedStateMachine):
    """Two stores say, undo, hide, keep and erase."""

    engine_name = "memory"

    @initialize()
    def begin(self) -> None:
        """Open two stores and begin a session."""
        self.engine = Engine(self.engine_name)
        self.models: dict[str, Model] = {}
        self.erased: set[str] = set()
        self.behind: dict[str, bool] = {}
        """Sessions with a parent that forgot a record, and whether handles were opened since."""
        self.secrets: list[tuple[Said, str]] = []
        """All contents that were ever stored."""
        self.held: Held | None = None
        self.open()
        self.cursor: str | None = None
        self.seen: dict[str, int] = {}
        session = self.stores[0].create_session()
        self.models[session.id] = Model()
        self.keep(session.id)

    def open(self) -> None:
        """Open two stores."""
        self.stores: list[Store] = [
            self.engine.open(checkpoint_events=7, flush_interval=1000.0, lease_ttl=1 << 40),
            self.engine.open(flush_interval=1000.0, lease_ttl=1 << 40),
        ]
        self.feeds: dict[tuple[int, str], Feed] = {}
        self.behind = dict.fromkeys(self.behind, True)

    def teardown(self) -> None:
        """Check the whole store, and close it."""
        if hasattr(self, "engine"):
            if hasattr(self, "stores"):
                if self.held is not None:
                    self.let_go(done=True)
                report = verify(self.stores[0], deep=True)
                assert report.sound, report
                self.follow()
            self.engine.close()

    # -- choosing --------------------------------------------------------------------------------

    def pick(self, pick: int, store: int = 0) -> tuple[str, Model, Session, Feed]:
        """A session, its model, its handle in a store and its feed there."""
        name = sorted(self.models)[pick % len(self.models)]
        session = self.stores[store].session(name)
        if (store, name) not in self.feeds:
            self.feeds[store, name] = Feed(session, ToyMapping())
        return name, self.models[name], session, self.feeds[store, name]

    def is_busy(self, name: str, store: int) -> bool:
        """Whether the other store has the lease, or a reply is open."""
        return (
            self.held is not None and self.held.id == name and (self.held.store != store or self.held.reply is not None)
        )

    def is_open(self, name: str, store: int) -> bool:
        """Whether it is busy, or an answer waits for results under the lease that is held."""
        waits = self.held is not None and self.held.id == name and None in self.models[name].outputs().values()
        return waits or self.is_busy(name, store)

    def keep(self, name: str) -> None:
        """Note what the session says at its version of now."""
        head = self.stores[0].log.head(name)
        assert head is not None
        if head.version not in self.models[name].at and self.behind.get(name):
            del self.behind[name]
        self.models[name].at[head.version] = self.models[name].now

    def secret(self, model: Model, version: int, said: Said, *texts: str) -> None:
        """Note contents that came with a version."""
        for text in texts:
            model.secrets.append((version, said, text))
            self.secrets.append((said, text))

    def make(self, kinds: list[str], model: Model) -> list[Said]:
        """Records of these kinds; results are of calls that wait."""
        made: list[Said] = []
        waiting = [call for call, output in model.outputs().items() if output is None and call.startswith("c")]
        for kind in kinds:
            number = next(NUMBERS)
            value: dict[str, Any] = {"kind": kind, "secret": f"secret-{number:06}-of-a-record"}
            said = Said(kind, f"{kind} {number:06} of a record", value)
            said.record = True
            if kind in {"user", "answer", "call", "summary"}:
                value["text"] = said.text
            if kind in {"answer", "call"}:
                said.kind = value["kind"] = "answer"
                value["calls"] = []
                if kind == "call":
                    said.calls = (f"c{number}",)
                    value["calls"] = [{"id": f"c{number}", "tool": "ls", "input": {"path": f"/{number}", "deep": 1.0}}]
                    waiting.append(f"c{number}")
            elif kind == "result":
                value.update(call=waiting.pop(0) if waiting else "none", output=f"output {number:06} " * 90)
            made.append(said)
        return made

    def told(self, model: Model, numbers: Sequence[int], made: Sequence[Said]) -> None:
        """Note that records were told."""
        assert len(numbers) == len(made)
        for number, one in zip(numbers, made, strict=True):
            model.told[number] = one
            model.before[number] = model.now.items
            model.add(one)
            model.after[number] = model.now.items
            texts = [one.value["secret"], *([one.text] if "text" in one.value else [])]
            self.secret(model, number, one, *texts)

    # -- records ---------------------------------------------------------------------------------

    @rule(pick=PICKS, store=STORES, kinds=KINDS, where=st.none() | PICKS, key=st.none() | KEYS)
    def add(self, pick: int, store: int, kinds: list[str], where: int | None, key: str | None) -> None:
        """Tell records behind the newest, behind any, or before all, perhaps with a value."""
        name, model, session, feed = self.pick(pick, store)
        if self.is_busy(name, store):
            return
        path = model.records()
        newest, version = path[-1] if path else 0, session.version
        for wrong in {0, newest + 1} - {newest}:
            with pytest.raises(ConflictError):
                feed.add([{"kind": "user", "text": "no"}], expected=wrong)
        assert session.version == version
        after = None if where is None else [0, *model.told][where % (len(model.told) + 1)]
        if after is not None and after != newest:
            items = model.after[after] if after else model.before[path[0]]
            model.go_back(items, after or _start_of(session, path[0]), session.version)
        made = self.make(kinds, model)
        value = f"value {next(NUMBERS):06} of a feed"
        numbers = feed.add(
            [one.value for one in made], after=after, expected=newest, keep=None if key is None else {key: value}
        )
        self.told(model, numbers, made)
        if key is not None:
            self.put_value(name, model, session, key, value)
        self.keep(name)

    @rule(pick=PICKS, store=STORES, keep=PICKS, kinds=KINDS)
    def replace(self, pick: int, store: int, keep: int, kinds: list[str]) -> None:
        """Make the records a list that differs behind some place."""
        name, model, _, feed = self.pick(pick, store)
        path = model.records()
        if self.is_busy(name, store) or any(model.told[number].redacted for number in path):
            return
        keep %= len(path) + 1
        if keep < len(path):
            items = model.after[path[keep - 1]] if keep else model.before[path[0]]
            model.go_back(items, path[keep - 1] if keep else _start_of(feed.session, path[0]), feed.session.version)
        assert model.records() == path[:keep]
        made = self.make(kinds, model)
        numbers = feed.replace([*(model.told[number].value for number in path[:keep]), *(one.value for one in made)])
        assert numbers[:keep] == path[:keep]
        self.told(model, numbers[keep:], made)
        self.keep(name)

    @rule(pick=PICKS, store=STORES, where=PICKS, several=st.integers(1, 3))
    def forget(self, pick: int, store: int, where: int, several: int) -> None:
        """Forget some records, in all sessions that have them; needs no lease."""
        name, model, _, feed = self.pick(pick, store)
        if model.told:
            numbers = list(model.told)
            start = where % len(numbers)
            feed.forget(numbers[start : start + several])
            for number in numbers[start : start + several]:
                model.told[number].forgotten = True
                self.behind |= {name: False for name, each in self.models.items() if number in each.told}
            self.keep(name)

    @rule(pick=PICKS, store=STORES, where=PICKS)
    def redact(self, pick: int, store: int, where: int) -> None:
        """Redact the text of a record or of a message, in all sessions that have it."""
        name, model, session, _ = self.pick(pick, store)
        told = [(number, one) for number, one in model.told.items() if "text" in one.value and not one.forgotten]
        said = [one for one in model.visible("user", "answer") if self.held is None or one is not self.held.said]
        if not told and not said:
            return
        chosen = where % (len(told) + len(said))
        if chosen < len(told):
            number, one = told[chosen]
            session.redact(_part_of_record(session, number), search=False)
        else:
            one = said[chosen - len(told)]
            session.redact(_part_of(session, one.message), search=False)
        one.redacted = True
        self.keep(name)

    # -- turns -----------------------------------------------------------------------------------

    @rule(pick=PICKS, store=STORES)
    def user(self, pick: int, store: int) -> None:
        """A message of a user, which needs no lease."""
        name, model, session, _ = self.pick(pick, store)
        said = Said("user", f"by hand {next(NUMBERS):06}")
        said.message = session.user(said.text)
        model.add(said)
        self.keep(name)
        self.secret(model, max(model.at), said, said.text)

    @rule(pick=PICKS, store=STORES, request=REQUESTS, end=st.sampled_from(["done", "crash", "open", "open"]))
    def turn(self, pick: int, store: int, request: str, end: str) -> None:
        """Ask, and answer if it is to be answered: whole, broken off, or left open."""
        name, model, session, _ = self.pick(pick, store)
        if self.held is not None:
            return
        before = model.asked.get(request)
        question = f"question {request} of {name}"
        stack = ExitStack()
        turn = stack.enter_context(session.turn(question, request))
        if before is None:
            before = model.asked[request] = Said("user", question, message=turn.message)
            model.add(before)
            assert turn.state == "new"
            self.keep_secret(name, model, before, question)
        assert turn.message == before.message
        assert (turn.state == "withdrawn") == (before not in model.visible("user"))
        if not turn.mine:
            assert turn.state in {"done", "stopped", "withdrawn"}
            stack.close()
            self.keep(name)
            return
        number = next(NUMBERS)
        said = Said("answer", f"reply {number:06} of a turn")
        reply = session.assistant(model="m/1")
        stack.enter_context(reply)
        said.message, said.calls = reply.id, (f"k{number}",)
        reply.stream_text().append(said.text)
        reply.tool("ls", call_id=f"k{number}", input={})
        session.flush()
        model.add(said)
        self.held = Held(store, name, stack, reply, said)
        self.keep_secret(name, model, said, said.text)
        if end == "done":
            self.let_go(done=True)
        elif end == "crash":
            self.held = None
            with suppress(KeyboardInterrupt), stack:
                raise KeyboardInterrupt
            self.keep(name)

    def keep_secret(self, name: str, model: Model, said: Said, text: str) -> None:
        """Note a content that came now."""
        self.keep(name)
        self.secret(model, max(model.at), said, text)

    @precondition(lambda self: self.held is None)
    @rule(pick=PICKS, store=STORES)
    def hold(self, pick: int, store: int) -> None:
        """Keep a lease for the next commands."""
        name, _, session, _ = self.pick(pick, store)
        stack = ExitStack()
        stack.enter_context(session.lease())
        self.held = Held(store, name, stack)
        self.keep(name)

    @precondition(lambda self: self.held is not None)
    @rule(done=st.booleans())
    def let_go(self, *, done: bool) -> None:
        """Give the lease back; finish the open reply with a result, or without."""
        assert self.held is not None
        held, self.held = self.held, None
        if held.reply is None:
            held.stack.close()
            self.keep(held.id)
            return
        assert held.said is not None
        model = self.models[held.id]
        (call,) = held.said.calls
        if done:
            part = _part_of_call(self.stores[held.store].session(held.id), call)
            output = f"output {next(NUMBERS):06} of a call"
            held.reply.call(part).succeed(output)
            model.add(Late(call, output))
            held.reply.finish("tool-calls")
        else:
            held.reply.abort()
        held.stack.close()
        self.keep(held.id)

    @precondition(lambda self: self.held is not None)
    @rule(erase=st.booleans())
    def take_over(self, *, erase: bool) -> None:
        """Take the lease, perhaps erase the session: the former owner writes nothing more."""
        assert self.held is not None
        held, self.held = self.held, None
        other = self.stores[1 - held.store].session(held.id)
        with pytest.raises(LeaseHeldError), other.lease():
            pass
        with other.lease(take_over=True):
            version = other.version
            _, _, _, feed = self.pick(sorted(self.models).index(held.id), held.store)
            with pytest.raises(FencedError):
                feed.add([{"kind": "user", "text": "fenced"}])
            if held.reply is not None:
                with pytest.raises(FencedError):
                    held.reply.finish("tool-calls")
            assert other.version == version
        self.keep(held.id)
        if erase and len(self.models) > 1:
            self.stores[1 - held.store].erase(held.id, forks="keep")
            self.was_erased(held.id)
        with suppress(FencedError, ErasedError):
            held.stack.close()

    @precondition(lambda self: self.held is not None)
    @rule()
    def refused(self) -> None:
        """While one store holds the lease, the other is told so, and writes nothing."""
        assert self.held is not None
        store, name = 1 - self.held.store, self.held.id
        session = self.stores[store].session(name)
        model = self.models[name]
        version = session.version
        with pytest.raises(LeaseHeldError):
            Feed(session, ToyMapping()).add([{"kind": "user", "text": "refused"}])
        with pytest.raises(LeaseHeldError):
            session.rollback(1)
        with pytest.raises(LeaseHeldError):
            self.stores[store].erase(name, forks="keep")
        for said in model.visible("user")[:1]:
            with pytest.raises(LeaseHeldError):
                session.remove_message(said.message)
        assert session.version == version

    @rule(pick=PICKS, store=STORES, where=PICKS, failed=st.booleans())
    def late_result(self, pick: int, store: int, where: int, failed: bool) -> None:
        """A result comes after its call was settled, perhaps while another store has the lease."""
        name, model, session, _ = self.pick(pick, store)
        if self.held is None or self.held.id != name:
            with session.lease():
                pass
        gone = {one.message for one in model.now.items if isinstance(one, Gone)}
        outputs = model.outputs()
        calls = [
            (one, call)
            for one in model.now.items
            if isinstance(one, Said) and one.message not in gone
            for call in one.calls
            if outputs[call] is None
        ]
        if not calls:
            self.keep(name)
            return
        said, call = calls[where % len(calls)]
        message = said.message or _message_of(session, call)
        if not message:
            return
        output = f"late {next(NUMBERS):06} output"
        try:
            version = session.late_result(message, call, output)
        except RefusedError:  # it goes on under the lease that is held
            assert self.held is not None
            assert self.held.id == name
            return
        assert session.late_result(message, call, output) == version == session.version
        with pytest.raises(RefusedError):
            session.late_result(message, call, "another", failed=failed)
        model.add(Late(call, output))
        self.keep(name)
        self.secret(model, version, said, output)

    @rule(pick=PICKS, store=STORES, which=PICKS)
    def remove(self, pick: int, store: int, which: int) -> None:
        """Remove a message that is no record."""
        name, model, session, _ = self.pick(pick, store)
        there = model.visible("user", "answer")
        if there and not self.is_open(name, store):
            message = there[which % len(there)].message
            session.remove_message(message)
            model.add(Gone(message))
            self.keep(name)

    @rule(pick=PICKS, store=STORES)
    def compact(self, pick: int, store: int) -> None:
        """Let a summary stand for what was said."""
        name, model, session, _ = self.pick(pick, store)
        if self.is_open(name, store):
            return
        said = Said("summary", f"summary {next(NUMBERS):06}")
        with session.lease():
            part = session.context.request_compaction()
            session.context.start_compaction(part, kept=())
            with session.assistant(summary=True) as reply:
                reply.add_text(said.text)
                reply.finish("stop")
            session.context.complete_compaction(part, reply.id)
        model.add(said)
        self.keep(name)

    # -- values, names, notes ----------------------------------------------------------------------

    def put_value(self, name: str, model: Model, session: Session, key: str, value: str | bytes) -> None:
        """Note a value that was put now."""
        revision = session.values.revision(key)
        said = Said("value")
        model.now = model.now._replace(values={**model.now.values, key: (value, revision)})
        self.keep(name)
        text = value if isinstance(value, str) else value.decode()
        self.secret(model, revision, said, text)

    @rule(pick=PICKS, store=STORES, key=KEYS, size=st.sampled_from([1, 100]), kind=st.booleans())
    def put(self, pick: int, store: int, key: str, size: int, kind: bool) -> None:
        """Put a value, which must have the revision of the model."""
        name, model, session, _ = self.pick(pick, store)
        text = f"value {next(NUMBERS):06} " * size
        value: str | bytes = text.encode() if kind else text
        _, now = model.now.values.get(key, ("", 0))
        for wrong in {0, now + 1} - {now}:
            with pytest.raises(ConflictError):
                session.values.put(key, value, expected=wrong)
        session.values.put(key, value, expected=now)
        self.put_value(name, model, session, key, value)

    @rule(pick=PICKS, store=STORES, key=KEYS)
    def drop(self, pick: int, store: int, key: str) -> None:
        """Drop a value."""
        name, model, session, _ = self.pick(pick, store)
        session.values.drop(key, expected=model.now.values.get(key, ("", 0))[1])
        model.now = model.now._replace(values={each: kept for each, kept in model.now.values.items() if each != key})
        self.keep(name)

    @rule(pick=PICKS, store=STORES, key=KEYS)
    def together(self, pick: int, store: int, key: str) -> None:
        """A message, a value and a note in one append."""
        name, model, session, _ = self.pick(pick, store)
        said = Said("user", f"beside {next(NUMBERS):06}")
        value, model.note = f"piped {next(NUMBERS):06}", f"note {next(NUMBERS)}"
        with session.pipeline():
            said.message = session.user(said.text)
            session.values.put(key, value)
            session.set_note(model.note)
        model.add(said)
        self.put_value(name, model, session, key, value)
        self.secret(model, max(model.at), said, said.text)

    def owner(self, key: str) -> str | None:
        """The session of a name."""
        return next((name for name, model in self.models.items() if model.name == key), None)

    @rule(store=STORES, key=NAMES)
    def open_named(self, store: int, key: str) -> None:
        """Open a session by name: the one that has it, or a new one."""
        owner = self.owner(key)
        if owner is None and len(self.models) >= MOST:
            with pytest.raises(NotFoundError):
                self.stores[store].open_session(("f", key), create=False)
            return
        session = self.stores[store].open_session(("f", key))
        if owner is None:
            assert session.id not in self.models
            assert session.id not in self.erased
            self.models[session.id] = Model()
            self.models[session.id].name = key
        else:
            assert session.id == owner
        self.keep(session.id)

    @rule(pick=PICKS, store=STORES, key=NAMES)
    def give_or_free(self, pick: int, store: int, key: str) -> None:
        """Give a session a name, or take it away if it has it."""
        name, model, _, _ = self.pick(pick, store)
        names = self.stores[store].names
        if model.name == key:
            assert names.free(("f", key)) == name
            model.name = None
        elif model.name is None and self.owner(key) is None:
            names.give(name, ("f", key))
            model.name = key
        else:
            with pytest.raises(AlreadyExistsError if model.name is None else RefusedError):
                names.give(name, ("f", key))
        if self.owner(key) is None:
            with pytest.raises(NotFoundError):
                names.free(("f", key))
        self.keep(name)

    # -- undoing and erasing ---------------------------------------------------------------------

    @rule(pick=PICKS, store=STORES, where=PICKS)
    def roll_back(self, pick: int, store: int, where: int) -> None:
        """Roll back to any version that the test knows."""
        name, model, session, _ = self.pick(pick, store)
        if not self.is_open(name, store):
            at = sorted(model.at)[where % len(model.at)]
            done = session.rollback(at)
            model.go_back(model.at[at].items, at, done.version - 1)
            self.keep(name)

    @rule(pick=PICKS, store=STORES)
    def redo(self, pick: int, store: int) -> None:
        """Take the newest rollback back."""
        name, model, session, _ = self.pick(pick, store)
        if self.is_open(name, store):
            return
        if not model.now.undo:
            with pytest.raises(RefusedError):
                session.redo()
            return
        session.redo()
        model.now = model.now._replace(items=model.now.undo[-1][1], undo=model.now.undo[:-1])
        self.keep(name)

    @precondition(lambda self: len(self.models) < MOST)
    @rule(pick=PICKS, store=STORES, where=PICKS, newest=st.booleans())
    def fork(self, pick: int, store: int, where: int, newest: bool) -> None:
        """Fork at a version that the test knows."""
        _, model, session, _ = self.pick(pick, store)
        at = max(model.at) if newest else sorted(model.at)[where % len(model.at)]
        fork = session.fork(at)
        self.models[fork.id] = model.fork(at)
        self.keep(fork.id)

    @precondition(lambda self: len(self.models) > 1)
    @rule(pick=PICKS, store=STORES, forks=st.sampled_from(["keep", "keep", "cascade"]))
    def erase(self, pick: int, store: int, forks: Any) -> None:
        """Erase a session; its forks keep what they inherited, or go with it."""
        name = self.pick(pick, store)[0]
        if self.held is not None and (self.held.id == name or forks == "cascade"):
            return
        alive = {info.id: info.fork_of for info in self.stores[store].sessions()}
        going = {name}
        while forks == "cascade" and (more := {each for each, of in alive.items() if of in going} - going):
            going |= more
        if going == set(self.models):
            return
        assert set(self.stores[store].erase(name, forks=forks)) == going
        for each in going:
            self.was_erased(each)

    def was_erased(self, name: str) -> None:
        """Note that a session was erased: it can be read no more."""
        self.feeds = {key: feed for key, feed in self.feeds.items() if key[1] != name}
        del self.models[name]
        self.erased.add(name)
        for store in self.stores:
            with pytest.raises(ErasedError):
                store.session(name).user("no")

    # -- upkeep ----------------------------------------------------------------------------------

    @rule(number=PICKS, every=st.booleans())
    def lose_what_is_derived(self, number: int, every: bool) -> None:
        """Delete all derived rows, or any one of them."""
        log = self.stores[0].log.engine
        keys = log.derived_keys(b"")
        for key in keys if every else keys[number % len(keys) :][:1] if keys else []:
            log.put_derived([(key, None)])

    @precondition(lambda self: self.held is None)
    @rule()
    def reopen(self) -> None:
        """Close both stores and open them again."""
        for store in self.stores:
            store.close()
        self.open()

    @precondition(lambda self: self.held is None and self.engine_name in {"embedded", ENCRYPTED})
    @rule()
    def scrub(self) -> None:
        """Nothing that is hidden, superseded or erased is in a file, and the store verifies."""
        self.follow()
        for store in self.stores:
            store.close()
        self.engine.open().scrub()
        living = {text for model in self.models.values() for text in self.living(model)}
        for said, text in self.secrets:
            redacted = said.redacted and not text.startswith("late ")  # another part has the result
            if said.forgotten or redacted or text not in living:
                assert files_with(self.engine.path, text) == [], (said.kind, text)
        self.secrets = [(said, text) for said, text in self.secrets if text in living]
        kept = {found for model in self.models.values() for found in model.now.values.values()}
        for model in self.models.values():  # a fork at an earlier version has no value that is freed
            for version, then in model.at.items():
                left = {key: found for key, found in then.values.items() if found in kept}
                model.at[version] = then._replace(values=left)
        self.engine.close_stores()
        self.open()
        self.cursor = None
        self.seen = {}
        report = verify(self.stores[0], deep=True)
        assert report.sound, report

    def living(self, model: Model) -> set[str]:
        """The contents that a session must keep."""
        values = [value if isinstance(value, str) else value.decode() for value, _ in model.now.values.values()]
        said = {text for _, one, text in model.secrets if one.kind != "value"}
        return said | set(values)

    # -- the contract ------------------------------------------------------------------------------

    @rule(pick=PICKS, store=STORES, where=PICKS)
    def look_back(self, pick: int, store: int, where: int) -> None:
        """The view and the records of an earlier version, without what was hidden since."""
        _, model, session, feed = self.pick(pick, store)
        at = sorted(model.at)[where % len(model.at)]
        then = Model()
        then.now, then.told = model.at[at], model.told
        assert shown(session, at) == then.view()
        assert feed.path(at) == then.records()

    def follow(self) -> None:
        """A subscription that goes on from its cursor gives each event once, in order."""
        if self.held is not None:
            self.stores[self.held.store].session(self.held.id).flush()
        for recorded in self.stores[random.Random(len(self.seen)).randrange(2)].subscribe(self.cursor, timeout=0):
            self.cursor = recorded.cursor
            if recorded.session in self.seen and not isinstance(recorded.event, ev.SessionErased):  # the rest is gone
                assert recorded.version == self.seen[recorded.session] + 1
            self.seen[recorded.session] = recorded.version
        for name in self.models:
            assert self.seen[name] == self.stores[0].session(name).version

    @rule()
    def follow_on(self) -> None:
        """Follow from the cursor."""
        self.follow()

    @invariant()
    def all_is_as_in_the_model(self) -> None:
        """Views, records, values, names, notes, totals and states are those of the model."""
        if not hasattr(self, "seen"):
            return
        for place, (_, model) in enumerate(sorted(self.models.items())):
            for store in range(2):
                _, _, session, feed = self.pick(place, store)
                assert feed.path() == model.records()
                expected = [
                    Forgotten(number) if told.forgotten else Redacted(number) if told.redacted else told.value
                    for number, told in model.told.items()
                ]
                assert feed.read(list(model.told)) == expected
                assert shown(session) == model.view()
                if not any(isinstance(one, Said) and one.kind == "summary" for one in model.now.items):
                    seen = [one for one in Transcript(session).oldest_first() if not one.removed]
                    texts = ["".join(part.text for part in one.parts if part.kind == "text") for one in seen]
                    assert texts == [text for role, text, _ in model.view() if role != "tool"]
                values = [(found.key, (found.value, found.revision)) for found in session.values.items()]
                assert values == sorted(
                    model.now.values.items(), key=lambda kept: kept[0].encode("utf-8", "surrogatepass")
                )
        for handle in self.stores:
            infos = {info.id: info for info in handle.sessions()}
            assert infos.keys() == self.models.keys()
            for name, model in self.models.items():
                info = infos[name]
                assert (info.note, info.name) == (model.note, None if model.name is None else ("f", model.name))
                assert info.messages == model.total() or name in self.behind
            for prefix in ("", "n1"):
                named = [info.id for info in handle.sessions(format="f", prefix=prefix)]
                keys = [key for key in ("n1", "n1/x", "n2") if key.startswith(prefix)]
                assert named == [owner for key in keys if (owner := self.owner(key)) is not None]
            open_now = {info.id for info in handle.unfinished()}
            page = handle.newest_sessions(limit=2)
            states = {info.id: info.state for info in page.sessions}
            while page.next is not None:
                page = handle.newest_sessions(limit=2, cursor=page.next)
                states |= {info.id: info.state for info in page.sessions}
            assert states.keys() == self.models.keys()
            running: set[str] = set() if self.held is None else {self.held.id}
            assert {name for name, state in states.items() if state == "running"} == running
            assert {name for name, state in states.items() if state == "unfinished"} == open_now


def _message_of(session: Session, call: str) -> str:
    """The newest effective message with a call of this id."""
    found = [span.item for span in session.history() if isinstance(span.item, ev.PartStarted)]
    return next((item.message for item in reversed(found) if getattr(item.kind, "call", "") == call), "")


def _part_of_call(session: Session, call: str) -> str:
    """The part of a call."""
    found = [span.item for span in session.history() if isinstance(span.item, ev.PartStarted)]
    return next(item.part for item in reversed(found) if getattr(item.kind, "call", "") == call)


def _part_of(session: Session, message: str) -> str:
    """The first part of a message."""
    events = [recorded.event for recorded in session.events()]
    return next(event.part for event in events if isinstance(event, ev.PartStarted) and event.message == message)


def _start_of(session: Session, number: int) -> int:
    """The version right before a record."""
    (kept,) = session.events(number - 1, number)
    assert isinstance(kept.event, ev.RecordKept)
    return number - kept.event.events - 1


def _part_of_record(session: Session, number: int) -> str:
    """The part of a record that has a text."""
    events = [recorded.event for recorded in session.events(upto=number)]
    kept = events[-1]
    assert isinstance(kept, ev.RecordKept)
    own = events[len(events) - 1 - kept.events :]
    parts = [event for event in own if isinstance(event, ev.PartStarted)]
    return next(event.part for event in parts if getattr(event.kind, "text", None) is not None)


@pytest.mark.promise(7, 9, 10)
@pytest.mark.parametrize("engine", [*ENGINES, ENCRYPTED])
def test_all_commands_together_agree_with_a_plain_model(engine: str) -> None:
    """Views, records, values, names, lists and files are those of the model."""

    class Machine(Everything):
        engine_name = engine

    few = engine in {"embedded", ENCRYPTED, POSTGRES}
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=(100 if few else 400) if SLOW else (3 if engine == POSTGRES else 6 if few else 18),
            stateful_step_count=80 if SLOW else 40,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
            phases=(Phase.generate,),
        ),
    )
