"""The carryover of a compaction, without a model: todos, pins, files, waiting calls."""

from __future__ import annotations

import json

import pytest

from eventlog import events as ev
from eventlog.session.session import Session
from eventlog.values import Subtask, Text, Todo
from projections import ModelView
from projections.loop import ContextWindow
from projections.view.part_rendering import REDACTED
from projections.window import CompactionPolicy, ContextPolicy, SummaryRequest
from tests.support.window_loop import LIMITS, MODEL, calls, results, sections, talk, texts, told

GUARDED = CompactionPolicy(preserve_recent_tokens=300)
UNGUARDED = CompactionPolicy(preserve_recent_tokens=300, require_sections=False)


def window(session: Session, policy: CompactionPolicy, summary: str) -> ContextWindow:
    """A window whose summariser always gives the same text."""

    def summarizer(request: SummaryRequest) -> str:
        del request
        return summary

    return ContextWindow(
        session, ContextPolicy(compaction=policy), model=MODEL, limits=LIMITS, summarizer=summarizer, environment={}
    )


def read(session: Session, path: str, tool: str = "read") -> str:
    """A turn that reads a file; return the call's part."""
    session.user(f"read {path}")
    with session.assistant(MODEL) as reply:
        call = reply.tool(tool, call_id="c", input=json.dumps({"path": path}))
        call.succeed(f"text of {path}")
        reply.add_text(f"I have seen {path}")
        reply.finish()
    return call.id


@pytest.mark.parametrize(("policy", "summary"), [(UNGUARDED, "ok"), (GUARDED, sections("ok"))])
def test_pins_todos_and_files_survive_ten_compactions_by_one_word(
    session: Session, policy: CompactionPolicy, summary: str
) -> None:
    """A summariser that answers with one word loses no pin, no todo and no file."""
    session.user("remember this")
    session.pin("the password of the door is a fish")
    with session.assistant(MODEL) as reply:
        part = reply.add_text("an answer worth keeping")
        reply.finish()
    session.pin(part=part)
    result = read(session, "src/first.py")
    session.pin(part=result)
    read(session, "src/second.py", "write")
    session.set_todos([Todo("paint the door"), Todo("feed the fish", "in_progress"), Todo("buy a fish", "completed")])
    for number in range(10):
        talk(session, 3, words=120)
        found = window(session, policy, summary).compact()
        assert found.completed, found.reason
        view = ModelView.of(session)
        said = texts(view.messages, "assistant")
        assert sum(text == summary for text in said) == 1
        carried = next(text for text in said if text.startswith("## Todo list"))
        for words in (
            "- [ ] paint the door",
            "- [ ] feed the fish (in_progress)",
            "- [x] buy a fish",
            "- the password of the door is a fish",
            "- an answer worth keeping",
            "- text of src/first.py",
            "- src/first.py (read)",
            "- src/second.py (written)",
        ):
            assert words in carried.split("\n"), (number, words)
        assert "remember this" not in texts(view.messages)
        assert view.digest == ModelView.of(session.fork()).digest


def test_what_is_unpinned_or_done_is_not_carried_any_more(session: Session) -> None:
    """A removed pin and an emptied todo list are gone at the next compaction."""
    pin = session.pin("yesterday's fact")
    session.set_todos([Todo("old")])
    with session.assistant(MODEL) as reply:
        part = reply.add_text("a secret answer")
        reply.finish()
    session.pin(part=part)
    talk(session, 4)
    assert window(session, GUARDED, sections()).compact().completed
    carried = told(ModelView.of(session).messages)
    assert "yesterday's fact" in carried
    assert "a secret answer" in carried
    session.append([(1_000, ev.PartRedacted(part))])
    said = told(ModelView.of(session).messages)
    assert "a secret answer" not in said
    assert f"- {REDACTED}" in said
    session.unpin(pin)
    session.set_todos([])
    talk(session, 4)
    assert window(session, GUARDED, sections()).compact().completed
    said = told(ModelView.of(session).messages)
    assert "yesterday's fact" not in said
    assert "old" not in said.split()


def test_what_was_carried_is_fixed_so_that_the_beginning_of_the_view_stays(session: Session) -> None:
    """Todos and pins that change after a compaction change no message before them."""
    session.set_todos([Todo("first")])
    talk(session, 4)
    assert window(session, GUARDED, sections()).compact().completed
    before = list(ModelView.of(session).messages)
    session.set_todos([Todo("second")])
    session.pin("new")
    session.user("next")
    assert list(ModelView.of(session).messages)[: len(before)] == before


@pytest.mark.parametrize("ended", [False, True])
def test_pending_calls_are_carried_as_they_are(session: Session, *, ended: bool) -> None:
    """A call without a result is never covered; it gets one however many compactions later."""
    session.user("look")
    with session.assistant(MODEL) as reply:
        call = reply.tool("look", call_id="slow", input="{}")
        for _ in range(3):
            session.user("and?")
            window(session, GUARDED, sections()).compact()
            assert [found.call for found in calls(ModelView.of(session).messages)] == ["slow"]
        if ended:
            call.succeed("at last")
            reply.finish("tool-calls")
    outputs = [found.output for found in results(ModelView.of(session).messages)]
    assert len(outputs) == 1
    assert (outputs == ["at last"]) == ended


def test_carrying_costs_no_more_than_what_is_carried(session: Session) -> None:
    """Many files and a long pin are bounded: the oldest files are counted, the text is cut."""
    with session.assistant(MODEL) as reply:
        part = reply.add_text("long " * 4_000)
        for number in range(150):
            reply.tool("read", call_id=f"c{number}", input=json.dumps({"path": f"f{number}"})).succeed("")
        reply.finish()
    session.pin(part=part)
    talk(session, 2)
    roomy = ContextWindow(session, ContextPolicy(compaction=GUARDED), summarizer=lambda _: sections(), environment={})
    assert roomy.compact().completed
    carried = next(text for text in texts(ModelView.of(session).messages) if text.startswith("## Pinned"))
    assert len(carried) < 10_000
    assert "- 90 earlier files" in carried
    assert "- f149 (read)" in carried
    assert "- f5 (read)" not in carried
    assert f"[the rest of part {part} can be recalled]" in carried


def test_subtasks_and_answers_can_be_pinned(session: Session) -> None:
    """A pinned subtask carries its prompt, a pinned failed call its error."""
    message = session.user([Text("do"), Subtask("count to ten")])
    with session.assistant(MODEL) as reply:
        call = reply.tool("look", call_id="c", input="{}")
        call.fail("no such file")
        reply.finish()
    session.pin(part=call.id)
    subtask = next(
        recorded.event.part
        for recorded in session.events()
        if isinstance(recorded.event, ev.PartStarted) and isinstance(recorded.event.kind, Subtask)
    )
    session.pin(part=subtask)
    talk(session, 4)
    assert window(session, GUARDED, sections()).compact().completed
    said = told(ModelView.of(session).messages).split("\n")
    assert "- no such file" in said
    assert "- count to ten" in said
    assert message not in {found.source for found in ModelView.of(session).messages}
