"""Summaries in the background: when one is begun, put in, given up, and what it costs."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable

import msgspec
import pytest

from eventlog import Limits, Model, Session, Store
from eventlog import events as ev
from eventlog.errors import CallError
from eventlog.values import Opaque
from projections import ModelView
from projections.exports.html import html_pieces
from projections.exports.jsonl import jsonl_lines
from projections.exports.markdown import markdown_blocks
from projections.exports.opencode import opencode_pieces
from projections.loop import AsyncContextWindow, CallModel, ContextWindow, Stop
from projections.loop.decision.loop_state import COMPACTED, ROLLED_BACK, TOLD_CHANGED
from projections.reports.audit import audit
from projections.window import (
    AutoContinue,
    CompactionPolicy,
    ContextPolicy,
    Hooks,
    PrunePolicy,
    covered_by,
    policy_named,
    summarize_offline,
)
from tests.support.background import (
    EAGER,
    LIMITS,
    Writer,
    answer,
    begun,
    is_writing,
    outcomes,
    shown,
    subsession,
    talk,
    told,
    turn,
    until_asked,
    until_written,
)
from tests.support.engines import ENCRYPTED, ENGINES, Engine, places
from tests.support.verifying import report_of
from tests.support.window_loop import MODEL, sections

engine = places(*ENGINES, ENCRYPTED)

WIDE = Limits(context=21_000, output=1_000)
"""20,000 usable tokens."""
TURN = 800
"""Characters of a question and of an answer: 400 tokens together, 2 % of the window."""
PACED = ContextPolicy(
    prune=PrunePolicy(enabled=False), compaction=CompactionPolicy(preserve_recent_tokens=1_000), counter="chars/4"
)


def ended(session: Session, writer: Writer) -> list[str]:
    """Let the summary end, ask again, and return the outcomes of compactions."""
    writer.go.set()
    until_written(session)
    session.user("question5 comes later")
    with writer.window(session) as window:
        step = window.next_step()
        assert isinstance(step, CallModel)
    return outcomes(session)


# -- the road ------------------------------------------------------------------------------------


def test_one_append_puts_the_summary_in(engine: Engine) -> None:
    """The session hears nothing of it until then; what was said meanwhile stays in view."""
    store = engine.open()
    session, writer = store.create_session(id="s"), Writer()
    begun(session, writer)
    assert is_writing(session)
    assert not any(isinstance(span.item, ev.CompactionRequested) for span in session.reader.spans())
    talk(session, 10, 11)
    before = session.version
    assert ended(session, writer) == [""]
    commits = [commit.spans() for commit in session.reader.decoded_commits(before)]
    (put_in,) = [[type(span.item) for span in spans] for spans in map(list, commits) if len(list(spans)) > 2]
    assert put_in[:3] == [ev.UserMessageAdded, ev.CompactionRequested, ev.CompactionStarted]
    assert ev.CompactionCompleted in put_in
    view = shown(session)
    assert "summary 1" in view
    assert all(word in view for word in ("question4", "answer4", "question10", "answer10", "question5"))
    assert "question0" in told(writer.requests[0])
    assert "question0" not in view
    assert store.unfinished()[0].id == "s"
    assert [info.id for info in store.unfinished()] == ["s"]


def test_it_is_a_compaction_as_any_other(store: Store, session: Session) -> None:
    """Undo, recall and audit know it; its cost stands in the sub-session alone."""
    writer = Writer()
    begun(session, writer)
    before = ModelView.of(session)
    assert ended(session, writer) == [""]
    steps = [*audit(session)]
    assert {step.verdict for step in steps if step.purpose == "summary"} == {"match"}
    until_written(session)  # the next one, which this policy begins at once
    assert {step.verdict for step in audit(subsession(session))} == {"match"}
    events = [span.item for span in session.reader.spans()]
    assert not any(isinstance(item, ev.UsageRecorded) for item in events)
    spent = [span.item for span in subsession(session).reader.spans() if isinstance(span.item, ev.UsageRecorded)]
    assert len(spent) == len(writer.requests)
    began = [span.item for one in (session, subsession(session)) for span in one.reader.spans()]
    replies = {item.message for item in began if isinstance(item, ev.AssistantMessageStarted)}
    assert sum(day.replies for day in store.usage_by_day(wait=None).days) == len(replies)
    (part,) = [item.part for item in events if isinstance(item, ev.CompactionCompleted)]
    assert covered_by(session, part).messages
    with writer.window(session) as window:
        assert window.undo() == "compaction"
    after = ModelView.of(session).messages
    assert [*after[: len(before.messages)]] == [*before.messages]
    assert [message.role for message in after[len(before.messages) :]] == ["user"]
    asked = len(writer.requests)
    with writer.window(session) as window:  # neither what was undone nor what was anchored on it is put in
        window.next_step()
        until_asked(writer, asked + 1)
    assert outcomes(session) == ["", COMPACTED]
    until_written(session)


def test_a_summary_in_chunks_is_audited(session: Session) -> None:
    """Every request of it is rebuilt, those that are anchored on a chunk before included."""
    writer = Writer()
    talk(session, 0, 30)
    session.user("question30 is newest")
    policy = msgspec.structs.replace(EAGER, counter="chars/4")
    limits = Limits(context=4_000, output=1_000)
    with writer.window(session, policy, limits=limits) as window:
        window.next_step()
        writer.go.set()
        until_written(session)
        window.next_step()
    assert outcomes(session) == [""]
    assert len(writer.requests) > 1
    for one in (session, subsession(session)):
        assert [step.verdict for step in audit(one) if step.purpose == "summary"] == ["match"] * len(writer.requests)


async def test_asyncio(store: Store) -> None:
    """The twin begins a summary by a coroutine, and puts it in."""
    session = store.create_session(id="s")

    async def summarize(_request: object) -> str:
        return sections()

    talk(session, 0, 4)
    session.user("question4")
    window = ContextWindow(
        session, EAGER, model=MODEL, limits=LIMITS, summarizer=summarize, background=True, environment={}
    )
    async with AsyncContextWindow(window) as twin:
        assert isinstance(await twin.next_step(), CallModel)
        await asyncio.to_thread(until_written, session)
        assert isinstance(await twin.next_step(), CallModel)
        assert twin.waits == 0
    assert outcomes(session) == [""]


# -- when ----------------------------------------------------------------------------------------


def test_nothing_is_begun_below_the_share(session: Session) -> None:
    """Nor under OpenCode's policy, nor with automatic compaction off, nor without a lease."""
    writer = Writer()
    talk(session, 0, 4)
    session.user("question4")
    quiet = msgspec.structs.replace(EAGER, compaction=CompactionPolicy(preserve_recent_tokens=60))
    for policy in (quiet, policy_named("opencode-1.18")):
        with writer.window(session, policy) as window:
            assert isinstance(window.next_step(), CallModel)
    with writer.window(session, environment={"EVENTLOG_AUTO_COMPACT": "0"}) as window:
        assert isinstance(window.next_step(), CallModel)
    assert isinstance(writer.window(session).next_step(), CallModel)
    assert not is_writing(session)
    assert [info.id for info in session.store.sessions()] == ["s"]
    with pytest.raises(CallError, match="summariser"):
        ContextWindow(session, summarizer=summarize_offline, background=True)


