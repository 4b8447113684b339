"""Turns of two owners against a plain model: who answers, and what the others are told."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, copy_context
from typing import Literal, NamedTuple, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from eventlog.errors import LeaseHeldError
from eventlog.session.session import Session
from eventlog.session.turn import Turn
from eventlog.values import MessageError
from tests.faults.tally import SLOW
from tests.support.engines import Engine

T = TypeVar("T")

End = Literal["stop", "tool-calls", "called", "overflow", "failed", "aborted", "crashed", "crashed after a tool"]
ENDS: tuple[End, ...] = (
    "stop", "tool-calls", "called", "overflow", "failed", "aborted", "crashed", "crashed after a tool",
)  # fmt: skip
ACTORS = st.integers(0, 1)
REQUESTS = st.sampled_from(["r0", "r1", "r2", "r3"])


class Entry(NamedTuple):
    """An event of the model; a reply comes with its end."""

    kind: Literal["question", "reply", "removed", "interrupt", "rollback"]
    name: str = ""
    end: End = "stop"
    seen: frozenset[str] = frozenset()
    """The questions in the request of a reply."""


class Expected(NamedTuple):
    """The answer of the model about a question."""

    state: str
    final: bool = False
    replies: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()


class Model:
    """The effective history as a list, and the histories that a redo brings back."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.hidden: list[list[Entry]] = []
        self.holder: tuple[int, str] | None = None
        self.seen: frozenset[str] = frozenset()
        """The questions that the holder's next request has."""

    def add(
        self, kind: Literal["question", "reply", "removed", "interrupt"], name: str = "", end: End = "stop"
    ) -> None:
        """Something happened."""
        self.entries.append(Entry(kind, name, end, self.seen if kind == "reply" else frozenset()))

    def look(self) -> None:
        """Let the holder take a view."""
        self.seen = frozenset(entry.name for entry in self.entries if entry.kind == "question")

    def holds(self, name: str) -> bool:
        """Whether a message is part of the conversation."""
        return any(entry.name == name and entry.kind in {"question", "reply"} for entry in self.entries) and not any(
            entry == Entry("removed", name) for entry in self.entries
        )

    def place(self, question: str) -> int:
        """Where a question stands."""
        return self.entries.index(Entry("question", question))

    def expected(self, question: str) -> Expected:
        """The outcome of a question."""
        if not self.holds(question):
            return Expected("withdrawn", final=True)
        replies: list[Entry] = []
        later: set[str] = set()
        interrupted = False
        for entry in self.entries[self.place(question) + 1 :]:
            if entry.kind == "question" and self.holds(entry.name):
                found = self._now(replies, interrupted)
                if found.state in {"failed", "stopped"}:
                    return found._replace(final=True)
                later.add(entry.name)
            elif entry.kind == "reply" and self.holds(entry.name) and question in entry.seen:
                found = self._now(replies, interrupted)
                if found.state in {"failed", "stopped"} and later & entry.seen.difference(*(r.seen for r in replies)):
                    return found._replace(final=True)  # it is about a later question
                replies.append(entry)
                if entry.end == "stop":
                    return self._now(replies, interrupted)._replace(final=True)
            elif entry.kind in {"interrupt", "rollback"}:
                interrupted = entry.kind == "interrupt"
        return self._now(replies, interrupted)

    def _now(self, replies: list[Entry], interrupted: bool) -> Expected:
        end = replies[-1].end if replies else "crashed"
        broken = [reply.name for reply in replies if reply.end == "crashed"]
        if end == "stop":
            state = "done"
        elif interrupted or end == "aborted":
            state = "stopped"
        elif end == "failed":
            state = "failed"
            broken.append(replies[-1].name)
        else:
            state = "pending"
        return Expected(state, replies=tuple(reply.name for reply in replies), broken=tuple(broken))

    def let_go(self, question: str, due: str = "pending") -> Expected:
        """Take out of the view what another attempt replaces; return the outcome then."""
        while True:
            found = self.expected(question)
            broken = found.broken or self.broken_before(question)
            if found.state not in {due, "pending"} or not broken:
                return found
            for reply in broken:
                self.add("removed", reply)

    def broken_before(self, question: str) -> tuple[str, ...]:
        """Replies of an earlier question, the newest without this one, that broke off."""
        replies = [entry for entry in self.entries if entry.kind == "reply" and self.holds(entry.name)]
        before = [reply for reply in replies if question not in reply.seen]
        if not before or not before[-1].end.startswith("crashed"):
            return ()
        asked = [entry.name for entry in self.entries if entry.kind == "question" and self.holds(entry.name)]
        seen = [name for name in asked if name in before[-1].seen]
        found = self.expected(seen[-1]) if seen else Expected("withdrawn")
        return found.broken if found.state == "pending" else ()

    def is_queued(self, question: str) -> bool:
        """Whether the question before this one waits for its answer, and none came for this."""
        place = self.place(question)
        before = [entry.name for entry in self.entries[:place] if entry.kind == "question" and self.holds(entry.name)]
        return not self.expected(question).replies and bool(before) and self.expected(before[-1]).state == "pending"


