"""The session handle: every command on every engine, and what it promises about order, durability, forks and identity."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from eventlog import events as ev
from eventlog.blobs import INLINE
from eventlog.codec import Recorded
from eventlog.errors import (
    AlreadyExistsError,
    CallError,
    ClosedError,
    LimitError,
    NotFoundError,
    RefusedError,
    RequestReusedError,
)
from eventlog.reply import MAX_DELTA
from eventlog.session import Session
from eventlog.store import Store, open_store
from eventlog.values import (
    Attachment,
    Body,
    File,
    Limits,
    MessageError,
    Model,
    Patch,
    Reasoning,
    Snapshot,
    Subtask,
    Text,
    Todo,
    Tokens,
    Tool,
    Truncation,
    Usage,
)
from tests.engines import Engine

ODD = "a\ud800b\U0010ffff\udc80"
USAGE = Usage(Tokens(10, 5))


def kinds(session: Session, after: int = 0) -> list[str]:
    """The kinds of the session's events."""
    return [type(recorded.event).__name__ for recorded in session.events(after)]


def last(session: Session) -> ev.Event:
    """The newest event."""
    return list(session.events(session.version - 1))[-1].event


def said(session: Session, at: int | None = None) -> dict[str, str]:
    """The streamed text by part in the effective history, deltas joined."""
    found: dict[str, str] = {}
    for span in session.history(at):
        for recorded in span.events():
            if isinstance(recorded.event, ev.PartDelta):
                found[recorded.event.part] = found.get(recorded.event.part, "") + recorded.event.text
    return found


def exchange(session: Session, text: str = "hello") -> None:
    """A question, and an answer of one streamed word."""
    session.user("question")
    with session.assistant("p/m") as reply:
        reply.say(text)
        reply.finish()


# -- every command ---------------------------------------------------------------------------------


def test_a_whole_turn_is_the_events_it_means(store: Store) -> None:
    """Spec §3: a turn of text, reasoning, a tool, a step and its usage is exactly these events, in the order of calls."""
    session = store.create_session(title="t", scope="s", directory="/d", agent="build", model="p/m")
    user = session.user("hi", agent="build", model="p/m", variant="high", system="be brief", tools="{}", format="{}")
    with session.assistant("p/m", agent="build", mode="plan", variant="high", cwd="/c", root="/r") as reply:
        step = reply.step(view_version=3, view_digest=b"d", render="{}", snapshot="s1")
        thought = reply.reasoning()
        thought.append("hm")
        thought.end('{"signature":"x"}')
        text = reply.text(metadata="{}")
        text.append("a")
        text.append("b")
        call = reply.tool("bash", call_id="c1")
        call.input('{"command"')
        call.input(':"ls"}')
        call.run({"command": "ls"}, title="List")
        call.output("a.py\n")
        call.progress("Listing", "{}")
        call.succeed("a.py\n", title="Listed", metadata="{}")
        patch = reply.part(Patch("s1", ("a.py",)))
        reply.finish("tool-calls", usage=USAGE, snapshot="s2")
    model = Model("p", "m")
    events = [recorded.event for recorded in session.events()]
    named = {
        recorded.event.part: recorded.version
        for recorded in session.events()
        if isinstance(recorded.event, ev.StepFinished)
    }
    (end,) = named
    first = events[2]
    assert isinstance(first, ev.PartStarted)
    assert events == [
        ev.SessionStarted("t", "s", "/d", "build", model),
        ev.UserMessageAdded(user, "build", model, "high", "be brief", "{}", "{}"),
        ev.PartStarted(user, first.part, Text("hi")),
        ev.AssistantMessageStarted(reply.id, user, "build", "plan", model, "high", "/c", "/r"),
        ev.StepStarted(reply.id, step, "turn", 3, b"d", "{}", "s1"),
        ev.PartStarted(reply.id, thought.id, Reasoning()),
        ev.PartDelta(thought.id, "text", "hm"),
        ev.PartEnded(thought.id, '{"signature":"x"}'),
        ev.PartStarted(reply.id, text.id, Text(metadata="{}")),
        ev.PartDelta(text.id, "text", "a"),
        ev.PartDelta(text.id, "text", "b"),
        ev.PartStarted(reply.id, call.id, Tool("c1", "bash")),
        ev.PartDelta(call.id, "input", '{"command"'),
        ev.PartDelta(call.id, "input", ':"ls"}'),
        ev.ToolRunning(call.id, '{"command":"ls"}', "List"),
        ev.PartDelta(call.id, "output", "a.py\n"),
        ev.ToolProgress(call.id, "Listing", "{}"),
        ev.ToolCompleted(call.id, "a.py\n", None, "Listed", "{}"),
        ev.PartStarted(reply.id, patch, Patch("s1", ("a.py",))),
        ev.PartEnded(text.id),
        ev.StepFinished(reply.id, end, "tool-calls", "s2"),
        ev.UsageRecorded(USAGE, reply.id, end, model),
        ev.MessageFinished(reply.id, "tool-calls"),
    ]


