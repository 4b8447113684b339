"""A reply answers the user messages that its model has seen, and no others."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextvars import copy_context
from pathlib import Path
from typing import Any, cast

import pytest

import eventlog
from eventlog import events as ev
from eventlog.aio import AsyncSession
from eventlog.errors import CallError, RefusedError
from eventlog.session.outcome import outcome_of
from eventlog.session.session import Session
from projections import ModelView, Transcript
from projections.view.options import RenderOptions
from tests.support.engines import Engine
from tests.support.export_sessions import jsonl, read
from tests.support.sample_sessions import apart


def say(session: Session, text: str, **more: Any) -> str:
    """Let another task add a user message; return its id."""
    return apart(lambda: session.user(text, **more))


def answer(session: Session, text: str = "hello", reason: str = "stop", **more: Any) -> str:
    """Add a whole reply; return its id."""
    with session.assistant("a/b", **more) as reply:
        reply.add_text(text)
        reply.finish(reason)
    return reply.id


def shown(session: Session, **options: Any) -> list[str]:
    """Texts of the view, each behind the first letter of its role."""
    return [
        f"{message.role[0]}:{getattr(part, 'text', type(part).__name__)}"
        for message in ModelView.of(session, **options).messages
        for part in message.parts
    ]


def state_of(session: Session, *messages: str) -> list[str]:
    """The states of questions."""
    return [outcome_of(session.reader, message).state for message in messages]


def seen_by(session: Session, reply: str) -> int | None:
    """The version that the first event of a reply has."""
    (found,) = [
        recorded.event.seen
        for recorded in session.events()
        if isinstance(recorded.event, ev.AssistantMessageStarted) and recorded.event.message == reply
    ]
    return found


@pytest.mark.parametrize("names_view", [True, False], ids=["view=", "no view"])
@pytest.mark.parametrize("when", ["before the reply", "in the reply"])
def test_a_question_behind_the_view_waits(engine: Engine, when: str, *, names_view: bool) -> None:
    """A question that comes after the view waits for its answer, and its session is listed."""
    store = engine.open()
    session = store.create_session(id="s")
    other = engine.open().session("s")
    asked: list[str] = []
    with session.turn("first", "r1") as turn:
        view = ModelView.of(session)
        if when == "before the reply":
            asked.append(other.user("second", request_id="r2"))
        with session.assistant("a/b", view=view if names_view else None) as reply:
            if when == "in the reply":
                asked.append(other.user("second", request_id="r2"))
            with other.turn("second", "r2") as second:
                assert (second.state, second.mine) == ("queued", False)
            reply.add_text("one")
            reply.finish()
    assert (turn.state, turn.answer) == ("done", (reply.id,))
    assert [info.id for info in store.unfinished()] == ["s"]
    assert [info.state for info in store.newest_sessions().sessions] == ["unfinished"]
    with other.turn("second", "r2") as second:
        assert (second.message, second.state) == (asked[0], "resumed")
        assert shown(other) == ["u:first", "a:one", "u:second"]
        answer(other, "two")
    assert second.state == "done"
    assert (store.unfinished(), engine.open().unfinished()) == ([], [])


def test_what_a_reply_without_a_view_has_seen(engine: Engine) -> None:
    """A reply has seen what was there when its turn or its task's last word was."""
    session = engine.open().create_session(id="s")
    other = engine.open().session("s")
    with session.turn("first", "r1"):
        began = session.version
        late = other.user("while the first view is taken")
        first = answer(session, reason="tool-calls")
        ended = session.version
        assert seen_by(session, first) == began
        later = other.user("while the second view is taken")
        second = answer(session, reason="tool-calls")
        assert seen_by(session, second) == ended
        own = session.user("what the search found")
        said = session.version
        last = other.user("behind all")
        third = answer(session)
        assert seen_by(session, third) == said
    assert state_of(session, late, later, own, last) == ["done", "done", "done", "pending"]
    with session.turn() as turn:
        assert turn.message == last
        queued = session.user("promoted", delivery="queue")
        session.context.promote(queued)
        answer(session)
    assert state_of(session, last, queued) == ["done", "done"]


def test_a_question_that_others_passed_takes_its_place_behind_them(engine: Engine) -> None:
    """One that no reply has seen is promoted; the newest, or one that was answered, is not."""
    session = engine.open().create_session(id="s")
    answered, passed = session.user("answered"), ""
    with session.assistant("openai/gpt-5") as reply:
        passed = session.user("passed")
        reply.finish()
    newest = session.user("newest")
    for message in (answered, newest, reply.id):
        with pytest.raises(RefusedError):
            session.context.promote(message)
    session.context.promote(passed)
    with pytest.raises(RefusedError):  # it is the newest now
        session.context.promote(passed)
    view = ModelView.of(session, at=session.version - 1)
    answer(session, view=view)
    assert state_of(session, newest, passed) == ["done", "pending"]