def paced(session: Session, turns: int, last: int) -> tuple[Writer, list[str]]:
    """A conversation that grows by 2 % a turn; a summary takes the time of so many turns."""
    writer, age, steps = Writer(), 0, list[str]()
    for number in range(last):
        steps += turn(session, number, lambda: writer.window(session, PACED, limits=WIDE), TURN)
        age = age + 1 if is_writing(session) else 0
        if age == turns:
            writer.go.set()
            until_written(session)
            writer.go.clear()
            age = 0
    return writer, steps


def test_no_turn_waits_for_a_summary_of_five_turns(session: Session) -> None:
    """The window is never full, and nothing but the model is asked for."""
    writer, steps = paced(session, 5, 120)
    assert writer.waits == 0
    assert set(steps) == {"CallModel"}
    assert outcomes(session) == [""] * len(writer.requests)
    assert len(writer.requests) > 2


@pytest.mark.parametrize(("turns", "stops"), [(20, 0), (30, 3)])
def test_a_summary_of_many_turns_is_waited_for(
    session: Session, turns: int, stops: int, record_property: Callable[[str, object], None]
) -> None:
    """A full window waits for the summary on its way, and begins no other."""
    writer, steps = paced(session, turns, 120)
    record_property("stops in 120 turns", writer.waits)
    assert writer.waits == stops
    assert set(steps) == {"CallModel"}
    assert set(outcomes(session)) == {""}
    assert writer.waits <= len(outcomes(session)) == len(writer.requests) - is_writing(session)


def test_a_failed_summary_falls_back(session: Session) -> None:
    """The reason is recorded once; the window compacts when it is full, and not before."""
    writer = Writer(ValueError("secret words"))
    writer.go.set()
    steps = list[str]()
    for number in range(60):
        steps += turn(session, number, lambda: writer.window(session, PACED, limits=WIDE), TURN)
        until_written(session)
    assert outcomes(session) == ["ValueError", ""]
    assert steps.count("RequestCompaction") == steps.count("Compact") == 1
    assert len(writer.requests) == 2
    assert not is_writing(session)


