"""Random commands by two stores on one place against a model of plain lists."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from eventlog import events as ev
from eventlog.errors import (
    AlreadyExistsError,
    ConflictError,
    EventlogError,
    FencedError,
    LeaseHeldError,
    RefusedError,
    RequestReusedError,
)
from eventlog.integrity.fork_anchor import portable
from eventlog.log.commit import LeaseState
from eventlog.session.reply import Reply
from eventlog.session.session import Session
from eventlog.session.text_stream import TextStream
from eventlog.session.tool_call import ToolCall
from eventlog.store import Store
from eventlog.values import MessageError, Reasoning, Text, Tool
from tests.faults.tally import SLOW as LONG
from tests.support.engines import ENGINES, POSTGRES, Engine

pytestmark = pytest.mark.promise(7)

INTERRUPTED = "[Tool execution was interrupted]"
PICKS = st.integers(0, 1 << 16)
STORES = st.integers(0, 1)
SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)
WORDS = st.text(alphabet="ab\ud800\U0010ffff中", min_size=1, max_size=4)


class Model:
    """A session as lists: `events[v - 1]` is version v, `effective[v]` what counts after v."""

    def __init__(self, events: list[ev.Event], effective: list[list[int]]) -> None:
        self.events = events
        self.effective = effective
        self.pending: list[ev.Event] = []
        """Events the lease holder accepted that are not committed yet."""
        self.title = ""
        self.requests: dict[str, str] = {}
        self.owner: int | None = None
        self.reply: Reply | None = None
        self.texts: list[TextStream] = []
        self.calls: list[tuple[ToolCall, str]] = []
        """Calls of the reply that have no result yet, "pending" or "running"."""

    @property
    def version(self) -> int:
        """The newest committed version."""
        return len(self.events)

    def commit(self, *events: ev.Event) -> None:
        """Append events, what was accepted before them first."""
        pending, self.pending = self.pending, []
        self.insert(*pending, *events)

    def insert(self, *events: ev.Event) -> None:
        """Append another store's events, in front of what the lease holder accepted."""
        for event in events:
            version = len(self.events) + 1
            before = self.effective[event.to] if isinstance(event, ev.RolledBack) else self.effective[-1]
            self.events.append(event)
            self.effective.append([*before, version])

    def current(self, version: int | None = None) -> list[ev.Event]:
        """The effective events at a version, accepted ones included now."""
        versions = self.effective[self.version if version is None else version]
        return [self.events[number - 1] for number in versions] + (self.pending if version is None else [])

    def last_user(self) -> str | None:
        """The newest user message that counts."""
        found = [event.message for event in self.current() if isinstance(event, ev.UserMessageAdded)]
        return found[-1] if found else None

    def closing(self, error: MessageError) -> list[ev.Event]:
        """The events that close everything open."""
        messages: dict[str, list[str]] = {}
        kinds: dict[str, str] = {}
        for event in self.current():
            if isinstance(event, ev.AssistantMessageStarted):
                messages[event.message] = []
            elif isinstance(event, ev.MessageFinished):
                del messages[event.message]
            elif isinstance(event, ev.PartStarted) and event.message in messages:
                messages[event.message].append(event.part)
                kinds[event.part] = "tool" if isinstance(event.kind, Tool) else "text"
            elif isinstance(event, (ev.PartEnded, ev.ToolCompleted, ev.ToolFailed)):
                kinds[event.part] = ""
        closing: list[ev.Event] = []
        for message, parts in messages.items():
            for part in parts:
                if kinds[part] == "text":
                    closing.append(ev.PartEnded(part))
                elif kinds[part] == "tool":
                    closing.append(ev.ToolFailed(part, INTERRUPTED, interrupted=True))
            closing.append(ev.MessageFinished(message, None, error))
        return closing

    def forget_reply(self) -> None:
        """The reply is over, and with it the lease."""
        self.owner = self.reply = None
        self.texts, self.calls = [], []


