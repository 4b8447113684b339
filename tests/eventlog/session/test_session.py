"""The session handle: every command appends its events, and a refusal writes nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from eventlog import events as ev
from eventlog.errors import CallError, NotFoundError, RefusedError
from eventlog.session.session import Session
from eventlog.store import Store
from eventlog.values import (
    File,
    Limits,
    MessageError,
    Model,
    Patch,
    Reasoning,
    Subtask,
    Text,
    Todo,
    Tokens,
    Tool,
    Usage,
)
from tests.support.engines import Engine
from tests.support.sample_sessions import USAGE, exchange, last


def test_a_whole_turn_is_the_events_it_means(store: Store) -> None:
    """A turn of text, reasoning, tool, step and usage is exactly these events, in order."""
    session = store.create_session(title="t", scope="s", directory="/d", agent="build", model="p/m")
    user = session.user("hi", agent="build", model="p/m", variant="high", system="be brief", tools="{}", format="{}")
    with session.assistant("p/m", agent="build", mode="plan", variant="high", cwd="/c", root="/r") as reply:
        step = reply.step(view_version=3, view_digest=b"d", render="{}", snapshot="s1")
        thought = reply.stream_reasoning()
        thought.append("hm")
        thought.end('{"signature":"x"}')
        text = reply.stream_text(metadata="{}")
        text.append("a")
        text.append("b")
        call = reply.tool("bash", call_id="c1")
        call.stream_input('{"command"')
        call.stream_input(':"ls"}')
        call.start({"command": "ls"}, title="List")
        call.stream_output("a.py\n")
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
        ev.AssistantMessageStarted(reply.id, user, "build", "plan", model, "high", "/c", "/r", seen=3),
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
    ("metadata as a dict", lambda s: s.set_metadata("k", {"a": "ä"}), ev.MetadataSet("k", '{"a":"ä"}')),
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


@pytest.mark.promise(1)
@pytest.mark.parametrize(("command", "event"), [case[1:] for case in COMMANDS], ids=[case[0] for case in COMMANDS])
def test_a_command_is_one_durable_event(engine: Engine, command: Callable[[Session], object], event: ev.Event) -> None:
    """Promise 1: a command that returned is committed, and another handle reads its event."""
    store = engine.open()
    session = store.create_session()
    command(session)
    other = engine.open().session(session.id)
    assert last(other) == event
    assert other.version == session.version == 2
    assert not session.executor.holds_lease


def test_pins_are_set_and_taken_away(store: Store) -> None:
    """A fact or a part is pinned by an id, and unpinned once."""
    session = store.create_session()
    exchange(session)
    fact = session.pin("a fact")
    part = next(name for name, facts in session.reader.state().parts.items() if facts.kind == "text")
    other = session.pin(part=part)
    assert [recorded.event for recorded in session.events(session.reader.find(fact) - 1)] == [
        ev.Pinned(fact, "a fact"),
        ev.Pinned(other, None, part),
    ]
    session.unpin(fact)
    with pytest.raises(NotFoundError):
        session.unpin(fact)


@pytest.mark.promise(6)
def test_parts_and_messages_are_edited_and_removed(store: Store) -> None:
    """Ended parts can be edited or removed, messages removed, by events with the old content."""
    session = store.create_session()
    exchange(session)
    message = session.reader.state().last_message
    (part,) = session.reader.state().messages[message].parts
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


@pytest.mark.promise(6, 9)
def test_prunes_are_restored(store: Store) -> None:
    """Promise 9: a pruned result is restored by an event; pruning it twice is refused."""
    session = store.create_session()
    with session.assistant() as reply:
        call = reply.tool("bash", call_id="c", input="{}")
        call.succeed("out")
        reply.finish()
    session.context.prune([call.id], policy="p", freed=7)
    assert last(session) == ev.Pruned((call.id,), "p", 7)
    with pytest.raises(RefusedError):
        session.context.prune([call.id])
    session.context.unprune([call.id])
    assert last(session) == ev.Restored((call.id,))


def test_a_user_message_of_given_parts(store: Store) -> None:
    """A user message is complete when added, with all its parts in one append."""
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


def test_a_message_left_without_an_end_is_aborted(store: Store) -> None:
    """A message left open by its block is aborted, failed, or closed as after a crash."""
    session = store.create_session()
    with session.assistant() as reply:
        text = reply.stream_text()
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
    for stop in (KeyboardInterrupt, SystemExit, GeneratorExit, ConnectionResetError):
        with pytest.raises(stop), session.assistant() as reply:
            raise stop
        assert last(session) == ev.MessageFinished(reply.id, None, MessageError("aborted", "interrupted"))
    assert session.reader.state().open_messages() == ()
    assert not session.executor.holds_lease


def test_a_refused_command_writes_nothing(store: Store) -> None:
    """A refused command writes nothing, and the handle goes on."""
    session = store.create_session()
    exchange(session)
    before = session.version
    (part, *_) = session.reader.state().messages[session.reader.state().last_message].parts
    for command in (
        lambda: session.append([(1, ev.SessionRenamed("half")), (1, ev.PartEnded(part))]),
        lambda: session.unpin("none"),
        lambda: session.context.unprune([part]),
        lambda: session.rollback(99),
        session.rollback,
        lambda: session.user("x", id=session.reader.state().last_message),
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


@pytest.mark.promise(4)
def test_what_needs_the_lease_is_refused_without_it(store: Store) -> None:
    """Promise 4: only the lease holder streams parts; a finished block's parts are refused."""
    session = store.create_session()
    with session.assistant() as reply:
        pass
    with pytest.raises(RefusedError):
        session.executor.command([ev.AssistantMessageStarted("m")])
    with pytest.raises(CallError):
        reply.stream_text()
    assert session.reader.state().open_messages() == ()