COMMANDS: list[tuple[str, Callable[[Session], object], ev.Event]] = [
    ("rename", lambda s: s.rename("new"), ev.SessionRenamed("new")),
    ("archive", lambda s: s.archive(), ev.SessionArchived()),
    ("unarchive", lambda s: s.unarchive(), ev.SessionUnarchived()),
    ("metadata", lambda s: s.set_metadata("k", "1"), ev.MetadataSet("k", "1")),
    ("interrupt", lambda s: s.interrupt("stop"), ev.InterruptRequested("stop")),
    ("custom", lambda s: s.record_custom("app", "{}"), ev.Custom("app", "{}")),
    (
        "usage",
        lambda s: s.record_usage(USAGE, purpose="title", failed=True),
        ev.UsageRecorded(USAGE, purpose="title", failed=True),
    ),
    (
        "settings",
        lambda s: s.set_settings(model="p/m", limits=Limits(10), policy="{}"),
        ev.SettingsSet(Model("p", "m"), Limits(10), "{}"),
    ),
    ("system prompt", lambda s: s.set_system_prompt("head", "rest"), ev.SystemPromptSet("head", "rest")),
    ("tools", lambda s: s.set_tools("[]"), ev.ToolsSet("[]")),
    ("todos", lambda s: s.set_todos([Todo("do")]), ev.TodosSet((Todo("do"),))),
]


@pytest.mark.parametrize(("command", "event"), [case[1:] for case in COMMANDS], ids=[case[0] for case in COMMANDS])
def test_a_command_is_one_durable_event(engine: Engine, command: Callable[[Session], object], event: ev.Event) -> None:
    """Promise 1: a command that returned is committed, as its event, and another handle reads it."""
    store = engine.open()
    session = store.create_session()
    command(session)
    other = engine.open().session(session.id)
    assert last(other) == event
    assert other.version == session.version == 2
    assert not session.holds_lease


def test_pins_are_set_and_taken_away(store: Store) -> None:
    """Spec §3: a fact or a part is pinned by an id, and unpinned once."""
    session = store.create_session()
    exchange(session)
    fact = session.pin("a fact")
    part = next(name for name, facts in session.state().parts.items() if facts.kind == "text")
    other = session.pin(part=part)
    assert [recorded.event for recorded in session.events(session.find(fact) - 1)] == [
        ev.Pinned(fact, "a fact"),
        ev.Pinned(other, None, part),
    ]
    session.unpin(fact)
    with pytest.raises(NotFoundError):
        session.unpin(fact)


def test_parts_and_messages_are_edited_and_removed(store: Store) -> None:
    """Spec §3: an ended part may be edited or removed, and a message removed, by events that keep what was there."""
    session = store.create_session()
    exchange(session)
    message = session.state().last_message
    (part,) = session.state().messages[message].parts
    before = session.version
    session.edit_part(part, "better")
    session.remove_part(part)
    session.remove_message(message)
    assert [recorded.event for recorded in session.events(before)] == [
        ev.PartEdited(part, "better"),
        ev.PartRemoved(part),
        ev.MessageRemoved(message),
    ]
    with pytest.raises(NotFoundError):
        session.edit_part(part, "again")


def test_prunes_are_restored(store: Store) -> None:
    """Promise 9: a pruned result is restored by an event; a prune of the pruned is refused."""
    session = store.create_session()
    with session.assistant() as reply:
        call = reply.tool("bash", call_id="c", input="{}")
        call.succeed("out")
        reply.finish()
    session.prune([call.id], policy="p", freed=7)
    assert last(session) == ev.Pruned((call.id,), "p", 7)
    with pytest.raises(RefusedError):
        session.prune([call.id])
    session.restore([call.id])
    assert last(session) == ev.Restored((call.id,))


def test_a_user_message_of_given_parts(store: Store) -> None:
    """Spec §3: a user message is complete at birth, with all its parts in one append."""
    session = store.create_session()
    message = session.user(
        [Text("a"), Subtask("look", agent="explore")],
        files=[File("image/png", "data:x")],
        synthetic=True,
        delivery="queue",
    )
    events = [recorded.event for recorded in session.events(1)]
    assert events[0] == ev.UserMessageAdded(message, synthetic=True, delivery="queue")
    started = [event for event in events if isinstance(event, ev.PartStarted)]
    assert [event.kind for event in started] == [
        Text("a"),
        Subtask("look", agent="explore"),
        File("image/png", "data:x"),
    ]
    assert [commit.count for commit in store.log.read(session.id)] == [1, 4]
    with pytest.raises(RefusedError):
        session.user([Tool("c", "bash")])
    assert session.version == 5


def test_an_answer_replies_to_the_last_user_message(store: Store) -> None:
    """Spec §3: an assistant message knows what it answers, past messages that a rollback hid."""
    session = store.create_session()
    first = session.user("one")
    to = session.version
    session.user("two")
    session.rollback(to)
    with session.assistant() as reply:
        reply.finish()
    started = next(
        recorded.event for recorded in session.events(to) if isinstance(recorded.event, ev.AssistantMessageStarted)
    )
    assert started.reply_to == first


