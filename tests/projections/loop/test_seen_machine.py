"""Questions of two writers against one loop: the set of messages in each request decides."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextvars import copy_context
from typing import Literal, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from eventlog.session.outcome import Outcome, outcome_of
from eventlog.session.owner import LIVE
from eventlog.session.reply import Reply
from eventlog.session.session import Session
from eventlog.store import Store
from eventlog.values import Limits, MessageError, Tokens, Usage
from projections import ModelView
from projections.loop import Blocked, CallModel, ContextWindow, RunTools, Stop
from projections.view.neutral import NeutralMessage, Text
from projections.window import give_title
from projections.window.compaction.request import SummaryRequest
from projections.window.policy.policy import CompactionPolicy, ContextPolicy
from tests.faults.tally import SLOW
from tests.support.engines import Engine
from tests.support.window_loop import sections

POLICY = ContextPolicy(compaction=CompactionPolicy(preserve_recent_tokens=60, tail_turns=1))
LIMITS = Limits(16_000, 2_000)

T = TypeVar("T")


def words(messages: Iterable[NeutralMessage]) -> str:
    """All texts of users in a request."""
    parts = (part for message in messages if message.role == "user" for part in message.parts)
    return "\n".join(part.text for part in parts if isinstance(part, Text))


class SeenMachine(RuleBasedStateMachine):
    """One loop, a second writer, a viewer, and what users do between view and reply."""

    engine_name = "memory"

    @initialize()
    def begin(self) -> None:
        """Open two handles of one session: the loop's, and that of the other writer."""
        self.engine = Engine(self.engine_name)
        self.store: Store = self.engine.open()
        self.loop: Session = self.store.create_session(id="s")
        self.writer: Session = self.engine.open().session("s")
        self.base = copy_context()
        self.context = self.base.copy()
        self.is_inside = False
        self.texts: dict[str, str] = {}
        """Questions, and the text of each."""
        self.synthetic: set[str] = set()
        """Those of the program's: a summary may tell what a request had of them."""
        self.requests: dict[str, set[str]] = {}
        """Of each reply the questions in its request: the model."""
        self.ended: set[str] = set()
        """The replies that finished as an answer."""
        self.refused: set[str] = set()
        """The questions in a request that was refused for its size: a compaction may cover them."""
        self.window: ContextWindow | None = None
        self.reply: Reply | None = None

    # -- writers and viewers -------------------------------------------------------------------

    @rule(own=st.booleans(), queue=st.booleans(), long=st.booleans(), synthetic=st.sampled_from([False, False, True]))
    def ask(self, own: bool, queue: bool, long: bool, synthetic: bool) -> None:
        """Ask, in the loop's task or in another process' name."""
        text = f"Q{len(self.texts)}." + " w" * (60 if long else 1)
        delivery: Literal["queue", "steer"] = "queue" if queue and not synthetic else "steer"
        if own:
            name = self.by_loop(lambda: self.loop.user(text, delivery=delivery, synthetic=synthetic))
        else:
            name = self.writer.user(text, delivery=delivery, synthetic=synthetic)
        self.texts[name] = text.partition(".")[0] + "."
        if synthetic:
            self.synthetic.add(name)

    @rule(own=st.booleans())
    def look(self, own: bool) -> None:
        """Take views, as user interfaces and titles do: nothing is marked by it."""
        if own:
            self.by_loop(lambda: ModelView.of(self.loop))
        ModelView.of(self.writer)

    @rule()
    def title(self) -> None:
        """A title is asked for: it answers no question."""
        give_title(self.writer, titled)
        if self.writer.info.title:
            self.writer.rename("")

    @rule()
    def interrupt_and_ask(self) -> None:
        """A user stops the loop, and asks on."""
        self.writer.interrupt()
        self.ask(own=False, queue=False, long=False, synthetic=False)

    # -- the loop ------------------------------------------------------------------------------

    @precondition(lambda self: self.reply is None)
    @rule(late=st.integers(0, 2))
    def call(self, late: int) -> None:
        """Take a step; before a model call others may write between step and request."""
        self.by_loop(lambda: self._step(late))

    def _step(self, late: int) -> None:
        window = self.open()
        step = window.next_step()
        if isinstance(step, CallModel):
            for _ in range(late):
                self.ask(own=False, queue=False, long=False, synthetic=False)
            self.reply, request = window.begin(step)
            last = request.messages[len(request.messages) - 1]
            assert last.role in {"user", "tool"}, "a request ends with a question or a result"
            self.note(self.reply, words(request.messages))
        elif step:
            window.perform(step)

    @precondition(lambda self: self.reply is None)
    @rule(between=st.sampled_from(["", "ask", "rollback and redo"]))
    def bare(self, between: str) -> None:
        """Take a view, and reply to it, as a program without a window does."""
        self.by_loop(lambda: self._bare(between))

    def _bare(self, between: str) -> None:
        self.open()
        if all(found.state != "pending" or found.waiting for found in self.outcomes()):
            return  # nothing that a view shows waits
        view = ModelView.of(self.loop)
        if not len(view):
            return
        if between == "ask":
            self.ask(own=False, queue=False, long=False, synthetic=False)
        elif between:
            newest = max(self.texts, key=self.loop.reader.find)
            at = self.loop.reader.find(newest)
            with self.loop.reader.deciding() as state:
                is_there = state.history.holds(at)
            if is_there:
                self.loop.rollback(before=newest)
                view = ModelView.of(self.loop)
                self.loop.redo()
                if not len(view):
                    return
        self.reply = self.loop.assistant("a/b", view=view)
        self.reply.begin()
        self.note(self.reply, words(view.messages))

    def note(self, reply: Reply, sent: str) -> None:
        """Note the request as the provider got it."""
        self.requests[reply.id] = {name for name, text in self.texts.items() if text in sent}

    @precondition(lambda self: self.reply is not None)
    @rule(how=st.sampled_from(["answer", "answer", "tool", "fail", "abort", "refused", "crash", "kill"]))
    def end(self, how: str) -> None:
        """End the open reply in some way."""
        self.by_loop(lambda: self._end(how))

    def _end(self, how: str) -> None:
        reply, self.reply = self.reply, None
        assert reply is not None
        if how == "answer":
            reply.add_text("A")
            reply.finish(usage=Usage(Tokens(10, 1)))
            self.ended.add(reply.id)
        elif how == "tool":
            reply.tool("look", call_id="c", input={}).succeed("out")
            reply.finish("tool-calls")
        elif how == "crash":
            reply.close(KeyboardInterrupt())
        elif how == "kill":
            self.die()
        else:
            names = {"fail": "api", "abort": "aborted", "refused": "overflow"}
            reply.abort(MessageError(names[how], "no"))
            self.refused |= self.requests[reply.id] if how == "refused" else set()

    def die(self) -> None:
        """The process of the loop is killed before it has ended; the next one begins."""
        self.loop.flush()
        LIVE.pop(self.store.host.owner.store, None)
        self.window = None
        self.store = self.engine.open()
        self.loop = self.store.session("s")
        self.context = self.base.copy()

    @precondition(lambda self: self.reply is None)
    @rule()
    def compact(self) -> None:
        """A user compacts."""
        self.by_loop(lambda: self.open().compact())

    @precondition(lambda self: self.reply is None)
    @rule(pick=st.integers(0, 30))
    def roll_back(self, pick: int) -> None:
        """Go back to before one of the questions."""
        there = [name for name in self.texts if outcome_of(self.loop.reader, name).state != "withdrawn"]
        if there:
            self.by_loop(lambda: self.loop.rollback(before=there[pick % len(there)]))

    @precondition(lambda self: self.reply is None)
    @rule()
    def redo(self) -> None:
        """Take the newest rollback back."""
        with self.loop.reader.deciding() as state:
            newest = state.history.to_redo()
        if newest is not None:
            self.by_loop(self.loop.redo)

    @precondition(lambda self: self.reply is None)
    @rule()
    def leave(self) -> None:
        """The loop ends its window."""
        self.by_loop(self.close)

    # -- what holds ----------------------------------------------------------------------------

    @invariant()
    def only_what_was_seen_is_done(self) -> None:
        """A question is done only if the request of a finished reply had it."""
        for name in getattr(self, "texts", ()):
            found = outcome_of(self.writer.reader, name)
            if found.state == "done" and name not in self.synthetic | self.refused:
                assert any(name in self.requests[reply] for reply in found.replies if reply in self.ended)
            elif found.state == "failed":
                assert any(name in self.requests[reply] for reply in found.replies)

    @invariant()
    def what_waits_is_in_the_view(self) -> None:
        """A question that waits is in the view, in a new process' as in the loop's."""
        if not getattr(self, "texts", None):
            return
        shown = words(ModelView.of(self.writer).messages)
        for name, text in self.texts.items():
            found = outcome_of(self.writer.reader, name)
            if found.state == "pending" and not found.waiting and name not in self.synthetic | self.refused:
                assert text in shown

    def teardown(self) -> None:
        """The loop goes on to its end: each question is done, or its session is listed."""
        if not hasattr(self, "engine"):
            return
        self.by_loop(self._finish)
        self.engine.close()

    def _finish(self) -> None:
        if self.reply is not None:
            self._end("answer")
        self.close()
        self.what_waits_is_listed()
        window = self.open()
        for _ in range(60):
            step = window.next_step()
            if not step:
                break
            if isinstance(step, CallModel):
                reply, request = window.begin(step)
                self.note(reply, words(request.messages))
                self.reply = reply
                self._end("answer")
            else:
                assert not isinstance(step, RunTools)
                window.perform(step)
        else:
            raise AssertionError("no end")
        self.only_what_was_seen_is_done()
        assert isinstance(step, Stop) or (isinstance(step, Blocked) and self.refused), step
        self.close()
        self.what_waits_is_listed()
        if step == Stop("finished"):
            assert self.pending() == []

    def what_waits_is_listed(self) -> None:
        """A session is listed while a question waits; queued behind a failure it may wait on."""
        found = [outcome_of(self.writer.reader, name) for name in self.pending()]
        if not found or not all(outcome.waiting for outcome in found):
            assert bool(found) == bool(self.store.unfinished())

    def outcomes(self) -> list[Outcome]:
        """The outcome of each question."""
        return [outcome_of(self.loop.reader, name) for name in self.texts]

    def pending(self) -> list[str]:
        """The questions that wait for an answer."""
        return [name for name in self.texts if outcome_of(self.writer.reader, name).state == "pending"]

    # -- helpers -------------------------------------------------------------------------------

    def by_loop(self, work: Callable[[], T]) -> T:
        """Do something as the loop's task."""
        return work() if self.is_inside else self.context.run(self._inside, work)

    def _inside(self, work: Callable[[], T]) -> T:
        self.is_inside = True
        try:
            return work()
        finally:
            self.is_inside = False

    def open(self) -> ContextWindow:
        """The loop's window; opened if it is not."""
        if self.window is None:
            self.window = ContextWindow(
                self.loop,
                POLICY,
                model="a/b",
                limits=LIMITS,
                summarizer=lambda _: sections(),
                environment={},
            )
            self.window.__enter__()
        return self.window

    def close(self) -> None:
        """End the loop's window."""
        window, self.window = self.window, None
        if window is not None:
            window.__exit__(None, None, None)


def titled(request: SummaryRequest) -> str:
    """A title of a model."""
    del request
    return "A title"


class SeenOnDiskMachine(SeenMachine):
    """A machine with two handles of a store in files."""

    engine_name = "embedded"


SeenMachine.TestCase.settings = settings(max_examples=2_000 if SLOW else 120, stateful_step_count=30)
SeenOnDiskMachine.TestCase.settings = settings(max_examples=200 if SLOW else 15, stateful_step_count=30)
TestSeen = SeenMachine.TestCase
TestSeenOnDisk = SeenOnDiskMachine.TestCase
