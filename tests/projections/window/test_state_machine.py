"""Random commands: the view from any checkpoint, live, and by a model of our own."""

from __future__ import annotations

from contextlib import suppress
from typing import Literal

import msgspec
import pytest
from hypothesis import HealthCheck, Phase
from hypothesis import settings as profile
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from eventlog import events as ev
from eventlog.errors import FencedError, NotFoundError, RefusedError
from eventlog.session.owner import LIVE
from eventlog.session.reply import Reply
from eventlog.session.session import Session
from eventlog.session.tool_call import ToolCall
from eventlog.values import File, Limits, Model, Reasoning, Text, Todo, Tool
from projections import LiveView, ModelView
from projections.conversation.parts import Compaction, FilePart, Message, ReasoningPart, TextPart, ToolPart
from projections.conversation.state import Conversation
from projections.loop import CallModel, ContextWindow
from projections.loop.decision.exchange import answers, asks, newest_question, open_answer, queued_message, turn_answers
from projections.loop.decision.loop_state_projection import LoopStateProjection
from projections.loop.decision.next_step import next_step
from projections.loop.decision.situation import Situation
from projections.replay.checkpoints import Checkpoints
from projections.replay.loop import Follower, replay, state_at
from projections.transcript import backward
from projections.transcript.message import transcript_message
from projections.transcript.transcript import Transcript, TranscriptProjection
from projections.view.neutral import Call as Called
from projections.view.neutral import NeutralMessage, Result
from projections.view.neutral import Text as Said
from projections.view.options import Constraints, RenderOptions
from projections.view.targets import ModelViewProjection
from projections.window import CompactionPolicy, ContextPolicy, PrunePolicy
from projections.window.policy.policy import encode_policy
from projections.window.prune.planners import PLANNERS
from tests.support.engines import ENGINES, Engine
from tests.support.provider_forms import check
from tests.support.window_loop import MODEL, sections

pytestmark = pytest.mark.promise(9)

PICKS = st.integers(0, 1 << 16)
SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)
POLICY = ContextPolicy(compaction=CompactionPolicy(preserve_recent_tokens=60))
EAGER = PrunePolicy(trigger=0.0, protect=10, minimum=0, turns=1, steps=1, expected_turns=100)
OPENCODE = ContextPolicy(
    prune=msgspec.structs.replace(EAGER, policy="opencode"), preset="opencode-1.18", counter="chars/4"
)
SUPERSEDING = ContextPolicy(prune=msgspec.structs.replace(EAGER, policy="superseded"))
KEPT: list[tuple[ContextPolicy | None, RenderOptions | None]] = [
    (ContextPolicy(prune=EAGER), None),
    (OPENCODE, None),
    (SUPERSEDING, RenderOptions(reminder=True, constraints=Constraints(alternate=True))),
    (None, None),
]
"""Policies and options of windows that are kept from command to command."""
SETTINGS: list[tuple[str | None, Limits | None, ContextPolicy | None]] = [
    ("gpt-4", Limits(context=100_000, output=4_000), None),
    ("claude-sonnet-4", None, OPENCODE),
    (None, Limits(context=3_000, output=500), SUPERSEDING),
    ("x", None, ContextPolicy(prune=msgspec.structs.replace(EAGER, policy="cost-aware"))),
]
"""Models, limits and policies that are recorded."""


class Seen:
    """A message, as the oracle knows it."""

    def __init__(self, version: int, event: ev.UserMessageAdded | ev.AssistantMessageStarted) -> None:
        self.id = event.message
        self.user = isinstance(event, ev.UserMessageAdded)
        self.place = version
        self.real = isinstance(event, ev.UserMessageAdded) and not event.synthetic
        self.waiting = isinstance(event, ev.UserMessageAdded) and event.delivery == "queue"
        self.summary = isinstance(event, ev.AssistantMessageStarted) and event.summary
        self.removed = False
        self.says = False
        self.thinks = False
        """Whether it has reasoning, which alone does not show a message that broke off."""
        self.broken = False
        self.covered: set[str] = set()