def test_a_message_left_without_an_end_is_aborted(store: Store) -> None:
    """Spec §3: an answer left by its block is closed: aborted without an error, failed with the error's name."""
    session = store.create_session()
    with session.assistant() as reply:
        text = reply.text()
        text.append("half")
        call = reply.tool("bash", call_id="c", input="{}")
    assert [recorded.event for recorded in session.events(session.version - 3)] == [
        ev.PartEnded(text.id),
        ev.ToolFailed(call.id, "[Tool execution was interrupted]", interrupted=True),
        ev.MessageFinished(reply.id, None, MessageError("aborted")),
    ]
    with pytest.raises(KeyError), session.assistant() as reply:
        raise KeyError
    assert last(session) == ev.MessageFinished(reply.id, None, MessageError("unknown", "KeyError"))
    with pytest.raises(KeyboardInterrupt), session.assistant() as reply:
        raise KeyboardInterrupt
    assert last(session) == ev.MessageFinished(reply.id, None, MessageError("aborted", "KeyboardInterrupt"))
    assert session.state().open_messages() == ()
    assert not session.holds_lease


def test_a_call_without_a_result_keeps_the_message_open(store: Store) -> None:
    """Spec §3: a message cannot finish over a pending call; nothing of the refused append is written."""
    session = store.create_session()
    with session.assistant() as reply:
        text = reply.text()
        text.append("x")
        call = reply.tool("bash", call_id="c")
        with pytest.raises(RefusedError):
            reply.finish()
        assert text.is_open
        text.append("y")
        call.fail("no")
        reply.finish()
    assert said(session) == {text.id: "xy"}
    with pytest.raises(RefusedError):
        text.append("z")
    with pytest.raises(RefusedError):
        call.succeed("late")


def test_a_refused_command_writes_nothing(store: Store) -> None:
    """Spec §3: violations are refused before anything is written, and the handle goes on."""
    session = store.create_session()
    exchange(session)
    before = session.version
    part = session.state().messages[session.state().last_message].parts[0]
    for command in (
        lambda: session.append([(1, ev.SessionRenamed("half")), (1, ev.PartEnded(part))]),
        lambda: session.unpin("none"),
        lambda: session.restore([part]),
        lambda: session.rollback(99),
        session.rollback,
        lambda: session.user("x", id=session.state().last_message),
        lambda: session.set_metadata("k", 5),  # type: ignore[arg-type]  # the mistake it is about
        lambda: session.record_usage(Usage(Tokens(1 << 70))),
        lambda: session.append([]),
    ):
        with pytest.raises(CallError):
            command()
        assert session.version == before
        assert store.info(session.id).version == before
    session.rename("after")
    assert session.version == before + 1
    assert store.info(session.id).title == "after"


def test_what_needs_the_lease_is_refused_without_it(store: Store) -> None:
    """Promise 4: only the lease holder streams parts; what is left over from a finished block is refused."""
    session = store.create_session()
    with session.assistant() as reply:
        pass
    with pytest.raises(RefusedError):
        session.command([ev.AssistantMessageStarted("m")])
    with pytest.raises(CallError):
        reply.text()
    assert session.state().open_messages() == ()


# -- deltas ----------------------------------------------------------------------------------------


def test_accepted_deltas_are_visible_to_their_own_handle_at_once(engine: Engine) -> None:
    """Promise 2: accepted events are visible to their own handle, to others only when they are committed."""
    store, other = engine.open(flush_interval=60.0), engine.open()
    session = store.create_session()
    watcher = other.session(session.id)
    with session.assistant() as reply:
        text = reply.text()
        text.append("abc")
        assert watcher.version < session.version
        assert said(session) == {text.id: "abc"}
        assert said(watcher) == {text.id: "abc"}  # reading made them durable
        reply.finish()


def test_accepted_deltas_are_committed_within_the_interval(engine: Engine) -> None:
    """Promise 1: what was accepted is committed by itself, however slowly it comes."""
    store, other = engine.open(flush_interval=0.02), engine.open()
    session = store.create_session()
    with session.assistant() as reply:
        text = reply.text()
        for word in ("one", "two"):
            text.append(word)
            reached = other.log.last_position()
            assert other.log.wait_beyond(reached, 5.0) or said(other.session(session.id))
        deadline = 200
        while said(other.session(session.id)).get(text.id) != "onetwo" and deadline:
            other.log.wait_beyond(other.log.last_position(), 0.02)
            deadline -= 1
        assert said(other.session(session.id)) == {text.id: "onetwo"}
        reply.finish()


def test_no_delta_is_left_behind_by_a_flush_at_the_same_time(store: Store) -> None:
    """Promise 1: a delta that goes in while the buffer is emptied is flushed as well, with no later one to push it."""
    session = store.create_session()
    appender = session.appender
    store.flush_interval = 0.002
    with session.assistant() as reply:
        text = reply.text()
        session.flush()
        tick = store.clock

        def flushed_meanwhile() -> int:
            appender.flush()  # as the flusher would, between the check and the delta
            return tick()

        text._clock = flushed_meanwhile
        text.append("lost?")
        position = store.log.last_position()
        assert store.log.wait_beyond(position, 5.0) or said(session)
        assert appender.log.head(session.id).version == session.state().version  # type: ignore[union-attr]  # it is there
        assert not appender.buffer
        reply.finish()


