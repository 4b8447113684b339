"""Pages that lose, repeat and resume updates, against the transcript of their session."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import jsonschema
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

from eventlog.append.own_appends import uncommitted
from eventlog.codec.deltas import DeltaRun
from eventlog.session.reply import Reply
from eventlog.session.session import Session
from eventlog.state.evolve import evolve
from eventlog.store import Store
from projections.live import live_session
from projections.live.live_session import LiveSession, page_of
from projections.live.open_messages import GrowingText, OpenMessages
from projections.live.patches import Update, message_patches
from projections.transcript.message_json import Form
from projections.transcript.transcript import Transcript
from tests.faults.tally import SLOW
from tests.support.cli_runner import SCHEMAS
from tests.support.engines import ENCRYPTED, Engine
from tests.support.history_strategies import Command, Grower, commands, texts
from tests.support.live_page import LivePage, as_utf16, shown

SCHEMA: Any = jsonschema.Draft202012Validator(SCHEMAS["live"])
PAGE = st.tuples(st.integers(1, 5), st.sampled_from([3, 200]), st.integers(0, 1))
"""Limit, longest text, and the process of a page."""
FATE = st.sampled_from(["taken", "taken", "taken", "repeated", "lost"])
FEW = 6
"""Patches of an update in the machine, so that there are resets."""


class Client:
    """A page in a browser, and its connection to a process."""

    def __init__(self, session: str, limit: int, longest: int) -> None:
        self.page = LivePage()
        self.session = session
        self.limit = limit
        self.longest = longest
        self.live: LiveSession | None = None
        self.at = 0
        """The process it is connected to."""
        self.answer: Any = None
        """A page of older messages that is on its way."""
        self.kept: list[Update] = []
        """Updates since that was asked for."""

    def connect(self, stores: list[Store], at: int) -> None:
        """Connect, with the cursor of the page if it has one."""
        self.at, self.answer = at, None
        self.live = LiveSession(stores[at], self.session, self.page.cursor, limit=self.limit, longest=self.longest)

    def take(self, update: Update) -> None:
        """Apply an update to the page."""
        SCHEMA.validate(json.loads(update.data))
        self.page.take(update.cursor, update.data)
        self.kept.append(update)

    def ask(self, session: Session) -> None:
        """Ask for older messages."""
        if self.page.next is not None:
            form, before = Form(self.longest), self.page.next
            self.answer = page_of(session, Transcript(session), form, self.limit, before)
            self.kept = []

    def get(self) -> None:
        """Put older messages before those of the page, unless that has begun anew."""
        answer, self.answer = self.answer, None
        patches = [patch for update in self.kept for patch in json.loads(update.data)]
        if answer is not None and not any("reset" in patch or "drop" in patch for patch in patches):
            self.page.add_older(as_utf16(answer))
            for patch in patches:
                self.page.apply(patch)


class Pages(RuleBasedStateMachine):
    """Two processes that write to a session and its fork, and pages that follow from either."""

    engine_name = "memory"

    def __init__(self) -> None:
        super().__init__()
        self.engine = Engine(self.engine_name)
        self.grower = Grower()
        self.reply: Reply | None = None
        """A reply that the first process fills."""
        self.clients: list[Client] = []
        self.erased = False
        self.has_fork = False

    @initialize(steps=st.lists(commands(), min_size=6, max_size=30), pages=st.lists(PAGE, min_size=1, max_size=2))
    def open(self, steps: list[Command], pages: list[tuple[int, int, int]]) -> None:
        """Open the store in two processes, and pages of a session that is there already."""
        self.stores = [self.engine.open(flush_interval=3600.0) for _ in range(2)]
        self.stores[0].create_session(id="s", title="t", time=1_000)
        self.grow(steps, 0, 7)
        for page in pages:
            self.open_page(page, forked=False)

    def teardown(self) -> None:
        """Let every page come to the end."""
        if self.clients:
            self.flush()
            for client in self.clients:
                self.compare(self.clients.index(client))
                self.reconnect(client, 1)
                self.catch_up(client)
        self.engine.close()

    # -- what happens in the session

    @precondition(lambda self: not self.erased and self.reply is None)
    @rule(steps=st.lists(commands(), min_size=1, max_size=6), at=st.integers(0, 1), cut=st.integers(1, 20))
    def grow(self, steps: list[Command], at: int, cut: int) -> None:
        """Append events, in one commit or in several."""
        self.learn()
        done = len(self.grower.items)
        for step in steps:
            self.grower.do(step)
        items = self.grower.items[done:]
        for begin in range(0, len(items), cut):
            self.stores[at].session("s").append(items[begin : begin + cut])

    def learn(self) -> None:
        """Tell the grower of the events that commands have made."""
        for recorded in self.stores[1].session("s").events(len(self.grower.items)):
            evolve(self.grower.state, recorded.event)
            self.grower.items.append((recorded.time, recorded.event))

    @precondition(lambda self: not self.erased)
    @rule(
        acts=st.lists(
            st.sampled_from(["token", "token", "token", "flush", "lose", "look", "end", "break off"]),
            min_size=3,
            max_size=12,
        ),
        watched=st.booleans(),
        data=st.data(),
    )
    def talk(self, acts: list[str], watched: bool, data: st.DataObject) -> None:
        """Stream a reply in the first process, whose tokens may be committed late or lost."""
        if self.reply is None:
            self.reply = self.stores[0].session("s").assistant("acme/one").__enter__()
            self.stream = self.reply.stream_text()
            if watched:
                self.flush()
        for act in acts:
            if act == "token":
                text = data.draw(texts)
                self.stream.append(text)
            elif act == "flush":
                self.flush()
            elif act == "lose":
                self.stores[0].session("s").executor.writer.buffer.drop()
            elif act == "look":
                self.update(data.draw(st.integers(0, 3)), data.draw(FATE))
            else:
                self.end(finishes=act == "end")
                return
            for number in range(len(self.clients) if watched else 0):
                self.update(number, "taken")

    def flush(self) -> None:
        """Commit what was accepted."""
        self.stores[0].flush()

    def end(self, *, finishes: bool) -> None:
        """Finish the reply, or break it off."""
        reply, self.reply = self.reply, None
        assert reply is not None
        if finishes:
            self.stream.end()
            reply.finish()
        else:
            reply.abort()
        reply.__exit__(None, None, None)

    @precondition(lambda self: not self.erased)
    @rule(at=st.integers(0, 1), waits=st.booleans())
    def ask_meanwhile(self, at: int, waits: bool) -> None:
        """Add a user message, which needs no lease."""
        self.stores[at].session("s").user("meanwhile", delivery="queue" if waits else "steer")

    @precondition(lambda self: not self.erased)
    @rule(pick=st.integers(0, 60), at=st.integers(0, 1))
    def redact(self, pick: int, at: int) -> None:
        """Redact a part, which may be growing."""
        session = self.stores[at].session("s")
        parts = [part.id for message in Transcript(session).newest_first() for part in message.parts]
        if parts:
            self.flush()
            session.redact(parts[pick % len(parts)], search=False)

    @precondition(lambda self: not self.erased and not self.has_fork)
    @rule(back=st.integers(0, 30))
    def fork(self, back: int) -> None:
        """Fork the session, now or at an earlier version."""
        self.flush()
        self.has_fork = True
        session = self.stores[1].session("s")
        session.fork(max(session.version - back, 1), id="f")

    @precondition(lambda self: self.has_fork)
    @rule(at=st.integers(0, 1))
    def ask_the_fork(self, at: int) -> None:
        """Add a message to the fork."""
        self.stores[at].session("f").user("to the fork")

    @precondition(lambda self: not self.erased and self.reply is None and len(self.clients) > 1)
    @rule(sure=st.integers(0, 9))
    def erase(self, sure: int) -> None:
        """Erase the session."""
        if sure == 9:
            self.erased = True
            self.stores[1].erase("s", forks="keep")

    @precondition(lambda self: self.reply is None)
    @rule()
    def restart(self) -> None:
        """End both processes, and start them again."""
        for store in self.stores:
            store.close()
        self.stores = [self.engine.open(flush_interval=3600.0) for _ in range(2)]
        for client in self.clients:
            client.live = None

    # -- what happens to the pages

    @precondition(lambda self: not self.erased and len(self.clients) < 4)
    @rule(page=PAGE, forked=st.booleans())
    def open_page(self, page: tuple[int, int, int], forked: bool) -> None:
        """Open a page of the session, or of its fork."""
        limit, longest, at = page
        client = Client("f" if forked and self.has_fork else "s", limit, longest)
        client.connect(self.stores, at)
        self.clients.append(client)

    @rule(pick=st.integers(0, 3), fate=FATE)
    def update(self, pick: int, fate: str) -> None:
        """Send a page its next update, which may arrive twice or not at all."""
        client = self.clients[pick % len(self.clients)]
        if client.live is None:
            self.reconnect(client, pick % 2)
        update = None if client.live is None else client.live.advance()
        if update is None:
            return
        if fate == "lost":
            client.live = None
            return
        client.take(update)
        if fate == "repeated" and update.cursor is None:
            client.take(update)

    @rule(pick=st.integers(0, 3), at=st.integers(0, 1))
    def connect(self, pick: int, at: int) -> None:
        """Connect a page again, to either process."""
        self.reconnect(self.clients[pick % len(self.clients)], at)

    def reconnect(self, client: Client, at: int) -> None:
        """Connect a page, unless its session is erased."""
        if not client.page.gone:
            client.connect(self.stores, at)

    @rule(pick=st.integers(0, 3), arrives=st.booleans())
    def older(self, pick: int, arrives: bool) -> None:
        """Ask for older messages, which arrive now, or behind some updates."""
        client = self.clients[pick % len(self.clients)]
        if client.answer is not None:
            client.get()
        elif client.live is not None and not (self.erased and client.session == "s"):
            self.flush()
            client.ask(self.stores[1].session(client.session))
            if arrives:
                client.get()

    @rule(pick=st.integers(0, 3))
    def compare(self, pick: int) -> None:
        """Let a page catch up, and compare it with the transcript."""
        client = self.clients[pick % len(self.clients)]
        if client.live is not None:
            self.catch_up(client)

    def catch_up(self, client: Client) -> None:
        """Take all updates of a page, and compare it with the transcript."""
        if client.live is not None:
            while (update := client.live.advance()) is not None:
                client.take(update)
        if client.answer is not None:
            client.get()
        page = client.page
        if self.erased and client.session == "s":
            assert page.gone
            assert not page.messages
            return
        session = self.stores[1].session(client.session)
        expected, seen = shown(session, page.next, client.longest), list(page.messages.values())
        if self.reply is not None and client.at == 0 and client.session == "s":
            self.add_accepted(expected, seen, client.longest)
        assert seen == expected
        assert page.next is None or seen[0]["version"] == page.next

    def add_accepted(self, expected: list[Any], shown: list[Any], longest: int) -> None:
        """Add the accepted text to its part, if the page shows any of it."""
        writer = self.stores[0].session("s").executor.writer
        runs = [span.item for span in uncommitted(writer, 0) if isinstance(span.item, DeltaRun)]
        accepted = "".join(run.joined().get((self.stream.id, "text"), "") for run in runs)
        texts = {part["id"]: part["text"] for message in shown for part in message["parts"]}
        for part in (part for message in expected for part in message["parts"]):
            if part["id"] == self.stream.id and texts.get(part["id"]) != part["text"]:
                part["text"] = as_utf16((part["text"] + accepted)[:longest])

    @invariant()
    def has_a_cursor(self) -> None:
        """A page that shows anything can go on in another process."""
        for client in self.clients:
            assert client.page.cursor or not client.page.messages


def run(engine_name: str, examples: int) -> None:
    """Run the machine on an engine."""

    class OnEngine(Pages):
        pass

    OnEngine.engine_name = engine_name
    run_state_machine_as_test(
        OnEngine,
        settings=settings(
            max_examples=examples * (20 if SLOW else 1),
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )


@pytest.mark.parametrize(
    ("engine_name", "examples"), [("memory", 25), ("partitioned", 8), ("embedded", 8), (ENCRYPTED, 4)]
)
def test_pages_equal_the_transcript(engine_name: str, examples: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page equals the transcript after all that may be lost, repeated, resumed and undone."""
    monkeypatch.setattr(live_session, "MOST_PATCHES", FEW)
    run(engine_name, examples)


@pytest.mark.parametrize("fault", ["no end", "no redaction"])
def test_the_machine_notices_a_missing_patch(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model can fail: it rejects a reducer that leaves out one kind of patch."""

    def nothing(*_: Any) -> Iterator[Any]:
        return iter(())

    if fault == "no end":
        monkeypatch.setattr(GrowingText, "retract", nothing)
        monkeypatch.setattr(OpenMessages, "ends", nothing)
    else:

        def unforced(old: Any, new: Any, _: object) -> Iterator[Any]:
            return message_patches(old, new, set())

        monkeypatch.setattr(live_session, "message_patches", unforced)
    quickly = settings(
        max_examples=2_000,
        stateful_step_count=40,
        report_multiple_bugs=False,
        phases=[Phase.generate],
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    with pytest.raises((AssertionError, ExceptionGroup)):
        run_state_machine_as_test(Pages, settings=quickly)