def test_a_compaction_by_single_calls_needs_the_lease_around_it(store: Store) -> None:
    """Starting or completing one outside its lease is refused; the error says what to do."""
    session = store.create_session()
    exchange(session)
    part = session.context.request_compaction()
    before = session.version
    with pytest.raises(RefusedError, match=r"`with session\.lease\(\):`"):
        session.context.start_compaction(part)
    assert session.version == before
    for inside in (False, True):
        with session.lease():
            session.context.start_compaction(part)
            with session.assistant(summary=True) as reply:
                reply.add_text("what was done")
                reply.finish()
            if inside:
                session.context.complete_compaction(part, reply.id)
        before = session.version
        if not inside:
            with pytest.raises(RefusedError, match=r"`with session\.lease\(\):`"):
                session.context.complete_compaction(part, reply.id)
            assert session.version == before
            part = session.context.request_compaction()
    assert session.reader.state().compaction_in_force() is not None


def test_a_compaction_is_failed_for_the_reason_that_the_caller_gives(store: Store) -> None:
    """A single call fails a requested compaction; a running one needs its lease."""
    session = store.create_session()
    exchange(session)
    requested = session.context.request_compaction()
    session.context.fail_compaction(requested, "not now")
    assert last(session) == ev.CompactionFailed(requested, "not now")
    started = session.context.request_compaction()
    with session.lease():
        session.context.start_compaction(started)
    before = session.version
    with pytest.raises(RefusedError, match=r"`with session\.lease\(\):`"):
        session.context.fail_compaction(started, "too long")
    assert session.version == before
    assert session.reader.state().running_compaction() == started
    with session.lease():  # which settles what was left running
        other = session.context.request_compaction()
        session.context.start_compaction(other)
        session.context.fail_compaction(other, "too long")
        assert last(session) == ev.CompactionFailed(other, "too long")


def test_a_custom_fact_has_a_version(store: Store) -> None:
    """`record_custom` returns the version of its own event, 0 inside a pipeline."""
    session = store.create_session()
    session.user("before")
    version = session.record_custom("app", "{}")
    session.user("behind")
    (event,) = session.events(version - 1, version)
    assert event.event == ev.Custom("app", "{}")
    with session.pipeline():
        assert session.record_custom("app", "{}") == 0