def test_two_parts_stream_in_turn_without_losing_order(store: Store) -> None:
    """Promise 2: order is the order of calls, also over parts and between deltas and events."""
    session = store.create_session()
    with session.assistant() as reply:
        one, two = reply.text(), reply.reasoning()
        for number in range(50):
            one.append(f"a{number}")
            two.append(f"b{number}")
            if number == 25:
                reply.part(Snapshot("mid"))
        reply.finish()
    order = [
        recorded.event.text if isinstance(recorded.event, ev.PartDelta) else "|"
        for recorded in session.events(4)
        if isinstance(recorded.event, ev.PartDelta) or isinstance(getattr(recorded.event, "kind", None), Snapshot)
    ]
    expected = [text for number in range(50) for text in (f"a{number}", f"b{number}")]
    expected.insert(52, "|")
    assert order == expected


def test_a_full_buffer_commits_and_loses_nothing(engine: Engine) -> None:
    """Promise 1: a full buffer blocks the producer until it is committed; it never drops and never grows beyond its bound."""
    store = engine.open(flush_interval=60.0)
    session = store.create_session()
    session.appender.limit = 3 * 16
    with session.assistant() as reply:
        text = reply.text()
        for number in range(100):
            text.append(f"{number},")
            assert len(session.appender.buffer) <= 3 * 16
        assert store.log.head(session.id).version >= 80  # type: ignore[union-attr]  # it is there
        reply.finish()
    assert said(session) == {text.id: "".join(f"{number}," for number in range(100))}


def test_deltas_are_checked_when_they_are_made(store: Store) -> None:
    """Promise 12: what is no text is refused; an empty delta is nothing; a huge one is over a stated limit."""
    session = store.create_session()
    with session.assistant() as reply:
        text = reply.text()
        session.flush()
        before = session.version
        text.append("")
        with pytest.raises(TypeError):
            text.append(b"bytes")  # type: ignore[arg-type]  # the mistake it is about
        with pytest.raises(LimitError):
            text.append("x" * (MAX_DELTA + 1))
        assert session.version == before
        reply.finish()