class TurnMachine(RuleBasedStateMachine):
    """Two owners ask, answer, fail, crash, interrupt, roll back and redo."""

    @initialize()
    def begin(self) -> None:
        """Open one session in two stores."""
        self.engine = Engine("memory")
        stores = [self.engine.open() for _ in range(2)]
        stores[0].create_session(id="s")
        self.sessions: list[Session] = [store.session("s") for store in stores]
        self.contexts: list[Context] = [copy_context() for _ in stores]
        self.model = Model()
        self.turn: Turn | None = None
        self.questions: dict[str, str] = {}
        self.asked: set[str] = set()
        self.versions: dict[str, int] = {}

    def by(self, actor: int, work: Callable[[], T]) -> T:
        """Do something as a task of its own."""
        return self.contexts[actor].run(work)

    def message(self, request: str) -> str:
        """The id that a request's message has."""
        return self.questions[request]

    @rule(actor=ACTORS, request=REQUESTS)
    def ask(self, actor: int, request: str) -> None:
        """Ask, and keep the turn if it is to be answered."""
        model, session = self.model, self.sessions[actor]
        if model.holder is not None and model.holder[0] == actor:
            return
        turn = session.turn("hi", request)
        self.by(actor, turn.__enter__)
        known = request in self.asked
        self.asked.add(request)
        self.questions[request] = turn.message
        if not known:
            model.add("question", turn.message)
        expected = model.expected(turn.message)
        if expected.final:
            state = expected.state
        elif model.holder is not None:
            state = "queued" if model.is_queued(turn.message) else "running"
        elif expected.state == "pending":  # without the attempts that broke off, it may have failed before them
            expected = model.let_go(turn.message)
            state = expected.state if expected.state != "pending" else "resumed" if known else "new"
        else:
            state = expected.state
        assert turn.state == state
        assert turn.mine == (state in {"new", "resumed"})
        if turn.mine:
            self.begun(actor, turn, model.let_go(turn.message))
        else:
            assert turn.answer == expected.replies
            self.by(actor, lambda: turn.__exit__(None, None, None))

    def begun(self, actor: int, turn: Turn, expected: Expected) -> None:
        """The turn is the actor's: what broke off is out of the view."""
        self.turn = turn
        self.model.holder = (actor, turn.message)
        self.model.look()
        assert turn.answer == expected.replies

    @precondition(lambda self: self.model.holder is None)
    @rule(actor=ACTORS, request=REQUESTS)
    def retry(self, actor: int, request: str) -> None:
        """Begin a failed turn again: the caller answers, unless a later reply has."""
        if request not in self.asked:
            return
        if self.model.expected(self.message(request)).state != "failed":
            return
        turn = self.sessions[actor].turn("hi", request)
        self.by(actor, turn.__enter__)
        self.by(actor, turn.retry)
        expected = self.model.let_go(turn.message, "failed")
        is_due = expected.state == "pending"
        assert (turn.state, turn.mine) == ("resumed" if is_due else expected.state, is_due)
        if is_due:
            self.begun(actor, turn, expected)
        else:
            assert turn.answer == expected.replies
            self.by(actor, lambda: turn.__exit__(None, None, None))

    @precondition(lambda self: self.model.holder is not None)
    @rule(end=st.sampled_from(ENDS))
    def reply(self, end: End) -> None:
        """Let the holder add a reply that ends in some way."""
        assert self.model.holder is not None
        actor, question = self.model.holder
        name = self.by(actor, lambda: replied(self.sessions[actor], question, end))
        self.model.add("reply", name, end)
        self.model.look()

    @precondition(lambda self: self.model.holder is None)
    @rule(actor=ACTORS, request=REQUESTS, end=st.sampled_from(ENDS))
    def whole(self, actor: int, request: str, end: End) -> None:
        """Ask, and reply and leave if the turn is to be answered."""
        self.ask(actor, request)
        if self.model.holder is not None:
            self.reply(end)
            self.leave()

    @precondition(lambda self: self.model.holder is not None)
    @rule()
    def leave(self) -> None:
        """Let the holder leave its turn, which says how that ended."""
        assert self.model.holder is not None
        assert self.turn is not None
        actor, question = self.model.holder
        turn, self.turn, self.model.holder = self.turn, None, None
        self.by(actor, lambda: turn.__exit__(None, None, None))
        expected = self.model.expected(question)
        if expected.state != "pending":
            assert turn.state == expected.state
        assert turn.answer == expected.replies
        assert not turn.mine

    @rule(actor=ACTORS)
    def interrupt(self, actor: int) -> None:
        """Ask for a stop."""
        self.by(actor, self.sessions[actor].interrupt)
        self.model.add("interrupt")

    @rule(actor=ACTORS, request=REQUESTS)
    def roll_back(self, actor: int, request: str) -> None:
        """Go back to before a question, unless another runs the session."""
        model, session = self.model, self.sessions[actor]
        if request not in self.asked or not model.holds(self.message(request)):
            return
        message = self.message(request)
        if model.holder is not None:
            if model.holder[0] != actor:
                with suppress(LeaseHeldError):
                    self.by(actor, lambda: session.rollback(before=message))
                    raise AssertionError("rolled back while another ran the session")
            return
        self.by(actor, lambda: session.rollback(before=message))
        model.hidden.append(model.entries)
        model.entries = [*model.entries[: model.place(message)], Entry("rollback")]

    @precondition(lambda self: self.model.hidden and self.model.holder is None)
    @rule(actor=ACTORS)
    def redo(self, actor: int) -> None:
        """Take the newest rollback back."""
        self.by(actor, self.sessions[actor].redo)
        self.model.entries = [*self.model.hidden.pop(), Entry("rollback")]

    @precondition(lambda self: self.model.holder is None)
    @rule(actor=ACTORS, number=st.integers(0, 5))
    def remove(self, actor: int, number: int) -> None:
        """Take a message out of the conversation."""
        names = [entry.name for entry in self.model.entries if entry.kind in {"question", "reply"}]
        there = [name for name in names if self.model.holds(name)]
        if there:
            name = there[number % len(there)]
            self.by(actor, lambda: self.sessions[actor].remove_message(name))
            self.model.add("removed", name)

    @invariant()
    def the_log_agrees(self) -> None:
        """The session's state has the messages of the model, and none is open."""
        if hasattr(self, "sessions"):
            model, state = self.model, self.sessions[0].reader.state()
            names = [entry.name for entry in model.entries if entry.kind in {"question", "reply"}]
            effective = {name for name, facts in state.messages.items() if state.history.holds(facts.added)}
            assert effective == set(names)
            assert {name for name in names if state.now(state.messages[name].changes) != "removed"} == {
                name for name in names if model.holds(name)
            }
            assert state.open_messages() == ()

    @invariant()
    def a_look_tells_the_same(self) -> None:
        """Both processes tell the state of each turn as to one who asks and cannot answer."""
        for request, message in getattr(self, "questions", {}).items():
            expected = self.model.expected(message)
            state = expected.state
            if self.model.holder is not None and not expected.final:
                state = "queued" if self.model.is_queued(message) else "running"
            assert {session.turn_state(request) for session in self.sessions} == {state}

    def teardown(self) -> None:
        """Close the stores."""
        if hasattr(self, "engine"):
            self.engine.close()


def replied(session: Session, question: str, end: End) -> str:
    """Add a reply to a question that ends in some way; return its id."""
    names: list[str] = []
    errors: dict[str, type[BaseException]] = {"failed": KeyError, "crashed": KeyboardInterrupt}
    with suppress(KeyError, KeyboardInterrupt), session.assistant(reply_to=question) as reply:
        names.append(reply.id)
        reply.stream_text().append("word")
        if end in {"called", "crashed after a tool", "tool-calls"}:
            reply.tool("bash", call_id="c", input={}).succeed("out")
        if end == "aborted":
            reply.abort()
        elif end == "overflow":
            reply.abort(MessageError("overflow"))
        elif error := errors.get(end.partition(" ")[0]):
            raise error
        else:
            reply.finish("stop" if end == "called" else end)
    return names[0]


TurnMachine.TestCase.settings = settings(max_examples=3_000 if SLOW else 200, stateful_step_count=30)
TestTurns = TurnMachine.TestCase
