"""Calls that wait against a plain model: two handles, answers, runs, rollbacks, forks."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from eventlog import Allow, CallError, Deny, Edit, Session, Store
from eventlog.session.asking import ready_to_run
from eventlog.session.tool_call import ToolCall
from tests.faults.tally import SLOW
from tests.support.engines import Engine

STEPS = 40 if SLOW else 20
ANSWERS = (Allow(), Allow(), Deny("no"), Edit({"name": "other"}))
RESULTS = {"completed", "interrupted", "failed"}


class Known(NamedTuple):
    """The plain model at one version: the state of each call, and the rollback that led here."""

    calls: dict[str, str]
    before: int | None
    """The version to which a redo goes."""


class Asking(RuleBasedStateMachine):
    """One session in two handles, and what it should be after each version."""

    engine: Engine

    @initialize()
    def begin(self) -> None:
        """Open the store twice."""
        self.stores: list[Store] = [self.engine.open(), self.engine.open()]
        self.name = self.stores[0].create_session().id
        self.calls: dict[str, str] = {}
        self.past: dict[int, Known] = {}
        self.undone: int | None = None
        self.ran: set[str] = set()
        self.executed: list[str] = []
        self._note()

    def teardown(self) -> None:
        """Close the stores."""
        for store in getattr(self, "stores", ()):
            store.close()

    @property
    def session(self) -> Session:
        """The first handle."""
        return self.stores[0].session(self.name)

    def _note(self) -> None:
        self.past[self.session.version] = Known(dict(self.calls), self.undone)

    def _one(self, pick: int, *states: str) -> str | None:
        found = [part for part, status in self.calls.items() if status in states]
        return found[pick % len(found)] if found else None

    def _message(self, part: str) -> str:
        return f"m{part}"

    @rule(which=st.integers(0, 1))
    def ask(self, which: int) -> None:
        """Ask for a call of a new reply."""
        session = self.stores[which].session(self.name)
        part = f"p{session.version}"
        session.user("q")
        with session.assistant(id=self._message(part)) as reply:
            reply.tool("drop", call_id="c", id=part).ask("why", input={"name": part})
        self.calls[part] = "asked"
        self._note()

    @rule(which=st.integers(0, 1), pick=st.integers(0, 99), answer=st.sampled_from(ANSWERS))
    def answer(self, which: int, pick: int, answer: Any) -> None:
        """Answer for any call: the first answer is taken, and the same again."""
        part = pick % 3 and self._one(pick, "asked")
        part = part or self._one(pick, "asked", "allowed", "edited", "denied", "stopped", *RESULTS)
        if part is None:
            return
        session, status = self.stores[which].session(self.name), self.calls[part]
        said = "allowed" if isinstance(answer, Allow) else "denied" if isinstance(answer, Deny) else "edited"
        version = session.version
        try:
            session.answer_call(self._message(part), "c", answer, by="ann")
        except CallError:
            assert status not in {"asked", said}
        else:
            if status == "asked":
                self.calls[part] = said
                self._note()
            else:
                assert session.version == version
                assert status == said or status in RESULTS

    @rule(pick=st.integers(0, 99))
    def run_a_new_one(self, pick: int) -> None:
        """Ask, allow and run at once, so that most histories have calls that ran."""
        self.ask(pick % 2)
        part = list(self.calls)[-1]
        self.session.answer_call(self._message(part), "c", Allow())
        self.calls[part] = "allowed"
        self._note()
        self.execute(pick // 2 % 2, 1)

    @rule(which=st.integers(0, 1), pick=st.integers(0, 99))
    def execute(self, which: int, pick: int) -> None:
        """Run a call, if it may: it never ran before."""
        part = pick % 4 and self._one(pick, "allowed", "edited")
        part = part or self._one(pick, "asked", "allowed", "edited", "denied", *RESULTS)
        if part is None:
            return
        session, status = self.stores[which].session(self.name), self.calls[part]
        with session.lease() as lease:
            try:
                arguments = ready_to_run(session.executor, part)
            except CallError:
                assert status not in {"allowed", "edited"}
                return
            assert arguments == ('{"name":"other"}' if status == "edited" else f'{{"name":"{part}"}}')
            assert arguments is not None
            assert part not in self.ran
            tool = ToolCall(session.executor, part, "c", lease)
            tool.start(arguments)
            self.ran.add(part)
            self.executed.append(part)
            self.calls[part] = "interrupted"
            self._note()
            if pick % 3:
                tool.succeed("done")
                self.calls[part] = "completed"
        self._settle()

    def _settle(self) -> None:
        with self.session.lease():
            self._note()

    @rule()
    def interrupt(self) -> None:
        """Deny all that waits or has not begun."""
        self.stores[1].session(self.name).interrupt()
        for part, status in self.calls.items():
            if status in {"asked", "allowed", "edited"}:
                self.calls[part] = "stopped"
        self._note()

    @rule(pick=st.integers(0, 99))
    def roll_back(self, pick: int) -> None:
        """Go back: what ran since has failed as interrupted, and is never run again."""
        versions = sorted(self.past)
        target = versions[-1 - pick % min(6, len(versions))] if pick % 3 else versions[pick % len(versions)]
        before = self.session.version
        self.session.rollback(target)
        self.calls = dict(self.past[target].calls)
        for part, status in self.calls.items():
            if part in self.ran and status in {"asked", "allowed", "edited"}:
                self.calls[part] = "interrupted"
        self.undone = before
        self._note()

    @precondition(lambda self: self.undone is not None and self.undone in self.past)
    @rule()
    def redo(self) -> None:
        """Take the rollback back, if it is the newest."""
        assert self.undone is not None
        with self.session.reader.deciding() as state:
            to = state.history.to_redo()
        if to is None or to - 1 not in self.past:
            return
        self.session.redo()
        self.calls = dict(self.past[to - 1].calls)
        for part, status in self.calls.items():
            if part in self.ran and status in {"asked", "allowed", "edited"}:
                self.calls[part] = "interrupted"
        self.undone = None
        self._note()

    @rule(pick=st.integers(0, 99))
    def fork(self, pick: int) -> None:
        """A fork lists nothing that waits, and runs none of it."""
        versions = sorted(self.past)
        fork = self.session.fork(versions[pick % len(versions)])
        assert fork.asked_calls() == []
        for part in self.past[versions[pick % len(versions)]].calls:
            with pytest.raises(CallError), fork.lease():
                ready_to_run(fork.executor, part)

    @invariant()
    def holds(self) -> None:
        """Both handles list what waits, and no call ran twice."""
        if not hasattr(self, "stores"):
            return
        assert len(self.executed) == len(set(self.executed))
        waiting = sorted(part for part, status in self.calls.items() if status == "asked")
        for store in self.stores:
            assert sorted(found.part for found in store.session(self.name).asked_calls()) == waiting


@pytest.mark.parametrize("name", ["memory", "embedded", "postgres"])
@pytest.mark.timeout(600)
def test_calls_that_wait_are_as_the_model_says(name: str) -> None:
    """Calls that wait, were answered and ran are, in any order of commands, as in the model."""
    places: list[Engine] = []

    class Machine(Asking):
        def __init__(self) -> None:
            super().__init__()
            self.engine = Engine(name)
            places.append(self.engine)

        def teardown(self) -> None:
            super().teardown()
            self.engine.close()

    examples = {"memory": 60, "embedded": 15, "postgres": 4}[name] * (5 if SLOW else 1)
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=STEPS,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        ),
    )