class Expected:
    """The messages that the model sees, from the effective events alone."""

    def __init__(self, session: Session) -> None:
        self.messages: dict[str, Seen] = {}
        self.markers: dict[str, str] = {}
        """Compaction part to the message that asked for it."""
        self.started: dict[str, ev.CompactionStarted] = {}
        self.in_force: list[tuple[str, str]] = []
        """Completed compactions and their summaries, oldest first."""
        self.parts: dict[str, str] = {}
        self.tokens: dict[str, str] = {}
        self.pinned: set[str] = set()
        self.reasoning: set[str] = set()
        for span in session.history():
            for recorded in span.events():
                self._take(recorded.version, recorded.event)

    def _take(self, version: int, event: ev.Event) -> None:  # one branch per event
        match event:
            case ev.UserMessageAdded() | ev.AssistantMessageStarted():
                self.messages[event.message] = Seen(version, event)
            case ev.MessagePromoted():
                found = self.messages[event.message]
                found.waiting, found.place = False, version
            case ev.MessageRemoved():
                self.messages[event.message].removed = True
                for part, summary in [*self.in_force]:
                    if event.message in {self.markers[part], summary}:
                        self._undo(part)
            case ev.PartStarted():
                self.parts[event.part] = event.message
                if isinstance(event.kind, Tool) or (isinstance(event.kind, Text) and event.kind.text):
                    self.messages[event.message].says = True
                if isinstance(event.kind, Text) and isinstance(event.kind.text, str):
                    self.tokens[event.part] = event.kind.text
                self.reasoning |= {event.part} if isinstance(event.kind, Reasoning) else set()
            case ev.MessageFinished():
                self.messages[event.message].broken = event.error is not None
            case ev.PartDelta(field="text"):
                if event.part in self.reasoning:
                    self.messages[self.parts[event.part]].thinks = True
                else:
                    self.messages[self.parts[event.part]].says = True
                self.tokens[event.part] = self.tokens.get(event.part, "") + event.text
            case ev.Pinned(part=str() as part):
                self.pinned.add(part)
            case ev.CompactionRequested():
                self.markers[event.part] = event.message
            case ev.CompactionStarted():
                self.started[event.part] = event
            case ev.CompactionCompleted():
                self._cover(event)
            case ev.CompactionUndone():
                self._undo(event.part)
            case _:
                pass

    def _cover(self, event: ev.CompactionCompleted) -> None:
        started = self.started[event.part]
        tail, through = self.messages.get(started.tail or ""), self.messages.get(started.through or "")
        if tail is not None:
            bound = tail.place - 1
        elif through is not None:
            bound = through.place
        else:
            bound = self.messages[self.markers[event.part]].place - 1
        for message in self.messages.values():
            if message.place <= bound and not message.waiting and message.id not in started.kept:
                message.covered.add(event.part)
        self.in_force.append((event.part, event.summary))

    def _undo(self, part: str) -> None:
        self.in_force = [found for found in self.in_force if found[0] != part]
        for message in self.messages.values():
            message.covered.discard(part)

    def visible(self) -> list[str]:
        """The messages of the view that have content, in order."""
        part, summary = self.in_force[-1] if self.in_force else ("", "")
        first = [name for name in (self.markers.get(part, ""), summary) if name]
        markers = set(self.markers.values())
        rest = sorted(
            (
                message
                for message in self.messages.values()
                if not (message.removed or message.waiting or message.covered or message.summary)
                and message.id not in markers
                and (message.says or (message.thinks and not message.broken))
            ),
            key=lambda message: message.place,
        )
        return first + [message.id for message in rest]

    def newest_real(self) -> str | None:
        """The newest message that the user wrote and that does not wait."""
        found = [seen for seen in self.messages.values() if seen.real and not seen.waiting]
        newest = max(found, key=lambda seen: seen.place, default=None)
        return None if newest is None or newest.removed or not newest.says else newest.id

    def unseen_words(self) -> list[str]:
        """The texts of every message that is not in the view."""
        shown = set(self.visible())
        return [
            text
            for part, text in self.tokens.items()
            if text and self.parts[part] not in shown and part not in self.pinned and text.startswith("<")
        ]