def test_large_deltas_go_in_several_appends(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise 1: many large deltas between two flushes are all kept, in appends of bounded size."""
    monkeypatch.setattr("eventlog.appender.MAX_RUN", 1000)
    session = store.create_session()
    with session.assistant() as reply:
        text = reply.text()
        session.flush()
        before = len(list(store.log.read(session.id)))
        for number in range(40):
            text.append(str(number % 10) * 100)
        session.flush()
        assert len(list(store.log.read(session.id))) - before == 4
        reply.finish()
    assert said(session)[text.id] == "".join(str(number % 10) * 100 for number in range(40))


def test_deltas_of_a_part_that_was_ended_otherwise_are_reported(store: Store) -> None:
    """Spec §3: deltas for an ended part are never written; the next command says so, and what was allowed is kept."""
    session = store.create_session()
    with session.assistant() as reply:
        one, two = reply.text(), reply.text()
        one.append("a")
        session.append([(1, ev.PartEnded(one.id))])
        one.append("too late")
        two.append("b")
        with pytest.raises(RefusedError):
            session.flush()
        session.flush()
        reply.abort()
    assert said(session) == {one.id: "a", two.id: "b"}


def test_clock_and_ids_are_the_callers(engine: Engine) -> None:
    """Spec §16: clock and id source are injectable, and a clock set back changes times, not order."""
    ticks = iter([1000, 500, 2000, *range(3000, 4000)])
    counter = iter(range(1000))

    def numbered(prefix: str) -> str:
        return f"{prefix}{next(counter)}"

    store = engine.open(clock=lambda: next(ticks), new_id=numbered)
    session = store.create_session()
    assert session.id == "ses_0"
    session.rename("a")
    session.rename("b")
    assert [(recorded.version, recorded.time) for recorded in session.events()] == [(1, 1000), (2, 500), (3, 2000)]


# -- texts -----------------------------------------------------------------------------------------


def test_lone_surrogates_are_kept_everywhere(engine: Engine) -> None:
    """Spec §3: text with lone surrogates is kept exactly: titles, texts, deltas, bodies, results, ids of parts."""
    store = engine.open()
    session = store.create_session(title=ODD, scope=ODD)
    session.user(ODD)
    session.user(ODD * INLINE)
    with session.assistant() as reply:
        text = reply.text(id="part" + ODD)
        text.append(ODD)
        text.append("\udfff")
        call = reply.tool("bash", call_id=ODD, input=ODD)
        call.output(ODD)
        call.succeed(ODD * INLINE)
        reply.finish()
    store.close()
    with engine.open() as again:
        assert again.info(session.id).title == ODD
        assert again.info(session.id).scope == ODD
        events = [recorded.event for recorded in again.session(session.id).events()]
        texts = [
            again.text(event.kind.text)
            for event in events
            if isinstance(event, ev.PartStarted) and isinstance(event.kind, Text)
        ]
        assert texts == [ODD, ODD * INLINE, ""]
        assert said(again.session(session.id)) == {"part" + ODD: ODD + "\udfff", call.id: ODD}
        assert next(again.text(event.output) for event in events if isinstance(event, ev.ToolCompleted)) == ODD * INLINE


def test_a_large_body_is_stored_once(engine: Engine) -> None:
    """Promise 14: the same large text in several sessions and events is stored once, by its content."""
    store = engine.open()
    large = "content " * INLINE
    one, two = store.create_session(), store.create_session()
    one.set_tools(large)
    one.set_tools(large)
    two.set_system_prompt(large, large)
    two.user(large, files=[File("text/plain", large)], system=large)
    with two.assistant() as reply:
        call = reply.tool("bash", call_id="c", input=large)
        call.succeed(large, attachments=[Attachment("text/plain", large)], truncation=Truncation(large, 1, len(large)))
        reply.part(Subtask(large))
        reply.finish()
    assert len(list(store.log.bodies())) == 1
    completed = next(recorded.event for recorded in two.events() if isinstance(recorded.event, ev.ToolCompleted))
    assert isinstance(completed.output, Body)
    assert completed.truncation is not None
    assert {
        store.text(content)
        for content in (completed.output, completed.truncation.preview, completed.attachments[0].url)
    } == {large}


def test_a_short_text_stays_in_its_event(store: Store) -> None:
    """Promise 14: a text that a reference would not make shorter is kept where it is."""
    session = store.create_session()
    session.user("x" * INLINE)
    assert list(store.log.bodies()) == []


# -- identity --------------------------------------------------------------------------------------


def test_callers_bring_their_own_ids_and_find_things_by_them(engine: Engine) -> None:
    """Spec §3: ids are opaque, up to 256 bytes, and things are found by them, also after reopening."""
    store = engine.open()
    session = store.create_session(id="my session/ü")
    session.user("hi", id="my message")
    with session.assistant(id="é" * 128) as reply:
        reply.text(id="my part")
        reply.tool("bash", call_id="c", id="my call").fail()
        reply.finish()
    store.close()
    with engine.open() as again:
        found = again.session("my session/ü")
        events = {recorded.version: recorded.event for recorded in found.events()}
        assert getattr(events[found.find("my message")], "message", "") == "my message"
        assert getattr(events[found.find("é" * 128)], "message", "") == "é" * 128
        assert getattr(events[found.find("my part")], "part", "") == "my part"
        assert getattr(events[found.find("my call")], "part", "") == "my call"
        with pytest.raises(NotFoundError):
            found.find("nothing")
        with pytest.raises(NotFoundError):
            again.session("nothing")
        with pytest.raises(AlreadyExistsError):
            again.create_session(id="my session/ü")
        with pytest.raises(AlreadyExistsError):
            found.user("again", id="my message")
        with pytest.raises(LimitError):
            again.create_session(id="x" * 257)
        with pytest.raises(LimitError):
            found.user("x", id="é" * 129)


def test_one_session_has_one_handle_in_a_store(store: Store) -> None:
    """Spec §16: a session asked for twice is one handle, so that its threads share one order."""
    session = store.create_session()
    assert store.session(session.id) is session


def test_a_repeated_request_gives_the_first_result(engine: Engine) -> None:
    """Promise 5: same request id and content gives the original result, also over handles, pipelines and restarts."""
    store = engine.open()
    session = store.create_session()
    message = session.user("once", request_id="r")
    committed = session.append([(5, ev.SessionRenamed("t"))], request_id="raw")
    assert session.user("once", request_id="r") == message
    with session.pipeline():
        assert session.user("once", request_id="r") == message
        again = session.user("twice", request_id="r2")
        assert session.user("twice", request_id="r2") == again
    version = session.version
    other = engine.open()
    assert other.session(session.id).user("once", request_id="r") == message
    store.close()
    other.close()
    with engine.open() as reopened:
        found = reopened.session(session.id)
        assert found.user("once", request_id="r") == message
        repeated = found.append([(99, ev.SessionRenamed("t"))], request_id="raw")
        assert repeated.repeated
        assert (repeated.first, repeated.last) == (committed.first, committed.last)
        assert found.version == version
        with pytest.raises(RequestReusedError):
            found.user("other", request_id="r")
        with pytest.raises(RequestReusedError):
            found.append([(5, ev.SessionRenamed("u"))], request_id="raw")
        assert found.version == version


def test_a_repeated_request_is_looked_up_before_the_version(store: Store) -> None:
    """Promise 5: a retry whose expected version is long gone still gets its first result."""
    session = store.create_session()
    first = session.append([(1, ev.SessionRenamed("a"))], expected_version=1, request_id="r")
    session.rename("b")
    again = session.append([(1, ev.SessionRenamed("a"))], expected_version=1, request_id="r")
    assert (again.first, again.repeated) == (first.first, True)
    assert store.info(session.id).title == "b"


def test_eight_threads_with_one_request_write_once(store: Store) -> None:
    """Promise 5: the same request from many threads at once is one message."""
    session = store.create_session()
    found: list[str] = []
    run_together(8, lambda _: found.append(session.user("once", request_id="r")))
    assert len(found) == 8
    assert len(set(found)) == 1
    assert kinds(session) == ["SessionStarted", "UserMessageAdded", "PartStarted"]


def run_together(count: int, work: Callable[[int], object]) -> None:
    """Run `work(0) … work(count - 1)` in threads that start at once; raises the first error."""
    start = threading.Barrier(count)
    errors: list[BaseException] = []

    def run(number: int) -> None:
        start.wait()
        try:
            work(number)
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_eight_threads_on_one_handle_keep_every_word_in_order(store: Store) -> None:
    """Spec §16: a handle is safe across threads: streams, tools, user messages, reads and commands at once."""
    session = store.create_session()

    def work(number: int) -> None:
        for turn in range(4):
            session.user(f"{number} {turn}", id=f"u{number}.{turn}")
            with session.assistant(id=f"a{number}.{turn}") as reply:
                text = reply.text(id=f"t{number}.{turn}")
                for word in range(40):
                    text.append(f"{word} ")
                call = reply.tool("bash", call_id="c", input="{}", id=f"c{number}.{turn}")
                call.output("o")
                call.succeed("done")
                reply.finish()
            session.rename(f"{number}")
            assert sum(span.last - span.first + 1 for span in session.history()) <= session.version

    run_together(8, work)
    assert not session.holds_lease
    texts = said(session)
    assert all(
        texts[f"t{number}.{turn}"] == "".join(f"{word} " for word in range(40))
        for number in range(8)
        for turn in range(4)
    )
    versions = [recorded.version for recorded in session.events()]
    assert versions == list(range(1, session.version + 1))
    assert store.info(session.id).messages == 64
    reread = list(store.log.read(session.id))
    assert [commit.position for commit in reread] == sorted(commit.position for commit in reread)


def test_a_pipeline_waits_once_at_its_end(store: Store) -> None:
    """Promise 1: commands inside a pipeline return at once, in order, and are all durable when it ends."""
    session = store.create_session()
    with session.pipeline():
        for number in range(20):
            session.rename(str(number))
        with session.pipeline():
            session.user("inner")
    head = store.log.head(session.id)
    assert head is not None
    assert head.version == 23
    assert kinds(session)[1:21] == ["SessionRenamed"] * 20
    assert store.info(session.id).title == "19"


def test_a_pipelined_command_that_is_refused_leaves_the_others(store: Store) -> None:
    """Spec §3: a refusal inside a pipeline concerns that command only."""
    session = store.create_session()
    with session.pipeline():
        session.rename("a")
        with pytest.raises(NotFoundError):
            session.unpin("none")
        session.rename("b")
    assert kinds(session) == ["SessionStarted", "SessionRenamed", "SessionRenamed"]


# -- history ---------------------------------------------------------------------------------------


def test_rollback_and_redo_bring_back_what_was(store: Store) -> None:
    """Promise 9, spec §7: rollback hides, redo shows again, and every version keeps the view it had."""
    session = store.create_session()
    exchange(session, "one")
    middle = session.version
    exchange(session, "two")
    end = session.version
    full, half = said(session), said(session, middle)
    assert len(full) == 2
    result = session.rollback(middle)
    assert (result.version, result.to) == (end + 1, middle)
    assert said(session) == half
    assert said(session, end) == full
    session.redo()
    assert said(session) == full
    with pytest.raises(RefusedError):
        session.redo()
    session.rollback(middle)
    exchange(session, "three")
    assert list(said(session).values()) == ["one", "three"]
    assert said(session, end) == full


def test_rollback_before_a_message(store: Store) -> None:
    """Spec §7: "to before message X" is what was there right before it was added."""
    session = store.create_session()
    session.user("one", id="m1")
    session.user("two", id="m2")
    before = session.find("m2") - 1
    assert session.rollback(before="m2").to == before
    assert [recorded.event for span in session.history() for recorded in span.events()][1:3] == [
        recorded.event for recorded in session.events(1, 3)
    ]
    with pytest.raises(NotFoundError):
        session.rollback(before="m2")
    with pytest.raises(CallError):
        session.rollback(3, before="m1")


def test_rollback_into_an_open_message_settles_it(store: Store) -> None:
    """Spec §7: a target inside an open message is settled right after, in the same append: text stays, tools are failed."""
    session = store.create_session()
    session.user("q")
    with session.assistant() as reply:
        text = reply.text()
        for word in ("one ", "two ", "three"):
            text.append(word)
        call = reply.tool("bash", call_id="c", input="{}")
        inside = session.version
        call.succeed("out")
        reply.finish()
    running = session.rollback(inside)
    assert [recorded.event for recorded in session.events(running.version - 1)] == [
        ev.RolledBack(inside),
        ev.PartEnded(text.id),
        ev.ToolFailed(call.id, "[Tool execution was interrupted]", interrupted=True),
        ev.MessageFinished(reply.id, None, MessageError("aborted", "rolled back")),
    ]
    assert said(session) == {text.id: "one two three"}
    deltas = session.find(text.id) + 2
    session.rollback(deltas)
    assert said(session) == {text.id: "one two "}
    assert session.state().open_messages() == ()


def test_rollback_inside_a_user_message_keeps_the_parts_up_to_there(store: Store) -> None:
    """Spec §7: whatever the version was, the history is what it was right after it."""
    session = store.create_session()
    session.user([Text("a"), Text("b"), Text("c")])
    session.rollback(3)
    texts = [
        recorded.event.kind.text
        for span in session.history()
        for recorded in span.events()
        if isinstance(recorded.event, ev.PartStarted) and isinstance(recorded.event.kind, Text)
    ]
    assert texts == ["a"]


def test_rollback_is_refused_inside_an_open_message(store: Store) -> None:
    """Spec §7: what is being streamed is finished or aborted first; nothing is written."""
    session = store.create_session()
    with session.assistant() as reply:
        reply.text().append("x")
        before = session.version
        with pytest.raises(RefusedError):
            session.rollback(1)
        assert session.version == before
        reply.abort()


def test_rollback_names_the_file_states_after_it(store: Store) -> None:
    """Spec §7: the result names the snapshots and patches after the target, hidden ones left out."""
    session = store.create_session()
    base = session.version
    with session.assistant() as reply:
        reply.step(snapshot="s1")
        reply.part(Patch("s1", ("a.py",)))
        reply.end_step(snapshot="s2")
        reply.finish()
    result = session.rollback(base)
    assert (result.snapshots, result.patches) == (("s1", "s2"), (Patch("s1", ("a.py",)),))
    assert session.rollback(base).snapshots == ()


def test_what_a_rollback_does_not_undo_stays(store: Store) -> None:
    """Spec §3, last column: titles, usage and redactions are as they are; settings and pins are as they were."""
    session = store.create_session()
    exchange(session)
    to = session.version
    session.rename("new")
    session.record_usage(USAGE)
    session.set_todos([Todo("x")])
    pin = session.pin("fact")
    session.rollback(to)
    effective = [type(recorded.event) for span in session.history() for recorded in span.events()]
    assert ev.SessionRenamed in effective
    assert ev.UsageRecorded in effective
    assert ev.TodosSet not in effective
    with pytest.raises(NotFoundError):
        session.unpin(pin)
    assert store.info(session.id).title == "new"


# -- forks -----------------------------------------------------------------------------------------


def test_a_fork_continues_its_parent_and_neither_changes_the_other(engine: Engine) -> None:
    """Promise 13: later events of the parent, rollbacks included, never change a fork, nor a fork its parent."""
    store = engine.open()
    parent = store.create_session(title="t", scope="s")
    exchange(parent, "one")
    at = parent.version
    exchange(parent, "two")
    fork = parent.fork(at)
    assert (fork.version, store.info(fork.id).title, store.info(fork.id).scope) == (at + 1, "t", "s")
    assert list(said(fork).values()) == ["one"]
    exchange(fork, "other")
    parent.rollback(2)
    exchange(parent, "three")
    assert list(said(fork).values()) == ["one", "other"]
    assert list(said(parent).values()) == ["three"]
    version = fork.version
    store.close()
    with engine.open() as again:
        assert list(said(again.session(fork.id)).values()) == ["one", "other"]
        info = again.info(fork.id)
        assert (info.fork_of, info.forked_at, info.events) == (parent.id, at, version - at)


def test_a_fork_stores_one_event(store: Store) -> None:
    """Promise 13: a fork costs one event, whatever the length of what it inherits."""
    parent = store.create_session()
    for _ in range(5):
        exchange(parent)
    fork = parent.fork()
    commits = list(store.log.read(fork.id))
    assert [(commit.first, commit.count) for commit in commits] == [(parent.version + 1, 1)]
    assert len(commits[0].payload) < 300


def test_a_fork_inside_a_stream_is_settled_by_its_own_lease(store: Store) -> None:
    """Spec §7, §9: a fork at a version inside a run of deltas has the text up to there, and closes it when it is run."""
    session = store.create_session()
    with session.assistant() as reply:
        text = reply.text()
        for word in ("one ", "two ", "three "):
            text.append(word)
        session.flush()
        fork = session.fork(session.find(text.id) + 2)
        assert said(fork) == {text.id: "one two "}
        exchange(fork, "next")
        assert list(said(fork).values()) == ["one two ", "next"]
        text.append("four")
        reply.finish()
    assert said(session) == {text.id: "one two three four"}
    closed = [recorded.event for recorded in fork.events(fork.find(text.id) + 3)]
    assert closed[2:4] == [
        ev.PartEnded(text.id),
        ev.MessageFinished(reply.id, None, MessageError("aborted", "interrupted")),
    ]


def test_a_fork_of_a_fork_at_an_inherited_version(engine: Engine) -> None:
    """Spec §7: versions resolve through the lineage, wherever in the family they lie, also after reopening."""
    store = engine.open()
    root = store.create_session(id="root")
    exchange(root, "one")
    early = root.version
    exchange(root, "two")
    middle = root.fork(id="middle")
    exchange(middle, "three")
    leaf = middle.fork(early, id="leaf")
    exchange(leaf, "four")
    deep = leaf.fork(id="deep")
    deep.rollback(early)
    root.rollback(2)
    for opened in (store, engine.open()):
        assert list(said(opened.session("leaf")).values()) == ["one", "four"]
        assert list(said(opened.session("middle")).values()) == ["one", "two", "three"]
        assert list(said(opened.session("deep")).values()) == ["one"]
        assert [piece.stream for piece in opened.session("leaf").lineage()] == ["root", "leaf"]
        assert {piece.stream for piece in opened.session("deep").lineage()} == {"root", "deep"}
        versions = [recorded.version for recorded in opened.session("deep").events()]
        assert versions == list(range(1, opened.session("deep").version + 1))


def test_a_fork_rolls_back_into_what_it_inherited_and_redoes_it(store: Store) -> None:
    """Spec §7: a rollback into inherited history is as any other, and the parent does not see it."""
    root = store.create_session()
    exchange(root, "one")
    early = root.version
    exchange(root, "two")
    fork = root.fork()
    exchange(fork, "three")
    full = said(fork)
    fork.rollback(early)
    assert list(said(fork).values()) == ["one"]
    fork.redo()
    assert said(fork) == full
    assert list(said(root).values()) == ["one", "two"]


def test_ids_of_inherited_things_are_taken(store: Store) -> None:
    """Spec §3: a fork knows what it inherited: its ids are taken there, free again in neither, and can be found."""
    root = store.create_session()
    root.user("hi", id="m1")
    at = root.version
    root.user("later", id="m2")
    fork = root.fork(at)
    with pytest.raises(AlreadyExistsError):
        fork.user("again", id="m1")
    fork.user("mine", id="m2")
    assert fork.find("m1") == root.find("m1")


def test_a_fork_beyond_the_history_is_refused(store: Store) -> None:
    """Promise 12: a version that is not there is not found; no session is begun."""
    session = store.create_session()
    for at in (0, 2, -1):
        with pytest.raises(NotFoundError):
            session.fork(at)
    assert len(list(store.sessions())) == 1


def test_sub_sessions_know_their_parent(store: Store) -> None:
    """Spec §3: a sub-agent's session is a session of its own that names its parent and shares its scope."""
    session = store.create_session(scope="alice")
    child = session.subsession(title="look", agent="explore", directory="/d")
    info = store.info(child.id)
    assert (info.parent, info.scope, info.title, info.agent, info.directory) == (
        session.id,
        "alice",
        "look",
        "explore",
        "/d",
    )
    assert child.version == 1


# -- the store -------------------------------------------------------------------------------------


def test_sessions_are_listed_without_reading_them(store: Store) -> None:
    """Spec §15: the list has title, scope, times, version and counts of each session, by id, from a cursor."""
    for name in ("b", "a", "c"):
        store.create_session(id=name, title=name.upper(), time=1000)
    store.session("a").user("hi")
    store.session("b").archive()
    assert [info.id for info in store.sessions()] == ["a", "b", "c"]
    assert [info.id for info in store.sessions(after="a")] == ["b", "c"]
    first, second, _ = store.sessions()
    assert (first.title, first.version, first.events, first.messages, first.created) == ("A", 3, 3, 1, 1000)
    assert first.updated > 1000
    assert second.archived
    store.session("b").unarchive()
    assert not store.info("b").archived


def test_everything_accepted_is_there_after_closing_and_reopening(engine: Engine) -> None:
    """Promise 1: closing the store makes everything durable, and gives leases back."""
    store = engine.open(flush_interval=60.0)
    session = store.create_session()
    session.acquire()
    reply = session.assistant()
    reply.begin()
    text = reply.text()
    text.append("kept")
    store.close()
    store.close()
    with pytest.raises(ClosedError):
        text.append("more")
    for command in (lambda: session.rename("x"), store.create_session, lambda: list(store.sessions())):
        with pytest.raises(ClosedError):
            command()
    with engine.open() as again:
        found = again.session(session.id)
        assert said(found) == {text.id: "kept"}
        with found.lease():
            assert found.state().open_messages() == ()


def test_a_forgotten_store_commits_what_it_accepted(engine: Engine) -> None:
    """Promise 1: a store that its owner let go of still commits what it accepted, within the interval."""
    watcher = engine.open()
    session = watcher.create_session()
    name = stream_and_forget(engine, session.id)
    for _ in range(200):
        if said(session).get(name) == "kept":
            return
        watcher.log.wait_beyond(watcher.log.last_position(), 0.02)
    pytest.fail("the deltas of a forgotten store were lost")


def stream_and_forget(engine: Engine, session: str) -> str:
    """Accept a delta in a store of its own, and keep nothing of it."""
    store = engine.open(flush_interval=0.1)
    engine._stores.remove(store)
    handle = store.session(session)
    handle.acquire()
    reply = handle.assistant()
    reply.begin()
    text = reply.text()
    text.append("kept")
    return text.id


def test_a_read_only_store_reads_and_refuses_to_write(engine: Engine) -> None:
    """Spec §16: a store opened for reading shows everything and writes nothing."""
    if engine.name == "memory":
        pytest.skip("a memory store has nothing to open for reading")
    with engine.open() as store:
        session = store.create_session(title="t")
        exchange(session)
        expected = said(session)
    with open_store(engine.path, read_only=True) as reader:
        found = reader.session(session.id)
        assert said(found) == expected
        for command in (
            lambda: found.rename("x"),
            found.acquire,
            found.fork,
            reader.create_session,
            lambda: found.append([(1, ev.SessionRenamed("x"))]),
        ):
            with pytest.raises(CallError):
                command()


def test_reading_a_range_gives_exactly_those_versions(store: Store) -> None:
    """Spec §1: events and spans of any range, inherited ones included, are exactly the versions asked for."""
    root = store.create_session()
    exchange(root, "one")
    fork = root.fork()
    exchange(fork, "two")
    every: list[Recorded] = list(fork.events())
    assert [recorded.version for recorded in every] == list(range(1, fork.version + 1))
    for after in range(fork.version + 2):
        for upto in (None, 0, after, after + 1, fork.version, fork.version + 5):
            top = fork.version if upto is None else upto
            assert list(fork.events(after, upto)) == [recorded for recorded in every if after < recorded.version <= top]