def test_several_replies_to_one_view_pass_it(engine: Engine) -> None:
    """Two models that are asked the same: neither answers what came after the view."""
    session = engine.open().create_session(id="s")
    with session.turn("first", "r1"):
        view = ModelView.of(session)
        replies = [answer(session, view=view)]
        late = say(session, "second")
        replies += [answer(session, view=view), answer(session, view=view.version)]
    assert {seen_by(session, reply) for reply in replies} == {view.version}
    assert state_of(session, late) == ["pending"]


def test_each_task_of_a_lease_has_seen_what_its_own_turn_has(engine: Engine) -> None:
    """Tasks that share a lease: the turn of one says nothing of the view of the other."""
    session = engine.open().create_session(id="s")
    with session.lease():
        one, other = copy_context(), copy_context()
        first, second = session.turn("first", "r1"), session.turn("second", "r2")
        one.run(first.__enter__)
        other.run(second.__enter__)
        one.run(answer, session)
        one.run(first.__exit__, None, None, None)
        assert state_of(session, first.message, second.message) == ["done", "pending"]
        other.run(answer, session)
        other.run(second.__exit__, None, None, None)
        assert second.state == "done"
        with session.turn("outer", "r3") as outer:
            with session.turn("inner", "r4") as inner:
                answer(session)
            assert inner.state == "done"
        assert outer.state == "done"


@pytest.mark.parametrize("hands_over", ["before", "beside", "not"])
def test_outside_a_turn_the_turns_of_other_tasks_say_nothing(engine: Engine, hands_over: str) -> None:
    """A reply outside a turn has seen what is there, also beside the turns of other tasks."""
    session = engine.open().create_session(id="s")
    with session.lease() as lease:
        one, other, outside = copy_context(), copy_context(), copy_context()
        if hands_over == "before":
            outside.run(lease.__enter__)
        first, second = session.turn("first", "r1"), session.turn("second", "r2")
        one.run(first.__enter__)
        other.run(second.__enter__)
        if hands_over == "beside":
            outside.run(lease.__enter__)
        late = outside.run(session.user, "late")
        reply = outside.run(answer, session)
        assert state_of(session, first.message) == ["done"]
        assert state_of(session, late) == ["pending" if hands_over == "beside" else "done"]
        assert (seen_by(session, reply) or 0) > 0
        other.run(second.__exit__, None, None, None)
        one.run(first.__exit__, None, None, None)


def test_a_thread_that_is_handed_the_lease_has_seen_what_the_turn_has(engine: Engine) -> None:
    """A reply in a plain thread under the lease of a turn has seen what that turn has."""
    session = engine.open().create_session(id="s")
    with session.turn("first", "r1") as turn:
        assert turn.lease is not None
        lease = turn.lease
        late = say(session, "second")

        def reply() -> str:
            with lease:
                return answer(session)

        apart(reply)
    assert (turn.state, *state_of(session, late)) == ("done", "pending")


@pytest.mark.parametrize("names_view", [True, False], ids=["view=", "no view"])
def test_in_asyncio_a_question_behind_the_view_waits(engine: Engine, *, names_view: bool) -> None:
    """The asyncio forms of turn and reply record what the model has seen."""
    session = engine.open().create_session(id="s")
    other = engine.open().session("s")

    async def main() -> tuple[str, list[str]]:
        chat = AsyncSession(session)
        async with chat.turn("first", "r1") as turn:
            view = await asyncio.to_thread(ModelView.of, session)
            late = [await asyncio.to_thread(other.user, "second")]
            async with chat.assistant("a/b", view=view if names_view else None) as reply:
                await reply.finish("tool-calls")
            late.append(await asyncio.to_thread(other.user, "third"))
            async with chat.assistant("a/b") as reply:
                await reply.finish()
        return turn.state, late

    state, late = asyncio.run(main())
    assert (state, *state_of(session, *late)) == ("done", "done", "pending")