class Windows(RuleBasedStateMachine):
    """The state machine's commands."""

    engine_name = "memory"

    def __init__(self) -> None:
        super().__init__()
        self.engine = Engine(self.engine_name)
        self.made = 0
        self.digests: dict[str, dict[int, bytes]] = {"s": {}}
        """Of every session and version that was looked at, what its view was."""
        self.parents: dict[str, str] = {}
        """Of every fork what it was forked from."""
        self._open()
        self.store.create_session(id="s")
        self._take("s")

    # -- places --------------------------------------------------------------------------------

    def _open(self) -> None:
        self.store = self.engine.open(flush_interval=1000.0, checkpoint_events=7, clock=lambda: 1_000_000)

    def _take(self, name: str) -> None:
        """Make this session the current one."""
        self.session: Session = self.store.session(name)
        self.session.executor.acquire()
        self.reply: Reply | None = None
        self.calls: list[ToolCall] = []
        self.summary: Reply | None = None
        self.live = LiveView(self.session)
        self.agenda = Follower(LoopStateProjection(), self.session.reader, Checkpoints(self.store.log))
        self.kept = [self._made(number) for number in range(len(KEPT))]

    def _made(self, number: int) -> ContextWindow:
        policy, options = KEPT[number]
        return ContextWindow(self.session, policy, environment={}, options=options)

    def _id(self, prefix: str) -> str:
        self.made += 1
        return f"{prefix}{self.made}"

    def _digest(self) -> bytes:
        return ModelView.of(self.session).digest

    @property
    def state(self) -> Conversation:
        """The current conversation."""
        self.live.catch_up()
        return self.live.state

    def _compaction(self, *statuses: str) -> tuple[str, str] | None:
        """The newest compaction and its message, if in one of these states."""
        found = next(reversed(self.state.compactions.values()), None)
        if found is None or found.status not in statuses or self.state.messages[found.message].removed:
            return None
        return found.part, found.message

    def _window(self) -> ContextWindow:
        return ContextWindow(self.session, POLICY, summarizer=lambda _: sections("noted"), environment={})

    # -- what is said --------------------------------------------------------------------------

    @initialize(turns=st.integers(1, 3))
    def begin(self, turns: int) -> None:
        """Start with something to compact."""
        for _ in range(turns):
            self.user(0)
            self.turn(1)

    @rule(kind=st.integers(0, 5))
    def user(self, kind: int) -> None:
        """Add a user message; some are queued, some synthetic."""
        message = self._id("m")
        files = [File("image/png", "data:image/png;base64,iVBORw0KGgo=", "a.png")] if kind == 3 else []
        delivery: Literal["queue", "steer"] = "queue" if kind == 1 else "steer"
        self.session.user(f"<{message}>", id=message, delivery=delivery, synthetic=kind == 2, files=files)

    @rule(pick=PICKS)
    def promote(self, pick: int) -> None:
        """Promote a queued message, at most once."""
        waiting = [message.id for message in self.state.messages.values() if message.waiting and not message.removed]
        if waiting:
            message = waiting[pick % len(waiting)]
            self.session.context.promote(message)
            with pytest.raises(RefusedError):
                self.session.context.promote(message)

    @rule(calls=st.integers(0, 2))
    def turn(self, calls: int) -> None:
        """Add a whole answer with calls and results."""
        with self.session.assistant(MODEL, id=self._id("a")) as reply:
            if self.made % 3 == 0:
                thought = reply.stream_reasoning(metadata='{"openai":{"itemId":"rs_1"}}' if self.made % 2 else None)
                thought.append("I think " * 9)
                thought.end()
            reply.add_text(f"<{reply.id}> and so on " + "word " * 20)
            for _ in range(calls):
                name = self._id("c")
                tool, path = "write" if self.made % 5 == 0 else "read", self.made % 3
                content = "word " * 90 if tool == "write" else ""
                reply.tool(tool, call_id=name, input=f'{{"path":"{path}","content":"{content}"}}').succeed(
                    f"result of {name}" + " word" * (self.made * 7 % 40)
                )
            reply.finish("tool-calls" if calls else "stop")

    @rule(words=st.booleans(), call=st.integers(0, 2))
    def stream(self, words: bool, call: int) -> None:
        """Start or extend an open answer; its calls are pending or running."""
        if self.reply is None:
            self.reply = self.session.assistant(MODEL, id=self._id("a"))
            self.reply.begin()
        if words:
            text = self.reply.stream_text()
            text.append(f"<{self.reply.id}>")
            text.append(" more")
        if call:
            name = self._id("c")
            self.calls.append(self.reply.tool("read", call_id=name, input="{}" if call == 2 else None))

    @rule(well=st.booleans())
    def result(self, well: bool) -> None:
        """Give a call its result, at any later time."""
        if self.calls:
            call = self.calls.pop(0)
            if not well:
                call.fail("no")
            else:
                with suppress(RefusedError):
                    call.start("{}")
                call.succeed("late result" + " word" * (self.made % 40))

    @rule(well=st.booleans())
    def end(self, well: bool) -> None:
        """Finish or abort the open answer."""
        if self.reply is not None:
            if well and not self.calls:
                self.reply.finish()
            else:
                self.reply.abort()
            self.reply, self.calls = None, []

    @rule(pick=PICKS)
    def remove(self, pick: int) -> None:
        """A message of the view is removed."""
        shown = [
            name for name in Expected(self.session).visible() if name not in self.session.reader.state().open_messages()
        ]
        running = self._compaction("requested", "started")
        if shown and running is None and pick % 3 == 0:
            self.session.remove_message(shown[pick % len(shown)])

    @rule(kind=st.integers(0, 4), pick=PICKS)
    def beside(self, kind: int, pick: int) -> None:
        """Change names, todos, pins and the system prompt."""
        parts = [part.id for message in self.state.messages.values() if not message.user for part in message.parts]
        if kind == 0:
            self.session.rename(self._id("title"))
        elif kind == 1:
            self.session.set_todos([Todo(self._id("todo")), Todo("old", "completed")][: pick % 3])
        elif kind == 2:
            self.session.pin(self._id("fact"))
        elif kind == 3 and parts:
            with suppress(NotFoundError):
                self.session.pin(part=parts[pick % len(parts)])
        elif kind == 4:
            self.session.set_system_prompt("header", self._id("rest"))

    @rule(pick=PICKS)
    def settings(self, pick: int) -> None:
        """Change the model, its limits and the policy."""
        model, limits, policy = SETTINGS[pick % len(SETTINGS)]
        self.session.set_settings(
            model=None if model is None else Model("p", model),
            limits=limits,
            policy=None if policy is None else encode_policy(policy),
        )

    # -- prune ---------------------------------------------------------------------------------

    @rule(pick=PICKS, back=st.booleans())
    def prune(self, pick: int, back: bool) -> None:
        """Prune results, thoughts, files and arguments; restoring gives the same bytes again."""
        found = [
            part
            for message in self.state.messages.values()
            if not message.removed
            for part in message.parts
            if not part.removed
            and (
                isinstance(part, FilePart)
                or (isinstance(part, ReasoningPart) and part.ended)
                or (isinstance(part, ToolPart) and part.status == "completed")
            )
        ]
        parts = [part.id for part in found if not part.pruned]
        calls = [part.id for part in found if isinstance(part, ToolPart) and not part.arguments_pruned]
        if parts or calls:
            chosen = parts[pick % (len(parts) or 1) :][:2]
            chosen_calls = calls[pick % (len(calls) or 1) :][: (pick + 1) % 3]
            before = self._digest()
            self.session.context.prune(chosen, arguments=chosen_calls, policy="test", freed=1)
            for again in ((chosen, ()), ((), chosen_calls)):
                if again[0] or again[1]:
                    with pytest.raises(RefusedError):
                        self.session.context.prune(again[0], arguments=again[1])
            check(ModelView.of(self.session).messages)
            if back:
                self.session.context.unprune(chosen, arguments=chosen_calls)
                assert self._digest() == before

    @rule(pick=PICKS, words=st.integers(0, 40))
    def edit(self, pick: int, words: int) -> None:
        """Edit a result, or remove its call from a message with more parts."""
        parts = [
            part
            for message in self.state.messages.values()
            if not message.removed and any(isinstance(part, TextPart) and part.pieces for part in message.parts)
            for part in message.parts
            if isinstance(part, ToolPart) and part.status == "completed" and not part.removed
        ]
        if parts and words:
            self.session.edit_part(parts[pick % len(parts)].id, "word " * words)
        elif parts:
            self.session.remove_part(parts[pick % len(parts)].id)

    @rule(pick=PICKS)
    def late(self, pick: int) -> None:
        """Give an interrupted call its late result."""
        if self.reply is None and not any(part.interrupted for part in self._calls()):
            broken = self.session.assistant(MODEL, id=self._id("a"))
            broken.begin()
            broken.add_text(f"<{broken.id}>")
            broken.tool("read", call_id=self._id("c"), input="{}")
            broken.abort()
        parts = [part.id for part in self._calls() if part.interrupted]
        if parts:
            self.session.executor.command([ev.ToolCompleted(parts[pick % len(parts)], "late" + " word" * (pick % 40))])

    @rule(pick=PICKS, of_parent=st.booleans())
    def redact(self, pick: int, of_parent: bool) -> None:
        """Redact a result, here or in a fork's parent: no view of any version shows it."""
        parts = [part.id for part in self._calls() if part.status == "completed" and not part.redacted]
        if parts and pick % 2 == 0:
            session = self.store.session(self.parents.get(self.session.id, "s")) if of_parent else self.session
            with suppress(NotFoundError):  # a part that is newer than the fork
                session.redact(parts[pick % len(parts)])
            for known in self.digests.values():
                known.clear()

    def _calls(self) -> list[ToolPart]:
        return [
            part
            for message in self.state.messages.values()
            if not message.removed
            for part in message.parts
            if isinstance(part, ToolPart) and not part.removed
        ]

    # -- compaction, step by step --------------------------------------------------------------

    @rule()
    def request(self) -> None:
        """Request a compaction."""
        if self._compaction("requested", "started") is None:
            self.session.context.request_compaction(auto=True)

    @rule(pick=PICKS)
    def start(self, pick: int) -> None:
        """A started compaction keeps its range, also after a crash, and the newest question."""
        found = self._compaction("requested", "failed")
        if found is None or self.session.reader.state().running_compaction() is not None:
            return
        part, marker = found
        expected = Expected(self.session)
        own = {
            name for compaction in expected.in_force[-1:] for name in (expected.markers[compaction[0]], compaction[1])
        }
        shown = [
            name
            for name in expected.visible()
            if name not in own and expected.messages[name].place < expected.messages[marker].place
        ]
        opened = self.session.reader.state().open_messages()
        closed = next((index for index, name in enumerate(shown) if name in opened), len(shown))
        if closed:
            cut = pick % closed
            newest = expected.newest_real()
            kept = [newest] if newest in shown[: cut + 1] else []
            tail = shown[cut + 1] if cut + 1 < len(shown) and pick % 2 else None
            with suppress(RefusedError):  # an older message that is open and says nothing
                self.session.context.start_compaction(
                    part, through=shown[cut], tail=tail, kept=[name for name in kept if name]
                )

    @rule(ends=st.booleans())
    def summarise(self, ends: bool) -> None:
        """Write the summary, or half of it."""
        found = self._compaction("started")
        if found is not None and self.summary is None:
            self.summary = self.session.assistant(MODEL, id=self._id("z"), reply_to=found[1], summary=True)
            self.summary.begin()
            self.summary.add_text(f"<{self.summary.id}>")
            if ends:
                self.complete(goes_on=True)

    @rule(goes_on=st.booleans())
    def complete(self, goes_on: bool) -> None:
        """Complete the compaction: its range is hidden from here on."""
        found = self._compaction("started")
        if found is None or self.summary is None:
            return
        self.summary.finish()
        message, part = self._id("m"), self._id("p")
        then: list[ev.Event] = [
            ev.UserMessageAdded(message, synthetic=True, cause=found[0]),
            ev.PartStarted(message, part, Text(f"<{message}>", synthetic=True)),
        ]
        self.session.context.complete_compaction(found[0], self.summary.id, then=then if goes_on else ())
        self.summary = None

    @rule()
    def fail(self) -> None:
        """A failed compaction leaves the view as it was."""
        found = self._compaction("requested", "started")
        if found is None:
            return
        before = self._digest()
        if self.summary is not None:
            self.summary.abort()
            self.summary = None
        self.session.context.fail_compaction(found[0], "aborted")
        assert self._digest() == before

    @rule()
    def undo(self) -> None:
        """Undo the latest effective compaction; the view keeps no part of it."""
        in_force = Expected(self.session).in_force
        if in_force and in_force[-1][1] in self.session.reader.state().open_messages():
            return
        try:
            undone = self.session.context.undo_compaction()
        except NotFoundError:
            assert not in_force
            return
        if undone in dict(in_force):  # not one that was taken back with a message that was removed
            assert undone == in_force[-1][0]
            assert in_force[-1][1] not in {message.source for message in ModelView.of(self.session).messages}

    @rule(back=st.booleans())
    def compact(self, back: bool) -> None:
        """Let the window compact by itself; undone at once it leaves the bytes of before."""
        if (
            self._compaction("requested", "started") is not None
            or self.session.reader.state().running_compaction() is not None
        ):
            return
        before = self._digest()
        window = self._window()
        result = window.compact()
        if not result.completed:
            assert self._digest() == before
        elif back:
            assert window.undo() == "compaction"
            assert self._digest() == before

    # -- history -------------------------------------------------------------------------------

    @rule(picks=st.lists(PICKS, min_size=1, max_size=3), undoes=st.integers(0, 3), by_window=st.booleans())
    def rollback(self, picks: list[int], undoes: int, by_window: bool) -> None:
        """Back to any version, whose view it is then, on to versions that are hidden by then."""
        if self.session.reader.state().open_messages():
            with pytest.raises(RefusedError):
                self.session.rollback(1)
            return
        for number, pick in enumerate(picks):
            hidden = self._hidden() if number else []
            target = hidden[pick % len(hidden)] if hidden else pick % self.session.version + 1
            self._seen()
            self.session.rollback(target)
            self.summary, self.calls = None, []
            assert self.digests[self.session.id].get(target, self._digest()) == self._digest()
        for _ in range(undoes):
            if by_window:
                self._seen()
                newest = self._waiting()[-1:]
                changes = self._changes()
                if newest and newest[0] > max(changes, default=0):
                    assert self._window().undo() == "rollback"
                    self._is_as_before(newest[0])
            else:
                self.redo()

    @rule()
    def redo(self) -> None:
        """A redo brings back the state before the newest rollback that was not redone."""
        if self.session.reader.state().open_messages():
            return
        waiting = self._waiting()
        if not waiting:
            with pytest.raises(RefusedError):
                self.session.redo()
            return
        assert self.session.redo().to == waiting[-1] - 1
        self.summary, self.calls = None, []
        self._is_as_before(waiting[-1])

    def _is_as_before(self, version: int) -> None:
        known = self.digests[self.session.id]
        assert known.get(version - 1, self._digest()) == self._digest()

    def _seen(self) -> None:
        self.digests[self.session.id].setdefault(self.session.version, self._digest())

    def _hidden(self) -> list[int]:
        """The versions that no longer count."""
        held = {version for first, last in self.session.reader.effective_ranges() for version in range(first, last + 1)}
        return [version for version in range(1, self.session.version) if version not in held]

    def _waiting(self) -> list[int]:
        """The rollbacks not redone, oldest first."""
        waiting: list[int] = []
        for recorded in self.session.events():
            if isinstance(recorded.event, ev.RolledBack):
                if waiting and recorded.event.to == waiting[-1] - 1:
                    waiting.pop()
                else:
                    waiting.append(recorded.version)
        return waiting

    def _changes(self) -> list[int]:
        """Versions of the effective prunes and compactions, undone ones included."""
        return [
            recorded.version
            for span in self.session.history()
            for recorded in span.events()
            if isinstance(recorded.event, (ev.Pruned, ev.CompactionCompleted))
        ]

    @rule(pick=PICKS, stays=st.booleans())
    def fork(self, pick: int, stays: bool) -> None:
        """A fork has the view of its version, and the parent keeps its own."""
        known = self.digests[self.session.id]
        version = pick % self.session.version + 1
        if len(self.digests) >= 4:
            return
        fork = self.session.fork(version, id=self._id("s"))
        self.parents[fork.id] = self.session.id
        self.digests[fork.id] = {at: digest for at, digest in known.items() if at <= version}
        assert ModelView.of(fork, version).digest == known.get(version, ModelView.of(fork, version).digest)
        if not stays:
            self.session.executor.release()
            self._take(fork.id)

    # -- places and checkpoints ----------------------------------------------------------------

    @rule()
    def reopen(self) -> None:
        """Close and reopen the store; the next owner settles what was open."""
        name = self.session.id
        self.store.close()
        self._open()
        self._take(name)

    @rule()
    def crash(self) -> None:
        """Let the owner die: the next one takes the lease and settles, the view is equal."""
        name, before = self.session.id, self._digest()
        self.session.flush()
        LIVE.pop(self.store.host.owner.store, None)
        self._open()
        self._take(name)
        assert self._digest() == before

    @rule()
    def save(self) -> None:
        """Save checkpoints."""
        self.live.advance()
        self.live.save()
        self.agenda.advance()
        self.agenda.save()

    @rule(pick=PICKS, damaged=st.booleans())
    def forget(self, pick: int, damaged: bool) -> None:
        """Delete or damage any of the checkpoints."""
        log = self.store.log
        chosen = [
            (key, bytes([value[0] ^ 1]) + value[1:] if damaged else None)
            for index, (key, value) in enumerate(log.scan_derived(b"checkpoint"))
            if pick >> index % 16 & 1
        ]
        if chosen:
            log.put_derived(chosen)

    @rule(pick=PICKS)
    def travel(self, pick: int) -> None:
        """Compare a past view with the recorded one."""
        known = sorted(self.digests[self.session.id].items())
        if known:
            version, digest = known[pick % len(known)]
            assert ModelView.of(self.session, version).digest == digest

    # -- always --------------------------------------------------------------------------------

    @invariant()
    def the_view_is_one(self) -> None:
        """Live, from checkpoints, and from the first event: equal bytes of state, equal views."""
        live = self.live.advance()
        self.agenda.advance()
        fresh = replay(ModelViewProjection(), self.session.reader)
        assert live.version == fresh.version == self.session.version
        assert self.live.state.encode() == fresh.state.encode()
        projection = LoopStateProjection()
        assert projection.encode(self.agenda.state) == projection.encode(replay(projection, self.session.reader).state)
        view = ModelView.of(self.session)
        known = self.digests[self.session.id].setdefault(view.version, view.digest)
        assert view.digest == live.digest == known
        self._is_sound(view)

    @invariant()
    def what_is_kept_is_what_is_found_anew(self) -> None:
        """A long-lived window decides and plans as a new one does, and knows what was said last."""
        for number, window in enumerate(self.kept):
            if self.session.version % (3 * number + 1):
                continue  # the others look now and then only
            step = window.next_step()
            fresh = self._made(number)
            known, found = window.state.situation(), fresh.state.situation()
            assert step == next_step(found)
            assert _plans(known) == _plans(found)
            assert _newest(known.state) == _newest(found.state) == _searched(known)
            assert window.tokens == fresh.tokens
            for last in (False, True):
                request, again = (made.state.request(CallModel("", last, 0)) for made in (window, fresh))
                assert request.digest == ModelView.of(self.session, options=request.options).digest
                assert request.record == again.record

    @invariant()
    def the_rows_are_the_replay(self) -> None:
        """The transcript, from rows where there are any, is what a replay of all events gives."""
        state, _ = state_at(self.session, TranscriptProjection())
        told = [transcript_message(message, self.session.text) for message in state.messages.values()]
        assert Transcript(self.session).oldest_first() == told
        assert Transcript(self.session).page(5) == told[: -6 if len(told) > 5 else None : -1]

    def _is_sound(self, view: ModelView) -> None:
        expected = Expected(self.session)
        shown = list(dict.fromkeys(message.source for message in view.messages))
        assert shown == expected.visible()
        newest = expected.newest_real()
        assert newest is None or newest in shown
        _each_call_has_one_result(list(view.messages))
        said = " ".join(part.text for message in view.messages for part in message.parts if isinstance(part, Said))
        for words in expected.unseen_words():
            assert words.split()[0] not in said

    def teardown(self) -> None:
        """At the end every view of every session is compared again in a reopened store."""
        try:
            with suppress(FencedError):
                self.store.close()
            self._open()
            log = self.store.log
            log.put_derived([(key, None) for key, _ in log.scan_derived(b"checkpoint")])
            for name, known in self.digests.items():
                session = self.store.session(name)
                for version, digest in list(known.items())[::3]:
                    assert ModelView.of(session, version).digest == digest
            assert log.check() == []
        finally:
            self.engine.close()


