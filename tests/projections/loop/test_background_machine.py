"""Random changes while a summary is written: only messages of its request are covered."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, Phase, example, given
from hypothesis import settings as profile
from hypothesis import strategies as st

import eventlog
from eventlog import Session
from eventlog import events as ev
from eventlog.errors import NotFoundError, RefusedError
from eventlog.session.outcome import unanswered_questions
from projections import LiveView, ModelView
from projections.loop import CallModel, Compact, ContextWindow
from projections.loop.decision.loop_state import COMPACTED, ROLLED_BACK, TOLD_CHANGED
from projections.window import covered_by
from tests.support.background import EAGER, LIMITS, Writer, begun, outcomes, shown, talk, told, until_written
from tests.support.window_loop import MODEL

pytestmark = pytest.mark.promise(9)

PICK = st.integers(0, 1 << 16)
WORD = re.compile(r"(?:question|answer)\d+")


def messages(session: Session) -> list[str]:
    """The messages that were ever added."""
    events = (span.item for span in session.reader.spans())
    return [item.message for item in events if isinstance(item, (ev.UserMessageAdded, ev.AssistantMessageStarted))]


def parts(session: Session, kind: type[object] = eventlog.Text) -> list[str]:
    """The parts that were ever added."""
    events = (span.item for span in session.reader.spans())
    return [item.part for item in events if isinstance(item, ev.PartStarted) and isinstance(item.kind, kind)]


class Meanwhile:
    """Changes of a session while its summary is written."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.number = 100

    def turn(self, pick: int) -> None:
        """A question and its answer."""
        del pick
        self.number += 1
        talk(self.session, self.number, self.number + 1)

    def call(self, pick: int) -> None:
        """An answer with a call, which a later prune may clear."""
        self.number += 1
        self.session.user(f"question{self.number}")
        with self.session.assistant(MODEL) as reply:
            reply.tool("bash", call_id=f"c{pick}-{self.number}", input={}).succeed(f"answer{self.number}")
            reply.finish("stop")

    def queue(self, pick: int) -> None:
        """A question that waits."""
        del pick
        self.number += 1
        self.session.user(f"question{self.number}", delivery="queue")

    def promote(self, pick: int) -> None:
        """A message takes another place."""
        names = messages(self.session)
        self.session.context.promote(names[pick % len(names)])

    def prune(self, pick: int) -> None:
        """A result is cleared."""
        names = parts(self.session, eventlog.Tool)
        if names:
            self.session.context.prune([names[pick % len(names)]])

    def rollback(self, pick: int) -> None:
        """The session goes back to any version."""
        self.session.rollback(1 + pick % self.session.version)

    def remove(self, pick: int) -> None:
        """A message is taken out."""
        names = messages(self.session)
        self.session.remove_message(names[pick % len(names)])

    def edit(self, pick: int) -> None:
        """A text is edited."""
        names = parts(self.session)
        self.session.edit_part(names[pick % len(names)], "other words")

    def redact(self, pick: int) -> None:
        """A text is redacted."""
        names = parts(self.session)
        self.session.redact(names[pick % len(names)])

    def compact(self, pick: int) -> None:
        """The user compacts by hand, and may take it back."""
        window = ContextWindow(self.session, EAGER, model=MODEL, limits=LIMITS, environment={})
        if window.compact().completed and pick % 2:
            window.undo()


HARMLESS = ("turn", "call", "queue", "promote", "prune")
CHANGES = tuple(name for name in vars(Meanwhile) if not name.startswith("_"))


def steps(names: tuple[str, ...]) -> st.SearchStrategy[list[tuple[str, int]]]:
    """A few changes with a number each."""
    return st.lists(st.tuples(st.sampled_from(names), PICK), max_size=6)


def written_beside(changes: list[tuple[str, int]]) -> tuple[list[str], set[str]]:
    """Let changes come while a summary is written; return outcomes, and the words told."""
    with eventlog.open("memory:") as store:
        session, writer = store.create_session(id="s"), Writer()
        begun(session, writer)
        start = session.version
        meanwhile = Meanwhile(session)
        for name, pick in changes:
            change: Callable[[int], None] = getattr(meanwhile, name)
            with suppress(RefusedError, NotFoundError):
                change(pick)
        writer.go.set()
        until_written(session)
        session.user("question999 which is the newest")
        known = {*messages(session)}
        later = {
            span.item.message
            for span in session.reader.spans(start)
            if isinstance(span.item, (ev.UserMessageAdded, ev.AssistantMessageStarted))
        }
        waiting = {*unanswered_questions(session.reader)}
        before = {*WORD.findall(shown(session))}
        first = told(writer.requests[0])
        session_outcomes = outcomes(session)
        with writer.window(session) as window:
            step = window.next_step()
            if isinstance(step, Compact):  # a rollback went back into a compaction by hand
                window.perform(step)
                before = {*WORD.findall(shown(session))}
                session_outcomes.append("")
                step = window.next_step()
            assert isinstance(step, CallModel)
        ends = outcomes(session)[len(session_outcomes) :]
        after = shown(session)
        if ends == [""]:
            (part,) = [
                span.item.part
                for span in session.reader.spans(session.version - 60)
                if isinstance(span.item, ev.CompactionCompleted)
            ][-1:]
            covered = {message.id for message in covered_by(session, part).messages} & known
            assert not covered & later, "what came meanwhile is covered"
            assert not covered & waiting, "a pending question is covered"
            assert before - {*WORD.findall(after)} <= {*WORD.findall(first)}, "what the summary does not tell is gone"
            assert "summary 1" in after
        else:
            assert before <= {*WORD.findall(after)}
        assert ModelView.of(session).digest == LiveView(session).advance().digest
        until_written(session)
        return ends, {*WORD.findall(first)}


SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)


@given(steps(CHANGES))
@example([("turn", 0), ("queue", 0), ("compact", 1), ("rollback", 0), ("rollback", 415)])
@profile(
    max_examples=60, deadline=None, suppress_health_check=SLOW, phases=[Phase.explicit, Phase.generate, Phase.shrink]
)
def test_nothing_is_covered_that_the_summary_does_not_tell(changes: list[tuple[str, int]]) -> None:
    """The summary is put in, or given up with a reason, and the view follows."""
    ends, _ = written_beside(changes)
    assert len(ends) == 1
    assert ends[0] in {"", ROLLED_BACK, COMPACTED, TOLD_CHANGED}


@given(steps(HARMLESS))
@profile(
    max_examples=40, deadline=None, suppress_health_check=SLOW, phases=[Phase.explicit, Phase.generate, Phase.shrink]
)
def test_what_only_comes_later_leaves_it_valid(changes: list[tuple[str, int]]) -> None:
    """New messages, messages that move, and prunes."""
    ends, told_words = written_beside(changes)
    assert ends == [""]
    assert told_words