def test_a_view_is_a_view_or_a_version(engine: Engine) -> None:
    """Anything else is refused, and a version that is to come."""
    store = engine.open()
    session = store.create_session(id="s")
    asked = session.user("hi")
    for wrong in ("3", True, 1.5, object(), -1):
        with pytest.raises(CallError):
            session.assistant("a/b", view=cast("int", wrong))
    for given in (0, 2):
        assert seen_by(session, answer(session, view=given)) == given
    late = engine.open().session("s").user("by another handle")
    newest = answer(session, view=session.reader.find(late) + 1)
    assert state_of(session, asked, late) == ["done", "done"]
    assert seen_by(session, newest) == session.reader.find(newest) - 1
    longer = store.create_session()
    for _ in range(session.version):
        longer.user("more")
    before = session.version
    for view in (before + 1, 10**9, ModelView.of(longer)):
        with pytest.raises(CallError, match=f"is at version {before}"), session.assistant("a/b", view=view):
            pass

    async def awaited() -> None:
        async with AsyncSession(session).assistant("a/b", view=before + 1):
            pass

    with pytest.raises(CallError, match=f"is at version {before}"):
        asyncio.run(awaited())
    assert session.version == before
    assert not session.executor.holds_lease


def test_a_turn_that_took_over_has_seen_what_was_there(engine: Engine) -> None:
    """Messages of the former owner's time are in the view of the task that took over."""
    session = engine.open().create_session(id="s")
    other = engine.open().session("s")
    with session.turn("first", "r1") as former:
        late = other.user("second")
        with other.turn("first", "r1", take_over=True) as turn:
            assert turn.mine
            answer(other)
        assert former.mine
    assert state_of(other, turn.message, late) == ["done", "done"]


ASKS = """
import eventlog, sys
with eventlog.open(sys.argv[1]) as store:
    print(store.session("s").user("of another process"))
"""


def test_what_comes_between_deciding_and_committing_is_not_seen(tmp_path: Path) -> None:
    """Another process' question before an accepted reply: what was not committed is not seen."""
    with eventlog.open(tmp_path / "s") as store:
        session = store.create_session(id="s")
        first = session.user("first")
        answer(session)
        certain = session.version
        with session.pipeline():
            own = session.user("own")
            reply = answer(session)
            asks = [sys.executable, "-c", ASKS, str(tmp_path / "s")]
            foreign = subprocess.run(asks, capture_output=True, text=True, check=True).stdout.strip()
        assert seen_by(session, reply) == certain
        assert session.reader.find(foreign) < session.reader.find(own)
        assert state_of(session, first, own, foreign) == ["done", "pending", "pending"]
        assert [info.id for info in store.unfinished()] == ["s"]


def test_a_view_of_another_branch_has_seen_what_both_share(engine: Engine) -> None:
    """A redo between view and reply: the reply has not seen what the view did not show."""
    session = engine.open().create_session(id="s")
    first = session.user("first")
    shared = session.version
    answer(session)
    second = session.user("second")
    newest = session.version
    session.rollback(shared)
    view = ModelView.of(session)
    assert shown(session) == ["u:first"]
    session.rollback(newest)
    reply = answer(session, "to the first", view=view)
    assert seen_by(session, reply) == shared
    assert state_of(session, first, second) == ["done", "pending"]
    assert shown(session)[-2:] == ["a:to the first", "u:second"]
    session.rollback(shared)
    assert seen_by(session, answer(session, view=newest)) == shared


def test_a_rollback_to_before_a_question_names_the_replies_it_hides(engine: Engine) -> None:
    """Events decide, also where the view shows the reply before the question."""
    session = engine.open().create_session(id="s")
    session.user("first")
    kept = answer(session)
    view = ModelView.of(session)
    second = session.user("second")
    hidden = [answer(session, view=view)]
    assert shown(session) == ["u:first", "a:hello", "a:hello", "u:second"]
    removed = answer(session, reason="tool-calls")
    session.remove_message(removed)
    hidden.append(answer(session))
    assert session.rollback(before=second).replies == tuple(hidden)
    assert session.redo().replies == ()
    assert kept not in hidden


def test_a_fork_and_an_import_have_what_was_seen(engine: Engine) -> None:
    """A fork, and a session that is exported and imported, answer the same questions."""
    store = engine.open()
    session = store.create_session(id="s")
    parent = session.user("first")
    answer(session)
    session.user("rolled back")
    session.rollback(before=session.user("rolled back, too"))
    fork = session.fork(id="f")
    for one in (session, fork):
        view = ModelView.of(one)
        late = one.user("second", id=f"late-{one.id}")
        reply = answer(one, view=view)
        assert seen_by(one, reply) == view.version
        assert state_of(one, parent, late) == ["done", "pending"]
    with eventlog.open("memory:") as other:
        read(other, jsonl(session, tree=True))
        for name in ("s", "f"):
            one = other.session(name)
            assert state_of(one, parent, f"late-{name}") == ["done", "pending"]
            assert shown(one) == shown(store.session(name))