def _newest(state: Conversation) -> list[object]:
    """Ids of the question, the open answer, the queued message, all answers and the turn's."""
    found = newest_question(state), open_answer(state), queued_message(state)
    return [
        *(message and message.id for message in found),
        *([message.id for message in said] for said in (answers(state), turn_answers(state))),
    ]


def _searched(now: Situation) -> list[object]:
    """Search all messages of the view for the ids that `_newest` returns."""
    shown = sorted(now.messages, key=lambda message: message.place)
    users = [message for message in shown if message.user and not message.is_marker]
    asked = [*filter(asks, users)]
    said = [message for message in reversed(shown) if not (message.user or message.summary)]
    turn = max((message.place for message in users if not message.synthetic), default=0)
    opened = [message.id for message in said if message.finished is None]
    queued = (message for message in now.state.messages.values() if message.waiting and not message.removed)
    waiting = [message.id for message in queued if asks(message)]
    return [
        asked[-1].id if asked else None,
        opened[0] if opened else None,
        waiting[0] if waiting else None,
        [message.id for message in said],
        [message.id for message in said if message.place > turn],
    ]


def _plans(now: Situation) -> list[object]:
    """Return what every planner would prune."""
    return [now.prune_plan(inside=inside, planner=planner) for planner in PLANNERS for inside in (False, True)]