class Sessions(RuleBasedStateMachine):
    """The state machine's commands."""

    engine_name = "memory"

    def __init__(self) -> None:
        super().__init__()
        self.engine = Engine(self.engine_name)
        self.time = 1_000_000
        self.stores = [self._open(), self._open()]
        self.models: dict[str, Model] = {}
        self.made = 0

    def _open(self) -> Store:
        return self.engine.open(flush_interval=1000.0, lease_ttl=1 << 40, clock=lambda: self.time, checkpoint_events=7)

    def _id(self, prefix: str) -> str:
        self.made += 1
        return f"{prefix}{self.made}"

    def _pick(self, pick: int) -> tuple[str, Model]:
        names = list(self.models)
        name = names[pick % len(names)]
        return name, self.models[name]

    def _handle(self, store: int, name: str) -> Session:
        return self.stores[store].session(name)

    def _replying(self, pick: int) -> tuple[Session, Model, Reply] | None:
        """Pick a session that streams now."""
        found = [name for name, model in self.models.items() if model.reply is not None]
        if not found:
            return None
        name = found[pick % len(found)]
        model = self.models[name]
        assert model.owner is not None
        assert model.reply is not None
        return self._handle(model.owner, name), model, model.reply

    def _settle(self, model: Model, epoch: int) -> None:
        closing = model.closing(MessageError("aborted", "interrupted"))
        if closing:
            model.commit(*closing, ev.Settled(epoch))

    def _leased(self, store: int, name: str, model: Model, command: Callable[[Session], object]) -> bool:
        """Run a command that takes the lease; return False if the other store holds it."""
        handle = self._handle(store, name)
        if model.owner is not None and model.owner != store:
            with pytest.raises(LeaseHeldError):
                command(handle)
            return False
        if model.owner is None:
            head = self.stores[store].log.head(name)
            assert head is not None
            self._settle(model, head.lease.epoch + 1)
        return True

    def streaming(self) -> bool:
        """Whether any session streams."""
        return any(model.reply is not None for model in self.models.values())

    # -- sessions ------------------------------------------------------------------------------

    @initialize()
    def begin(self) -> None:
        """Start with one session."""
        self.create(0)

    @rule(store=STORES)
    def create(self, store: int) -> None:
        """Create a session; its id is taken from then on."""
        if len(self.models) >= 4:
            return
        name = self._id("s")
        self.stores[store].create_session(id=name, title=name)
        self.models[name] = model = Model([], [[]])
        model.title = name
        model.commit(ev.SessionStarted(name))
        with pytest.raises(AlreadyExistsError):
            self.stores[1 - store].create_session(id=name)

    @rule(pick=PICKS, store=STORES, back=PICKS)
    def fork(self, pick: int, store: int, back: int) -> None:
        """A fork at any version, also inside a stream or hidden by a rollback."""
        name, model = self._pick(pick)
        if len(self.models) >= 6:
            return
        if model.owner == store:
            model.commit()  # reading the version commits what is accepted
        at = back % model.version + 1
        fork = self._id("s")
        self._handle(store, name).fork(at, id=fork)
        self.models[fork] = copy = Model(model.events[:at], [list(versions) for versions in model.effective[: at + 1]])
        copy.title = model.title
        copy.commit(ev.SessionForked(name, at, b"", model.title))

    @rule(store=STORES)
    def reopen(self, store: int) -> None:
        """Close a store, which commits and releases leases, and open it again."""
        for model in self.models.values():
            if model.owner == store:
                model.commit()
                model.forget_reply()
        self.stores[store].close()
        self.stores[store] = self._open()

    # -- without a lease -----------------------------------------------------------------------

    @rule(pick=PICKS, store=STORES, text=WORDS)
    def user(self, pick: int, store: int, text: str) -> None:
        """Add a user message from either store, independent of the lease."""
        name, model = self._pick(pick)
        message = self._id("m")
        handle = self._handle(store, name)
        request = self._id("r")
        assert handle.user(text, id=message, request_id=request) == message
        part = next(
            event.part
            for event in reversed([r.event for r in self._outside(name, model).events()])
            if isinstance(event, ev.PartStarted) and event.message == message
        )
        if model.owner == store:
            model.commit()
        model.insert(ev.UserMessageAdded(message), ev.PartStarted(message, part, Text(text)))
        model.requests[request] = message
        assert self._handle(1 - store, name).user(text, id=message, request_id=request) == message
        if model.owner == 1 - store:
            model.commit()
        with pytest.raises(RequestReusedError):
            handle.user(text + "!", id=message, request_id=request)
        with pytest.raises(AlreadyExistsError):
            handle.user(text, id=message)
        if model.owner == store:
            model.commit()

    @rule(pick=PICKS, store=STORES)
    def rename(self, pick: int, store: int) -> None:
        """Give a new title, from either store."""
        name, model = self._pick(pick)
        model.title = self._id("t")
        self._handle(store, name).rename(model.title)
        if model.owner == store:
            model.commit()
        model.insert(ev.SessionRenamed(model.title))

    @rule(pick=PICKS, store=STORES, distance=st.integers(1, 3))
    def conflict(self, pick: int, store: int, distance: int) -> None:
        """An append for another version than the session's is refused; the right one goes in."""
        name, model = self._pick(pick)
        handle = self._handle(store, name)
        if model.owner is not None and model.owner != store:
            with pytest.raises(LeaseHeldError):
                handle.append([(self.time, ev.Custom("n", "{}"))])
            return
        model.commit()
        for wrong in (model.version - distance, model.version + distance):
            with pytest.raises(ConflictError) as caught:
                handle.append([(self.time, ev.Custom("n", "{}"))], expected_version=wrong)
            assert (caught.value.expected, caught.value.actual) == (wrong, model.version)
        committed = handle.append([(self.time, ev.Custom("n", "{}"))], expected_version=model.version)
        model.commit(ev.Custom("n", "{}"))
        assert (committed.first, committed.last) == (model.version, model.version)

    # -- streaming -----------------------------------------------------------------------------

    @rule(pick=PICKS, store=STORES)
    def answer(self, pick: int, store: int) -> None:
        """Start an assistant message: its store takes the lease and settles what was open."""
        name, model = self._pick(pick)
        if model.reply is not None and model.owner == store:
            return
        if not self._leased(store, name, model, lambda handle: handle.executor.acquire()):
            return
        handle = self._handle(store, name)
        handle.executor.acquire()
        model.owner = store
        message = self._id("a")
        model.reply = handle.assistant(id=message)
        model.reply.begin()
        model.pending.append(ev.AssistantMessageStarted(message, model.last_user(), seen=model.version))

    @precondition(streaming)
    @rule(pick=PICKS, thought=st.booleans())
    def part(self, pick: int, thought: bool) -> None:
        """Start a text or reasoning part."""
        found = self._replying(pick)
        assert found is not None
        _, model, reply = found
        name = self._id("p")
        model.texts.append(reply.stream_reasoning(id=name) if thought else reply.stream_text(id=name))
        model.pending.append(ev.PartStarted(reply.id, name, Reasoning() if thought else Text()))

    @precondition(streaming)
    @rule(pick=PICKS, words=st.lists(st.tuples(PICKS, WORDS), min_size=1, max_size=6))
    def stream(self, pick: int, words: list[tuple[int, str]]) -> None:
        """Stream deltas of all open parts in turn."""
        found = self._replying(pick)
        assert found is not None
        _, model, _ = found
        for choice, word in words:
            targets: list[tuple[str, str, Callable[[str], None]]] = [
                (text.id, "text", text.append) for text in model.texts if text.is_open
            ]
            targets += [
                (call.id, "input", call.stream_input)
                if status == "pending"
                else (call.id, "output", call.stream_output)
                for call, status in model.calls
            ]
            if targets:
                part, field, accept = targets[choice % len(targets)]
                accept(word)
                model.pending.append(ev.PartDelta(part, field, word))

    @precondition(streaming)
    @rule(pick=PICKS, choice=PICKS)
    def end_part(self, pick: int, choice: int) -> None:
        """End a text durably; a second end is refused."""
        found = self._replying(pick)
        assert found is not None
        _, model, _ = found
        texts = [text for text in model.texts if text.is_open]
        if texts:
            text = texts[choice % len(texts)]
            text.end("{}")
            model.commit(ev.PartEnded(text.id, "{}"))
            with pytest.raises(RefusedError):
                text.end()

    @precondition(streaming)
    @rule(pick=PICKS, runs=st.booleans())
    def tool(self, pick: int, runs: bool) -> None:
        """Start a tool call, which may run at once."""
        found = self._replying(pick)
        assert found is not None
        _, model, reply = found
        name = self._id("c")
        call = reply.tool("bash", call_id=name, id=name, input="{}" if runs else None)
        model.calls.append((call, "running" if runs else "pending"))
        model.pending.append(ev.PartStarted(reply.id, name, Tool(name, "bash")))
        if runs:
            model.commit(ev.ToolRunning(name, "{}"))

    @precondition(streaming)
    @rule(pick=PICKS, choice=PICKS, well=st.booleans())
    def result(self, pick: int, choice: int, well: bool) -> None:
        """Run a call, or give it its result; a second result is refused."""
        found = self._replying(pick)
        assert found is not None
        _, model, _ = found
        if not model.calls:
            return
        index = choice % len(model.calls)
        call, status = model.calls[index]
        if status == "pending" and well:
            call.start("{}")
            model.commit(ev.ToolRunning(call.id, "{}"))
            model.calls[index] = (call, "running")
            return
        if well:
            call.succeed("out")
            model.commit(ev.ToolCompleted(call.id, "out"))
        else:
            call.fail("no")
            model.commit(ev.ToolFailed(call.id, "no"))
        del model.calls[index]
        with pytest.raises(RefusedError):
            call.succeed("again")

    @precondition(streaming)
    @rule(pick=PICKS, well=st.booleans())
    def finish(self, pick: int, well: bool) -> None:
        """Finish the message, be refused for an open call, or abort; release the lease."""
        found = self._replying(pick)
        assert found is not None
        handle, model, reply = found
        if well and model.calls:
            with pytest.raises(RefusedError):
                reply.finish()
            return
        if well:
            reply.finish()
            model.commit(
                *(ev.PartEnded(text.id) for text in model.texts if text.is_open or text.id in unended(model)),
                ev.MessageFinished(reply.id, "stop"),
            )
        else:
            reply.abort()
            model.commit(*model.closing(MessageError("aborted")))
        handle.executor.release()
        model.forget_reply()

    @precondition(streaming)
    @rule(pick=PICKS)
    def flush(self, pick: int) -> None:
        """Flush: what was accepted becomes durable."""
        found = self._replying(pick)
        assert found is not None
        handle, model, _ = found
        handle.flush()
        model.commit()

    @precondition(streaming)
    @rule(pick=PICKS, flushed=st.booleans())
    def expire(self, pick: int, flushed: bool) -> None:
        """Expire the lease: the other store takes it and settles; the old holder is fenced."""
        found = self._replying(pick)
        assert found is not None
        handle, model, reply = found
        assert model.owner is not None
        if flushed:
            handle.flush()
            model.commit()
        log = handle.store.log
        head = log.head(handle.id)
        assert head is not None
        assert log.set_lease(handle.id, LeaseState(head.lease.epoch, head.lease.owner, 1), replaces=head.lease)
        model.pending = []
        self._settle(model, head.lease.epoch + 1)
        taker = self._handle(1 - model.owner, handle.id)
        with taker.lease(), pytest.raises(FencedError):
            reply.add_text("too late")
        with pytest.raises(FencedError):
            reply.finish()
        with suppress(FencedError):
            handle.executor.release()
        model.forget_reply()
        with taker.lease():
            assert taker.version == model.version

    # -- history -------------------------------------------------------------------------------

    @rule(pick=PICKS, store=STORES, back=PICKS, redo=st.booleans())
    def rollback(self, pick: int, store: int, back: int, redo: bool) -> None:
        """Roll back to any version, or redo; open parts there are closed in the same append."""
        name, model = self._pick(pick)
        handle = self._handle(store, name)
        if model.reply is not None and model.owner == store:
            with pytest.raises(RefusedError):
                handle.rollback(1)
            model.commit()
            return
        self._go(store, name, model, None if redo else back % model.version + 1)

    @rule(pick=PICKS, store=STORES, backs=st.lists(PICKS, min_size=1, max_size=2), redos=st.integers(1, 3))
    def hidden(self, pick: int, store: int, backs: list[int], redos: int) -> None:
        """Roll back repeatedly to hidden versions, then redo as many times."""
        name, model = self._pick(pick)
        if model.reply is not None and model.owner == store:
            return
        if not self._go(store, name, model, backs[0] % model.version + 1):
            return
        for back in backs:
            hidden = sorted(set(range(1, model.version + 1)) - set(model.effective[model.version]))
            if hidden:
                self._go(store, name, model, hidden[back % len(hidden)])
        for _ in range(redos):
            undone = undone_at(model)
            self._go(store, name, model, None)
            if undone:
                assert self._shown(name, model.version) >= set(model.effective[undone[-1] - 1])

    def _go(self, store: int, name: str, model: Model, to: int | None) -> bool:
        """Roll back to a version, or redo (None); False if that is refused."""
        handle = self._handle(store, name)
        if to is None:
            undone = undone_at(model)
            if not undone:
                with pytest.raises(RefusedError):
                    handle.redo()
                return False
            to, go = undone[-1] - 1, handle.redo
        else:
            go = partial(handle.rollback, to)
        if not self._leased(store, name, model, lambda _: go()):
            return False
        result = go()
        model.commit(ev.RolledBack(to))
        assert (result.version, result.to) == (model.version, to)
        model.commit(*model.closing(MessageError("aborted", "rolled back")))
        return True

    def _shown(self, name: str, version: int) -> set[int]:
        spans = self._outside(name, self.models[name]).history(version)
        return {entry.version for span in spans for entry in span.events()}

    # -- looking -------------------------------------------------------------------------------

    def _outside(self, name: str, model: Model) -> Session:
        """A handle that is not the lease holder's, so that reading commits nothing."""
        return self._handle(0 if model.owner is None else 1 - model.owner, name)

    @rule(pick=PICKS, back=PICKS)
    def look(self, pick: int, back: int) -> None:
        """Compare a session now and at a past version with the model."""
        name, model = self._pick(pick)
        self._compare(name, model, [back % model.version + 1, model.version])

    def _compare(self, name: str, model: Model, versions: list[int]) -> None:
        handle = self._outside(name, model)
        recorded = list(handle.events())
        assert [portable(entry.event) for entry in recorded] == model.events
        assert [entry.version for entry in recorded] == list(range(1, model.version + 1))
        assert self.stores[0].info(name).title == model.title
        for version in versions:
            shown = {
                entry.version: portable(entry.event) for span in handle.history(version) for entry in span.events()
            }
            effective = set(model.effective[version])
            expected = {
                number: event
                for number, event in enumerate(model.events[:version], 1)
                if number in effective or isinstance(event, ev.LASTING)
            }
            assert shown == expected
            assert list(shown) == sorted(shown)

    def teardown(self) -> None:
        """Compare everything at every version, from reopened stores."""
        try:
            for store in (0, 1):
                self.reopen(store)
            for name, model in self.models.items():
                self._compare(name, model, list(range(1, model.version + 1)))
            assert self.stores[0].log.check() == []
        finally:
            self.engine.close()