def test_a_reply_that_says_nothing_of_it_has_seen_all_before_it(engine: Engine) -> None:
    """A record or an import without `seen` answers what stands before it on its path."""
    session = engine.open().create_session(id="s")
    first, second = session.user("first"), session.user("second")
    now = session.executor.host.clock()
    with session.lease():
        session.append([(now, ev.AssistantMessageStarted("m", first)), (now, ev.MessageFinished("m", "stop"))])
    third = session.user("third")
    assert state_of(session, first, second, third) == ["done", "done", "pending"]


def test_a_record_may_say_what_was_seen(engine: Engine) -> None:
    """An event with `seen` is taken as it is; one that is no version is refused."""
    session = engine.open().create_session(id="s")
    first = session.user("first")
    seen = session.version
    second = session.user("second")
    now = session.executor.host.clock()
    with session.lease():
        started = ev.AssistantMessageStarted("m", seen=seen)
        session.append([(now, started), (now, ev.MessageFinished("m", "stop"))])
        with pytest.raises(CallError):
            session.append([(now, ev.AssistantMessageStarted("n", seen=-1))])
    assert state_of(session, first, second) == ["done", "pending"]


def test_a_promoted_question_waits_for_its_answer(engine: Engine) -> None:
    """A queued question stands where it was promoted: replies before that have not seen it."""
    store = engine.open()
    session = store.create_session(id="s")
    session.user("first")
    queued = session.user("queued", delivery="queue")
    view = ModelView.of(session)
    answer(session, view=view)
    session.context.promote(queued)
    answer(session, view=view)
    assert state_of(session, queued) == ["pending"]
    assert [info.id for info in store.unfinished()] == ["s"]
    with session.turn() as turn:
        assert turn.message == queued
        answer(session)
    assert store.unfinished() == []


def test_an_undone_compaction_leaves_what_was_answered(engine: Engine) -> None:
    """Of the messages that a compaction added those stay that a reply has seen."""
    session = engine.open().create_session(id="s")
    session.user("first")
    answer(session)
    for seen in (True, False):
        part = session.context.request_compaction()
        with session.lease():
            session.context.start_compaction(part)
            with session.assistant("a/b", summary=True) as reply:
                reply.finish()
            session.context.complete_compaction(part, reply.id)
        view = ModelView.of(session)
        added = session.user("go on", synthetic=True, cause=part)
        answer(session, view=None if seen else view)
        session.context.undo_compaction()
        state = session.reader.state()
        assert (state.now(state.messages[added].changes) == "removed") is not seen


def test_a_question_stands_behind_the_replies_that_had_not_seen_it(engine: Engine) -> None:
    """A question stands before the first that has; transcript and OpenCode go by events."""
    session = engine.open().create_session(id="s")
    session.user("1")
    view = ModelView.of(session)
    session.user("2")
    answer(session, "a", view=view)
    session.user("3")
    answer(session, "b", view=view)
    assert shown(session) == ["u:1", "a:a", "a:b", "u:2", "u:3"]
    before = shown(session)
    answer(session, "c")
    session.user("4")
    assert shown(session) == [*before, "a:c", "u:4"]
    by_events = ["u:1", "u:2", "a:a", "u:3", "a:b", "a:c", "u:4"]
    assert shown(session, preset="opencode-1.18") == by_events
    told = [
        (message.role[0], "".join(part.text for part in message.parts))
        for message in Transcript(session).oldest_first()
    ]
    assert list(map(":".join, told)) == by_events
    for version in range(1, session.version + 1):
        assert shown(session, at=version) == shown(engine.open().session("s"), at=version)


def test_the_reminder_follows_the_order_of_the_view(engine: Engine) -> None:
    """Messages behind the last step of a turn that goes on are wrapped, and none before it."""
    session = engine.open().create_session(id="s")
    session.user("first")
    view = ModelView.of(session)
    session.user("second")
    with session.assistant("a/b", view=view) as reply:
        reply.tool("look", call_id="c", input={}).succeed("out")
        reply.finish("tool-calls")
    texts = shown(session, options=RenderOptions(reminder=True))
    assert texts[0] == "u:first"
    assert texts[-1].startswith("u:<system-reminder>")
    assert "second" in texts[-1]