def _each_call_has_one_result(messages: list[NeutralMessage]) -> None:
    """Calls and results stand side by side, in the same order, and none is alone."""
    for index, message in enumerate(messages):
        called = [part.call for part in message.parts if isinstance(part, Called)]
        if called:
            assert message.role == "assistant"
            assert [part.call for part in messages[index + 1].parts if isinstance(part, Result)] == called
        if any(isinstance(part, Result) for part in message.parts):
            assert message.role == "tool"
            assert any(isinstance(part, Called) for part in messages[index - 1].parts)


@pytest.mark.promise(7, 8, 10, 13)
@pytest.mark.parametrize("engine_name", ENGINES)
def test_random_commands_leave_one_view(engine_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Promises 7-10, 13: the view is the same from any checkpoint, and nothing covered leaks."""

    class OnEngine(Windows):
        pass

    OnEngine.engine_name = engine_name
    monkeypatch.setattr(backward, "WINDOW", 8)
    monkeypatch.setattr(backward, "WINDOWS", 3)
    run_state_machine_as_test(
        OnEngine,
        settings=profile(
            max_examples=40 if engine_name == "memory" else 8,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=SLOW,
        ),
    )


def _nothing_is_hidden(state: Conversation, message: Message, options: RenderOptions) -> bool:
    del state, message, options
    return False


def _nothing_is_evicted(state: Conversation, compaction: Compaction) -> None:
    del compaction
    state.reshaped = True


BREAKS: dict[str, dict[str, object]] = {
    "older pairs are shown": {
        "projections.view.assembly.is_hidden": _nothing_is_hidden,
        "projections.view.selection.is_hidden": _nothing_is_hidden,
    },
    "what is covered is shown": {"projections.conversation.coverage._hide_covered": _nothing_is_evicted},
}


@pytest.mark.parametrize("name", BREAKS)
def test_the_machine_notices_what_must_not_be_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine can fail: it rejects a view that shows a hidden message."""
    for place, broken in BREAKS[name].items():
        monkeypatch.setattr(place, broken)
    quickly = profile(
        max_examples=60, phases=[Phase.generate], deadline=None, database=None, suppress_health_check=SLOW
    )
    with pytest.raises((AssertionError, KeyError, ExceptionGroup)):
        run_state_machine_as_test(Windows, settings=quickly)