def undone_at(model: Model) -> list[int]:
    """The rollbacks that were not redone, oldest first."""
    undone: list[int] = []
    for version, event in enumerate(model.events, 1):
        if isinstance(event, ev.RolledBack):
            if undone and event.to == undone[-1] - 1:
                undone.pop()
            else:
                undone.append(version)
    return undone


def unended(model: Model) -> set[str]:
    """The reply's text parts that have not ended in the log."""
    ended = {event.part for event in model.events + model.pending if isinstance(event, ev.PartEnded)}
    return {text.id for text in model.texts} - ended


@pytest.mark.promise(1, 2, 3, 4, 5, 9, 13)
@pytest.mark.parametrize("engine_name", ENGINES)
def test_random_commands_do_what_the_lists_say(engine_name: str) -> None:
    """Promises 1-5, 9, 13: any commands leave exactly the history that plain lists predict."""

    class OnEngine(Sessions):
        pass

    OnEngine.engine_name = engine_name
    run_state_machine_as_test(
        OnEngine,
        settings=settings(
            max_examples={"memory": 150, POSTGRES: 200 if LONG else 8}.get(engine_name, 40),
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=SLOW,
        ),
    )


def test_the_machine_notices_a_lost_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model can fail: it rejects an engine that loses one delta."""
    taken = TextStream.append

    def forgetful(stream: TextStream, text: str) -> None:
        if "b" not in text:
            taken(stream, text)

    monkeypatch.setattr(TextStream, "append", forgetful)
    quickly = settings(
        max_examples=2_000,  # one example in sixty notices the fault, and the run ends there
        report_multiple_bugs=False,
        phases=[Phase.generate],
        deadline=None,
        database=None,
        suppress_health_check=SLOW,
    )
    with pytest.raises((AssertionError, EventlogError, ExceptionGroup)):
        run_state_machine_as_test(Sessions, settings=quickly)