def test_a_wait_ends_with_a_stop(session: Session) -> None:
    """A user who stops the session does not wait for a summary."""
    writer = Writer()
    talk(session, 0, 12)
    session.user("question12")
    tight = msgspec.structs.replace(EAGER, counter="chars/4")
    with writer.window(session, tight) as window:
        window.next_step()
    until_asked(writer)
    talk(session, 20, 60)
    session.user("question60")

    with writer.window(session, tight) as window:
        writer.windows.clear()  # the writer does not see that it is waited for

        background = window._background
        assert background is not None
        is_written, looks = background._is_written, list[int]()

        def looked(child: Session) -> bool:
            looks.append(1)
            if len(looks) == 3:
                session.interrupt("enough")
            return is_written(child)

        background._is_written = looked  # type: ignore[method-assign]
        assert window.next_step() == Stop("interrupted")
        assert window.waits == 1
    assert is_writing(session)
    writer.go.set()
    until_written(session)


# -- what ends it, and what does not -------------------------------------------------------------


def first(session: Session, user: bool = True) -> str:
    """The first message of the user's, or of the model's."""
    kind = ev.UserMessageAdded if user else ev.AssistantMessageStarted
    return next(span.item.message for span in session.reader.spans() if isinstance(span.item, kind))


def part_of(session: Session, message: str) -> str:
    """The first part of a message."""
    return next(
        span.item.part
        for span in session.reader.spans()
        if isinstance(span.item, ev.PartStarted) and span.item.message == message
    )


def by_hand(session: Session) -> None:
    """Compact by hand, and undo it."""
    window = ContextWindow(session, EAGER, model=MODEL, limits=LIMITS, environment={})
    assert window.compact().completed
    window.undo()


def by_provider(session: Session) -> None:
    """Let the provider compact in a reply."""
    session.user("question5")
    with session.assistant(MODEL) as reply:
        reply.step()
        reply.part(Opaque("openai.compaction", '{"type":"compaction","encrypted_content":"c"}', str(MODEL)))
        reply.end_step("stop")
        reply.finish("stop")


ENDS: dict[str, tuple[Callable[[Session], object], str]] = {
    "rollback": (lambda session: session.rollback(before=first(session, user=False)), ROLLED_BACK),
    "another compaction": (by_hand, COMPACTED),
    "the provider's compaction": (by_provider, COMPACTED),
    "redaction": (lambda session: session.redact(part_of(session, first(session))), TOLD_CHANGED),
    "removal": (lambda session: session.remove_message(first(session)), TOLD_CHANGED),
    "removed part": (lambda session: session.remove_part(part_of(session, first(session, user=False))), TOLD_CHANGED),
    "edit": (lambda session: session.edit_part(part_of(session, first(session, user=False)), "other"), TOLD_CHANGED),
}
"""Ends of a summary, with their reasons."""


@pytest.mark.parametrize("is_over", [False, True], ids=["while it is written", "when it is whole"])
@pytest.mark.parametrize("name", ENDS)
def test_what_it_tells_has_changed(session: Session, name: str, is_over: bool) -> None:
    """The summary is given up, with the reason, and another is begun."""
    change, reason = ENDS[name]
    writer = Writer()
    begun(session, writer)
    if is_over:
        writer.go.set()
        until_written(session)
        writer.go.clear()
    change(session)
    talk(session, 20, 23)
    session.user("question23")
    made = [outcome for outcome in outcomes(session) if not outcome]
    with writer.window(session) as window:
        assert isinstance(window.next_step(), CallModel)
        if not is_over:
            until_written(session)  # it stops by itself
            assert isinstance(window.next_step(), CallModel)
        assert outcomes(session) == [*made, reason]
        assert "summary 1" not in shown(session)
        until_asked(writer, 2)
        writer.go.set()
        until_written(session)
        assert isinstance(window.next_step(), CallModel)
    assert outcomes(session) == [*made, reason, ""]
    assert "summary 2" in shown(session)


def test_a_rollback_behind_its_start_leaves_it_valid(session: Session) -> None:
    """So do new messages, a promotion, a prune and another owner."""
    writer = Writer()
    begun(session, writer)
    version = session.version
    talk(session, 30, 31)
    session.rollback(version)
    session.user("queued", id="queued", delivery="queue")
    session.context.promote("queued")
    with session.lease(take_over=True):
        pass
    assert ended(session, writer) == [""]
    assert "queued" in shown(session)


def test_a_question_that_waits_again_is_kept(session: Session) -> None:
    """Its answer, which the tail had, was taken out meanwhile."""
    writer = Writer()
    talk(session, 0, 3)
    session.user("covered question " * 60)
    with session.assistant(MODEL, id="tail") as reply:
        reply.add_text("answer " + "of the tail " * 30)
        reply.finish("stop")
    session.user("newest", id="newest")
    policy = msgspec.structs.replace(
        EAGER,
        compaction=msgspec.structs.replace(EAGER.compaction, preserve_recent_tokens=200, keep_newest_user=True),
        counter="chars/4",
    )
    with writer.window(session, policy) as window:
        window.next_step()
        until_asked(writer)
        assert "covered question" in told(writer.requests[0])
        assert "of the tail" not in told(writer.requests[0])
        session.remove_message("tail")
        writer.go.set()
        until_written(session)
        window.next_step()
    assert outcomes(session) == [""]
    assert "covered question" in shown(session)


def test_a_summary_that_leaves_too_much_is_refused(session: Session) -> None:
    """New messages fill the window: the reason is recorded, and the window compacts."""
    writer = Writer()
    begun(session, writer)
    talk(session, 20, 70)
    writer.go.set()
    until_written(session)
    session.user("question70")
    with writer.window(session) as window:
        steps = answer(window, "done")
    assert outcomes(session)[0].startswith("view-too-large")
    assert outcomes(session)[1] == ""
    assert steps[:3] == ["RequestCompaction", "Compact", "CallModel"]


def test_another_model_may_write_it(session: Session) -> None:
    """The summary's message names the model that wrote it."""
    writer = Writer()
    talk(session, 0, 4)
    session.user("question4")
    writer.go.set()
    with writer.window(session, summary_model="test/small") as window:
        window.next_step()
        until_written(session)
        window.next_step()
    made = [span.item for span in session.reader.spans() if isinstance(span.item, ev.AssistantMessageStarted)]
    assert [item.model for item in made if item.summary] == [Model("test", "small")]


# -- beside others -------------------------------------------------------------------------------


def test_what_another_writer_says_at_the_end_is_seen(session: Session) -> None:
    """The append is decided on the version that it follows, anew if it is not the newest."""
    writer, calls = Writer(), list[int]()

    def said_again(_: AutoContinue) -> bool:
        calls.append(session.version)
        if len(calls) == 1:
            session.user("question77 of another task")
        return True

    begun(session, writer)
    writer.go.set()
    until_written(session)
    session.user("question5")
    with writer.window(session, hooks=Hooks(auto_continue=said_again)) as window:
        assert isinstance(window.next_step(), CallModel)
    assert len(calls) == 2
    assert outcomes(session) == [""]
    assert "question77" in shown(session)


@pytest.mark.filterwarnings("error")
def test_a_store_may_be_closed_meanwhile(engine: Engine) -> None:
    """The writer ends without a word; the next process goes on."""
    store, writer = engine.open(), Writer()
    begun(store.create_session(id="s"), writer)
    (thread,) = [thread for thread in threading.enumerate() if thread.name == "summary"]
    store.close()
    writer.go.set()
    thread.join(60)
    assert not thread.is_alive()
    gc.collect()
    again = engine.open()
    assert again.unfinished() == []
    session = again.session("s")
    session.user("question5")
    with writer.window(session) as window:
        window.next_step()
        until_written(session)
        window.next_step()
        until_written(session)
    assert outcomes(session) == [""]


def test_an_erased_subsession_is_done_without(store: Store, session: Session) -> None:
    """The window compacts as it would without the background."""
    writer = Writer()
    begun(session, writer)
    writer.go.set()
    until_written(session)
    store.erase(subsession(session).id)
    talk(session, 20, 70)
    session.user("question70")
    with writer.window(session) as window:
        assert answer(window, "done")[:3] == ["RequestCompaction", "Compact", "CallModel"]
    assert outcomes(session) == [""]


def test_everything_can_be_verified_and_exported(store: Store, session: Session) -> None:
    """The sub-session is a session as any other, and so is one that took a summary."""
    writer = Writer()
    begun(session, writer)
    assert ended(session, writer) == [""]
    until_written(session)
    for one in (session, subsession(session)):
        assert report_of(store, one.id).sound
        assert "summary 1" in "".join(html_pieces(one))
        assert b"summary 1" in b"".join(jsonl_lines(one))
        assert "summary 1" in "".join(markdown_blocks(one))
        assert b"summary 1" in b"".join(opencode_pieces(one))
