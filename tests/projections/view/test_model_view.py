"""The model-visible view (promises 7, 9 and 10)."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import eventlog
from eventlog import events as ev
from eventlog.errors import CallError, NotFoundError, UnknownEventError
from eventlog.state.evolve import evolve
from eventlog.state.settling import closing
from eventlog.state.state import State
from eventlog.values import (
    Attachment,
    Body,
    File,
    MessageError,
    Model,
    PartKind,
    Reasoning,
    Subtask,
    Text,
    Tokens,
    Tool,
    Truncation,
    Usage,
)
from projections.conversation import apply
from projections.conversation.parts import NotePart, StepPart
from projections.conversation.state import Conversation
from projections.replay.checkpoints import Checkpoints
from projections.replay.loop import Follower, replay
from projections.replay.projection import apply_each
from projections.requests.forms import RequestForm
from projections.requests.openai import chat_messages
from projections.transcript.transcript import TranscriptProjection
from projections.view import neutral
from projections.view.assembly import Assembly
from projections.view.explain import SHOWING, reason_in
from projections.view.messages import Messages
from projections.view.model_view import LiveView, ModelView, common_prefix
from projections.view.neutral import Call, NeutralMessage, Result
from projections.view.options import DEFAULT, OPENCODE_1_18, Constraints, RenderOptions, preset
from projections.view.targets import ModelViewProjection
from tests.support.history_strategies import histories
from tests.support.sample_sessions import derived_reads
from tests.support.spans import Recording, Timed

pytestmark = pytest.mark.promise(7)

PROJECTION = ModelViewProjection()
QUICK = settings(max_examples=60, deadline=None)
ONE = Model("p", "one")
PICTURE = "data:image/png;base64,AAAA"
ALTERNATING = RenderOptions(constraints=Constraints(alternate=True, drop_empty=True, after_tool="Done."))
RISING = [DEFAULT, OPENCODE_1_18, RenderOptions(reminder=True), RenderOptions(max_steps="stop"), ALTERNATING]


def view_of(recording: Recording, options: RenderOptions = DEFAULT, at: int | None = None) -> Messages:
    """The messages of a recording's view."""
    state, _ = replay(PROJECTION, recording, at)
    return Assembly(state, options, recording.text).view()


def said(*events: ev.Event, options: RenderOptions = DEFAULT) -> list[dict[str, Any]]:
    """Return the request after these events, in the form of OpenAI Chat."""
    items = [(1_000 + number, event) for number, event in enumerate([ev.SessionStarted(), *events])]
    return chat_messages(view_of(Recording(items), options))


def asked(message: str, *texts: str) -> list[ev.Event]:
    """A user message of some texts."""
    parts = [ev.PartStarted(message, f"{message}.{number}", Text(text)) for number, text in enumerate(texts)]
    return [ev.UserMessageAdded(message), *parts]


def answered(message: str, text: str, *, reason: str = "stop") -> list[ev.Event]:
    """A finished assistant message of one text."""
    part = f"{message}.t"
    return [
        ev.AssistantMessageStarted(message, model=ONE),
        ev.StepStarted(message, f"{message}.s"),
        ev.PartStarted(message, part, Text()),
        ev.PartDelta(part, "text", text),
        ev.PartEnded(part),
        ev.MessageFinished(message, reason),
    ]


def called(part: str, *, message: str = "a", call: str = "c1", executed: bool = False) -> list[ev.Event]:
    """A running tool call in an open message."""
    return [ev.PartStarted(message, part, Tool(call, "bash", executed)), ev.ToolRunning(part, '{"x":1}')]


@QUICK
@given(histories())
def test_runs_of_deltas_fold_like_single_deltas(items: list[Timed]) -> None:
    """`apply_run` equals applying the deltas one by one, as encoded bytes."""
    whole, single = (replay(PROJECTION, Recording(items, runs=runs)).state.encode() for runs in (True, False))
    assert whole == single


@pytest.mark.promise(14)
def test_few_checkpoints_are_kept(store: eventlog.Store) -> None:
    """Promise 14: checkpoints do not grow in number with the history, and old ones stay."""
    checkpoints = Checkpoints(store.log)
    reader = store.create_session().reader
    state = Conversation(whole=False)
    for version in range(1, 400):
        checkpoints.save(PROJECTION, reader, version, state, ())
    versions = checkpoints.versions(PROJECTION, reader)
    assert len(versions) == 128
    assert versions[-1] == 399
    assert versions[0] < 50


def test_unknown_events_are_errors() -> None:
    """An unknown event kind raises an error and is never skipped."""

    class Strange(ev.Base, frozen=True, array_like=True, tag="zz"):
        """An event kind of a newer program."""

    with pytest.raises(UnknownEventError):
        apply.apply(Conversation(whole=True), Strange(), 1, 1)  # type: ignore[arg-type]  # that it is none is the point


@QUICK
@given(histories(max_size=50), st.sampled_from(RISING), st.integers(1, 4))
def test_live_view_equals_a_fresh_one(items: list[Timed], options: RenderOptions, stride: int) -> None:
    """The view kept up to date event by event is the one rendered from the start."""
    recording = Recording(items[:1])
    follower = Follower(PROJECTION, recording)
    assembly = Assembly(follower.state, options, recording.text)
    earlier: list[tuple[Messages, list[NeutralMessage]]] = []
    for start in range(1, len(items), stride):
        recording.add(items[start : start + stride])
        follower.advance()
        if follower.renewed:
            follower.renewed = False
            assembly.replace_state(follower.state)
        now = assembly.view()
        assert list(now) == list(view_of(recording, options))
        neighbours = set(pairwise(message.role for message in now))
        assert options is not ALTERNATING or not {("user", "user"), ("tool", "user")} & neighbours
        earlier.append((now, list(now)))
    assert all(list(view) == copy for view, copy in earlier), "a view that was handed out changed"


ORDINARY = ("prune", "media", "edit", "remove", "redact", "compact", "undo", "rollback", "setting")


@QUICK
@given(histories(without=ORDINARY, max_size=50), st.sampled_from([DEFAULT, OPENCODE_1_18]))
def test_appending_leaves_what_was_before(items: list[Timed], options: RenderOptions) -> None:
    """Ordinary events change nothing before the message they belong to."""
    recording = Recording(items[:1])
    follower = Follower(PROJECTION, recording)
    assembly = Assembly(follower.state, options, recording.text)
    before = list(assembly.view())
    for item in items[1:]:
        growing = {message.id for message in follower.state.messages.values() if message.finished is None}
        recording.add([item])
        follower.advance()
        after = list(assembly.view())
        order = {message: place for place, message in enumerate(follower.state.messages)}
        newest = next(reversed(follower.state.messages), "")
        changing = growing - {message.id for message in follower.state.messages.values() if message.user} | {newest}
        part = getattr(item[1], "part", "")  # such as a call that a person answers behind a later question
        changing |= {follower.state.where[part][0].id} if part in follower.state.where else set()
        replies = [
            found for name, found in follower.state.messages.items() if name in {*growing, newest} and not found.user
        ]
        for reply in replies:  # its words stand before the questions that it has not seen
            changing |= {name for name, asked in follower.state.messages.items() if not reply.has_seen(asked.place)}
        first = min(order.get(message, len(order)) for message in changing)  # it may have shown nothing so far
        count = next(
            (place for place, message in enumerate(before) if order.get(message.source, 0) >= first), len(before)
        )
        assert after[:count] == before[:count]
        before = after


def test_a_delta_renders_its_own_part_only() -> None:
    """In an open message with many finished calls one more delta renders only its own part."""
    counts: list[list[int]] = []
    for calls in (2, 60):
        begun: list[ev.Event] = [*asked("u", "q"), ev.AssistantMessageStarted("a", model=ONE), ev.StepStarted("a", "s")]
        for number in range(calls):
            begun += [*called(f"p{number}", call=f"c{number}"), ev.ToolCompleted(f"p{number}", f"out {number}")]
        begun.append(ev.PartStarted("a", "t", Text()))
        recording = Recording([(1, ev.SessionStarted()), *((2, event) for event in begun)])
        follower = Follower(PROJECTION, recording)
        resolved: list[str | Body] = []

        def resolve(content: str | Body, seen: list[str | Body] = resolved, own: Recording = recording) -> str:
            seen.append(content)
            return own.text(content)

        assembly = Assembly(follower.state, DEFAULT, resolve)
        found: list[int] = []
        later: list[ev.Event] = [
            ev.PartDelta("t", "text", "one"),
            ev.PartDelta("t", "text", " two"),
            ev.PartEnded("t"),
            *called("last", call="last"),
            ev.ToolCompleted("last", "out"),
            ev.Pruned(("p0",)),
            ev.PartStarted("a", "r", Reasoning("hm")),
        ]
        assembly.view()
        for event in later:
            recording.add([(3, event)])
            follower.advance()
            resolved.clear()
            now = assembly.view()
            found.append(len(resolved))
            assert list(now) == list(view_of(recording))
        counts.append(found)
    assert counts[0] == counts[1]
    assert max(counts[0]) <= 2


SIGNED: list[Timed] = [
    (1, ev.SessionStarted()),
    (2, ev.UserMessageAdded("u")),
    (3, ev.AssistantMessageStarted("a", "u")),
    (4, ev.PartStarted("a", "p", Reasoning())),
    (5, ev.PartEnded("p", '{"p":{"s":1}}')),
]
"""Reasoning that is not told, but signed."""


@QUICK
@given(histories(max_size=60))
@example(items=SIGNED)
def test_default_view_has_no_empty_messages(items: list[Timed]) -> None:
    """The default preset sends no message without parts and no empty text."""
    for message in view_of(Recording(items)):
        assert message.parts
        for part in message.parts:
            assert getattr(part, "text", "x") or (isinstance(part, neutral.Reasoning) and part.metadata)


REDACTED_CALL: list[Timed] = [
    (1, ev.SessionStarted()),
    (2, ev.UserMessageAdded("u")),
    (3, ev.AssistantMessageStarted("a", "u")),
    (4, ev.PartStarted("a", "p", Tool("c", "bash"))),
    (5, ev.PartRedacted("p")),
]
"""A call that was redacted before it had a result."""


@QUICK
@given(histories(max_size=50, without=("rollback",)))
@example(items=REDACTED_CALL)
def test_settling_what_was_left_open_changes_nothing(items: list[Timed]) -> None:
    """In the default preset the view before and after settling is equal."""
    recording = Recording(items)
    before = list(view_of(recording))
    state = State()
    for _, event in items:
        evolve(state, event)
    recording.add([(9_999, event) for event in closing(state, "interrupted")])
    assert list(view_of(recording)) == before


def compacted(name: str, text: str, *, tail: str | None = None, through: str | None = None) -> list[ev.Event]:
    """A completed compaction."""
    marker, summary = f"{name}.m", f"{name}.s"
    return [
        ev.UserMessageAdded(marker),
        ev.CompactionRequested(marker, f"{name}.c", auto=True),
        ev.CompactionStarted(f"{name}.c", through, tail),
        ev.AssistantMessageStarted(summary, marker, model=ONE, summary=True),
        ev.PartStarted(summary, f"{name}.t", Text(text)),
        ev.PartEnded(f"{name}.t"),
        ev.MessageFinished(summary, "stop"),
        ev.CompactionCompleted(f"{name}.c", summary),
    ]


def texts(messages: list[dict[str, Any]]) -> list[object]:
    """The contents alone."""
    return [message["content"] for message in messages]


def test_a_compaction_stands_for_what_it_covers() -> None:
    """Marker and summary come first, then messages that are not covered, in order."""
    start = [*asked("u1", "one"), *answered("a1", "two"), *asked("u2", "three"), *answered("a2", "four")]
    question = "What did we do so far?"
    kept = [*start, *compacted("k", "sum", tail="u2", through="a1"), *asked("u3", "five")]
    assert texts(said(*kept)) == [question, "sum", "three", "four", "five"]
    assert texts(said(*start, *compacted("k", "sum", tail="nobody", through="nobody"))) == [question, "sum"]
    twice = [*kept, *compacted("l", "sum 2", tail="u2", through="a1")]
    assert texts(said(*twice)) == [question, "sum 2", "three", "four", "five"]
    assert texts(said(*twice, options=OPENCODE_1_18)) == [question, "sum 2", "three", "four", question, "sum", "five"]


@pytest.mark.promise(9)
def test_restoring_a_pruned_result_gives_the_view_back() -> None:
    """Promise 9: a prune shows the marker without files; a restore shows all again."""
    done = ev.ToolCompleted("p", "out", None, "", None, (Attachment("image/png", PICTURE),))
    start = [*asked("u", "q"), ev.AssistantMessageStarted("a"), *called("p"), done, ev.MessageFinished("a", "stop")]
    before = said(*start)
    pruned = said(*start, ev.Pruned(("p",)))
    assert pruned[-1] == {"role": "tool", "tool_call_id": "c1", "content": "[Old tool result content cleared]"}
    assert said(*start, ev.Pruned(("p",)), ev.Restored(("p",))) == before


def test_user_parts() -> None:
    """Ignored and empty texts are not sent, synthetic ones are."""
    parts: Sequence[PartKind] = [
        Text("hello"),
        Text(""),
        Text("for people", ignored=True),
        Text("by the program", synthetic=True),
        File("text/plain", "file:///a.txt"),
        File("application/x-directory", "file:///d"),
        File("image/png", PICTURE, "a.png"),
        Subtask("do it"),
    ]
    events: list[ev.Event] = [
        ev.UserMessageAdded("u"),
        *(ev.PartStarted("u", f"p{n}", kind) for n, kind in enumerate(parts)),
    ]
    (message,) = said(*events)
    assert message["content"] == [
        {"type": "text", "text": "hello"},
        {"type": "text", "text": "by the program"},
        {"type": "image_url", "image_url": {"url": PICTURE}},
        {"type": "text", "text": "The following tool was executed by the user"},
    ]
    assert said(ev.UserMessageAdded("u"), ev.PartStarted("u", "p", Text("x", ignored=True))) == []


@pytest.mark.parametrize("mime", ["text/plain", "text/csv"])
@pytest.mark.parametrize("form", ["openai-chat", "openai-responses", "anthropic", "gemini"])
def test_a_text_file_with_its_content_is_sent_and_counted(store: eventlog.Store, form: str, mime: str) -> None:
    """An uploaded text is in every provider's body, at the tokens of its words."""
    session = store.create_session()
    words = " ".join(f"row {number}" for number in range(4_000))
    url = f"data:{mime};base64,{b64encode(words.encode()).decode()}"
    session.user("See", files=[File(mime, url, "rows.txt")])
    view = ModelView.of(session)
    body = json.dumps(RequestForm(form).body(view.messages, view.system))
    assert "row 3999" in body or b64encode(words.encode()).decode() in body
    alone = store.create_session()
    alone.user(words)
    assert 0 <= view.tokens - ModelView.of(alone).tokens < 20


def test_tool_results() -> None:
    """Output, error, interruption and unfinished input; truncation shows its preview."""
    events = [
        ev.AssistantMessageStarted("a"),
        *called("p1", call="1"),
        ev.ToolCompleted("p1", "the whole", Truncation("part", 1, 9)),
        *called("p2", call="2"),
        ev.ToolFailed("p2", "no such file"),
        *called("p3", call="3"),
        ev.PartStarted("a", "p4", Tool("4", "read")),
        ev.PartDelta("p4", "input", '{"pa'),
        *called("p5", call="5"),
        ev.ToolFailed("p5", "stopped", interrupted=True, output="so far"),
    ]
    for options, last in ((DEFAULT, "stopped"), (OPENCODE_1_18, "so far")):
        call, *results = said(*events, options=options)
        stopped = "[Tool execution was interrupted]"
        assert texts(results) == ["part", "no such file", stopped, stopped, last]
        calls = call["tool_calls"]
        assert [found["function"]["arguments"] for found in calls] == ['{"x":1}'] * 3 + ["{}"] + ['{"x":1}']


def test_provider_executed_tools_are_answered_in_place() -> None:
    """The result of a tool that the provider ran is in the same message."""
    begun: list[ev.Event] = [ev.SessionStarted(), ev.AssistantMessageStarted("a"), *called("p", executed=True)]
    recording = Recording([(1, event) for event in begun])
    recording.add([(2, ev.ToolCompleted("p", "found"))])
    (message,) = view_of(recording)
    assert [type(part) for part in message.parts] == [Call, Result]


def test_steps_are_messages_of_their_own() -> None:
    """A message with two steps becomes two: the second call follows the first result."""
    events = [
        ev.AssistantMessageStarted("a"),
        ev.StepStarted("a", "s1"),
        *called("p1", call="1"),
        ev.ToolCompleted("p1", "one"),
        ev.StepStarted("a", "s2"),
        *called("p2", call="2"),
        ev.ToolCompleted("p2", "two"),
        ev.StepFinished("a", "s3"),
    ]
    assert [message["role"] for message in said(*events)] == ["assistant", "tool", "assistant", "tool"]


def test_failed_messages() -> None:
    """An error without content is left out, an aborted message with content stays."""
    question = asked("u", "q")
    answer = answered("a", "partly")[:-1]
    aborted = ev.MessageFinished("a", None, MessageError("aborted"))
    refused = ev.MessageFinished("a", None, MessageError("api", "400"))
    for options, left in ((DEFAULT, ["q", "partly"]), (OPENCODE_1_18, ["q"])):
        assert texts(said(*question, *answer, aborted, options=options)) == ["q", "partly"]
        assert texts(said(*question, *answer, refused, options=options)) == left
        assert texts(said(*question, ev.AssistantMessageStarted("a"), refused, options=options)) == ["q"]


def test_reasoning_of_another_model_is_text() -> None:
    """Reasoning keeps its metadata for the same model only."""
    metadata = '{"anthropic":{"signature":"s"}}'
    begun: list[ev.Event] = [
        ev.SessionStarted(),
        ev.AssistantMessageStarted("a", model=ONE),
        ev.PartStarted("a", "r", Reasoning()),
        ev.PartDelta("r", "text", "hm"),
        ev.PartEnded("r", metadata),
        ev.PartStarted("a", "t", Text("yes")),
        ev.PartEnded("t"),
    ]
    recording = Recording([(1, event) for event in begun])
    same = view_of(recording, RenderOptions(model=ONE))
    assert getattr(same[0].parts[0], "metadata", None) == metadata
    assert chat_messages(same) == [{"role": "assistant", "content": "yes", "reasoning_content": "hm"}]
    other = msgspec.structs.replace(DEFAULT, model=Model("p", "two"))
    assert chat_messages(view_of(recording, other)) == [{"role": "assistant", "content": "hm\n\nyes"}]
    joined = msgspec.structs.replace(OPENCODE_1_18, model=Model("p", "two"))
    assert chat_messages(view_of(recording, joined)) == [{"role": "assistant", "content": "hmyes"}]


def test_empty_text_is_the_preset_s_only() -> None:
    """A message that broke off before its first token is not sent by default."""
    events = [*asked("u", "q"), ev.AssistantMessageStarted("a"), ev.PartStarted("a", "t", Text())]
    assert texts(said(*events)) == ["q"]
    assert texts(said(*events, options=OPENCODE_1_18)) == ["q", ""]


def test_media_options() -> None:
    """Media stripped, moved behind the result, or refused for a model that cannot take it."""
    done = ev.ToolCompleted("p", "read", None, "", None, (Attachment("image/png", PICTURE),))
    events = [
        ev.UserMessageAdded("u"),
        ev.PartStarted("u", "f", File("image/png", PICTURE, "a.png")),
        ev.AssistantMessageStarted("a"),
        *called("p"),
        done,
    ]
    picture = {"type": "image_url", "image_url": {"url": PICTURE}}
    heading = {"type": "text", "text": "Attached media from tool result:"}
    for options in (DEFAULT, OPENCODE_1_18):
        assert texts(said(*events, options=options)) == [[picture], "", "read", [heading, picture]]
    stripped = ["[Attached image/png: a.png]", "", "read\n[Attached image/png: file]"]
    for in_results in (True, False):
        options = RenderOptions(strip_media=True, media_in_results=in_results)
        assert texts(said(*events, options=options)) == stripped
    options = msgspec.structs.replace(OPENCODE_1_18, strip_media=True)
    assert texts(said(*events, options=options)) == ["[Attached image/png: a.png]", "", "read"]
    blind = msgspec.structs.replace(OPENCODE_1_18, capabilities=("text",))
    refused = 'ERROR: Cannot read "a.png" (this model does not support image input). Inform the user.'
    unnamed = "ERROR: Cannot read image (this model does not support image input). Inform the user."
    moved = [heading, {"type": "text", "text": unnamed}]
    assert texts(said(*events, options=blind)) == [refused, "", "read", moved]
    in_place = texts(said(*events, options=RenderOptions(capabilities=("text",))))
    assert in_place == [refused, "", f"read\n{unnamed}"]


def test_long_results_are_capped_on_request() -> None:
    """A result over the limit is cut and says how much is missing."""
    events = [ev.AssistantMessageStarted("a"), *called("p"), ev.ToolCompleted("p", "x" * 2_010)]
    assert said(*events)[-1]["content"] == "x" * 2_010
    capped = said(*events, options=RenderOptions(tool_output_limit=2_000))[-1]["content"]
    assert capped == "x" * 2_000 + "\n[Tool output truncated: omitted 10 chars]"


def test_constraints() -> None:
    """Constraints: no two user messages in a row, nothing empty, allowed call ids."""
    events = [
        *asked("u1", "one"),
        *asked("u2", "two"),
        ev.AssistantMessageStarted("a"),
        *called("p", call="call/1"),
        ev.ToolCompleted("p", "out"),
        *asked("u3", " "),
        *asked("u4", "four"),
        ev.AssistantMessageStarted("b"),
    ]
    strict = Constraints(
        drop_empty=True, alternate=True, after_tool="Done.", call_id_pattern="alphanumeric", call_id_length=9
    )
    messages = said(*events, options=RenderOptions(constraints=strict))
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant", "user"]
    assert texts(messages)[3:] == ["Done.", "four"]
    calls = messages[1]["tool_calls"]
    name = calls[0]["id"]
    assert len(name) == 9
    assert name.isalnum()
    assert messages[2]["tool_call_id"] == name


def test_what_was_joined_is_joined_again_after_a_change() -> None:
    """Messages joined behind an inserted answer stay whole when one of them changes later."""
    options = RenderOptions(constraints=Constraints(alternate=True, after_tool="Done."))
    begun = [*asked("u", "q"), ev.AssistantMessageStarted("a"), *called("p"), ev.ToolCompleted("p", "out")]
    begun += [ev.MessageFinished("a", "stop"), *asked("q1", "one"), *asked("q2", "two"), *answered("b", "yes")]
    recording = Recording([(1, ev.SessionStarted()), *((2, event) for event in [*begun, *asked("q3", "three")])])
    follower = Follower(PROJECTION, recording)
    assembly = Assembly(follower.state, options, recording.text)
    assembly.view()
    recording.add([(3, ev.PartRedacted("q2.0"))])
    follower.advance()
    joined = [{"type": "text", "text": "one"}, {"type": "text", "text": "[Redacted]"}]
    assert texts(chat_messages(assembly.view()))[3:5] == ["Done.", joined]
    assert list(assembly.view()) == list(view_of(recording, options))


def test_reminder_and_max_steps() -> None:
    """A message sent while a turn runs is wrapped on request."""
    events = [*asked("u1", "start"), *answered("a1", "working", reason="tool-calls"), *asked("u2", "also this")]
    assert texts(said(*events))[-1] == "also this"
    wrapped = texts(said(*events, options=RenderOptions(reminder=True)))
    assert wrapped[0] == "start"
    assert str(wrapped[-1]).startswith("<system-reminder>\nThe user sent the following message:\nalso this\n")
    done = [*events, *answered("a2", "done")]
    assert texts(said(*done, options=RenderOptions(reminder=True))) == texts(said(*done))
    assert said(*events, options=RenderOptions(max_steps="Stop now."))[-1] == {
        "role": "assistant",
        "content": "Stop now.",
    }


def test_every_queued_message_is_wrapped() -> None:
    """Each of many messages sent while a turn runs is wrapped; none is after the turn."""
    options = RenderOptions(reminder=True)
    recording = Recording([(1, ev.SessionStarted())])
    follower = Follower(PROJECTION, recording)
    assembly = Assembly(follower.state, options, recording.text)

    def then(*events: ev.Event) -> list[bool]:
        recording.add([(2, event) for event in events])
        follower.advance()
        assert list(assembly.view()) == list(view_of(recording, options))
        return [str(text).startswith("<system-reminder>") for text in texts(chat_messages(assembly.view()))]

    assert then(*asked("u", "start"), *answered("a1", "working", reason="tool-calls")) == [False, False]
    for number in range(1, 21):
        assert then(*asked(f"q{number}", "also")) == [False, False, *[True] * number]
    assert then(*answered("a2", "done")) == [False] * 23
    assert then(*asked("next", "and now?")) == [False] * 24


def test_presets_by_name() -> None:
    """Two presets; another name is a typed error."""
    assert preset("default") == DEFAULT
    assert preset("opencode-1.18") == OPENCODE_1_18
    with pytest.raises(NotFoundError):
        preset("opencode-9")


def test_view_of_a_session(store: eventlog.Store) -> None:
    """A view has messages, tokens, system prompt and digest, also inside a stream."""
    session = store.create_session(title="t")
    session.set_system_prompt("You are terse.", "Caller's.")
    session.set_tools('[{"name":"bash"}]')
    session.user("The tests fail, fix them", system="Message's.")
    live = LiveView(session)
    with session.assistant(model="p/one") as reply:
        text = reply.stream_text()
        text.append("I will")
        text.append(" look.")
        middle = live.advance()
        assert texts(chat_messages(middle.messages)) == ["The tests fail, fix them", "I will look."]
        assert texts(chat_messages(live.excluding(middle.messages[-1].source).messages)) == ["The tests fail, fix them"]
        text.end()
        call = reply.tool("bash", call_id="c1", input={"command": "pytest"})
        call.succeed("ok\n" * 1_000)
        reply.finish("tool-calls", usage=Usage(Tokens(10, 5)))
    view = live.advance()
    fresh = ModelView.of(session)
    assert list(view.messages) == list(fresh.messages)
    assert view.digest == fresh.digest != middle.digest
    assert view.tokens == fresh.tokens > 1_000 > middle.tokens
    assert view.system == ("You are terse.", "Caller's.\nMessage's.")
    assert view.tools == '[{"name":"bash"}]'
    assert common_prefix(middle, view)[:2] == (1, 3)
    assert list(ModelView.of(session, at=middle.version).messages) == list(middle.messages)
    assert ModelView.of(session, at=middle.version).digest == middle.digest
    hooked = ModelView.of(session, hook=lambda segments: (*segments, "extra", ""))
    assert hooked.system == ("You are terse.", "Caller's.\nMessage's.\nextra")
    with pytest.raises(NotFoundError):
        ModelView.of(session, at=session.version + 1)


def test_a_view_inside_a_stream_has_the_text_so_far(store: eventlog.Store) -> None:
    """`view(v)` at each version of a stream has the text up to it."""
    session = store.create_session()
    session.user("q", id="u")
    before = session.version
    with session.assistant(model="p/one", id="a") as reply:
        text = reply.stream_text()
        for piece in ("one", " two", " three"):
            text.append(piece)
        text.end()
        reply.finish("stop")
    so_far = [
        "".join(map(str, texts(chat_messages(ModelView.of(session, at).messages))[1:]))
        for at in range(before, session.version + 1)
    ]
    assert so_far[0] == ""
    assert so_far[-1] == "one two three"
    assert [found for index, found in enumerate(so_far) if found != so_far[index - 1]] == [
        "",
        "one",
        "one two",
        "one two three",
    ]
    for at in range(before, session.version + 1):
        own = ModelView.of(session, at, excluding="a")
        assert list(own.messages) == list(ModelView.of(session, before).messages)
        assert own.target == ("" if at < session.version else "p/one")
        assert (own.digest == ModelView.of(session, before).digest) == (at < session.version)


@pytest.mark.parametrize("ending", ["aborted", "failed"])
@pytest.mark.parametrize("earlier", ["", "p/one"])
def test_a_call_that_does_not_end_leaves_the_target(store: eventlog.Store, ending: str, earlier: str) -> None:
    """A reply of another model that is broken off leaves the digest of an unchanged view."""
    session = store.create_session()
    session.user("q")
    if earlier:
        with session.assistant(model=earlier) as reply:
            reply.add_text("said")
            reply.finish("stop")
    before = ModelView.of(session)
    with session.lease():
        reply = session.assistant(model="p/other")
        reply.begin()
        reply.step()
        assert ModelView.of(session, excluding=reply.id).digest == before.digest
        reply.abort(None if ending == "aborted" else MessageError(ending))
    after = ModelView.of(session)
    assert (after.target, after.digest) == (before.target, before.digest) == (earlier, before.digest)
    with session.assistant(model="p/other") as reply:
        reply.add_text("said")
        reply.finish("stop")
    assert ModelView.of(session).target == "p/other"


@pytest.mark.promise(8)
def test_reading_asks_for_one_checkpoint(tmp_path: Path) -> None:
    """Promise 8: opening a view reads its newest checkpoint, and no command state."""
    with eventlog.open(tmp_path, checkpoint_events=10) as store:
        session = store.create_session(id="s")
        live = LiveView(session)
        for number in range(30):
            with session.lease():
                session.user(f"message {number}")
            live.advance()
            live.save()
    with eventlog.open(tmp_path) as store:
        assert len(store.log.derived_keys(b"checkpoint\0state")) == 1
        assert len(newest := store.log.derived_keys(b"checkpoint\0model-view")) > 1
        read = derived_reads(store.log)
        assert len(ModelView.of(store.session("s"))) == 30
        assert read == newest[-1:]


@QUICK
@given(histories(max_size=50))
def test_a_batch_is_its_events(items: list[Timed]) -> None:
    """`apply_batch` equals applying the events one by one, up to a rollback."""
    (decoded,) = Recording(items).decoded_commits()
    projection = TranscriptProjection()
    many, stopped = projection.apply_batch(projection.initial(), decoded.batch, 1)
    one, expected = apply_each(projection, projection.initial(), decoded.batch, 1)
    assert stopped == expected
    assert many.encode() == one.encode()


PARTLY = [
    DEFAULT,
    OPENCODE_1_18,
    RenderOptions(model=ONE),
    RenderOptions(model=Model("p", "two"), keep_empty_text=True),
    msgspec.structs.replace(OPENCODE_1_18, model=ONE),
    RenderOptions(model=ONE, constraints=Constraints(drop_empty=True, call_id_pattern="alphanumeric")),
    RenderOptions(strip_media=True, capabilities=("text",)),
    RenderOptions(capabilities=("text",), media_in_results=False),
]


@settings(max_examples=150, deadline=None)
@given(histories(max_size=50), st.sampled_from(PARTLY))
def test_a_part_is_explained_as_shown_if_the_view_needs_it(items: list[Timed], options: RenderOptions) -> None:
    """A part is said to be shown exactly if the view without it is another one."""
    recording = Recording(items)
    state, _ = replay(PROJECTION, recording)
    whole = list(view_of(recording, options))
    for name, (_, part) in list(state.where.items()):
        if part.removed or isinstance(part, (NotePart, StepPart)):
            continue  # of those that are never sent a step's beginning parts its message, all the same
        reason = reason_in(state, options, recording.text, name)
        part.removed = True
        without = list(Assembly(state, options, recording.text).view())
        part.removed = False
        assert (reason in SHOWING) == (without != whole), (name, reason)


def test_explain(store: eventlog.Store) -> None:
    """For any part, why it is or is not in the view."""
    events = [
        *asked("u0", "old"),
        *answered("a0", "older answer"),
        *compacted("k", "sum"),
        *asked("u1", "one", ""),
        ev.PartStarted("u1", "file", File("text/plain", "file:///a")),
        ev.AssistantMessageStarted("a1", model=ONE),
        ev.StepStarted("a1", "step"),
        ev.PartStarted("a1", "thought", Reasoning("hm")),
        ev.PartEnded("thought"),
        *called("p1", message="a1", call="1"),
        ev.ToolCompleted("p1", "out"),
        *called("p2", message="a1", call="2"),
        ev.Pruned(("p1",)),
    ]
    session = store.create_session()
    session.append([(2, event) for event in events])
    version = session.version
    view = ModelView.of(session, options=RenderOptions(model=Model("p", "two")))
    expected = {
        "u0.0": "covered",
        "k.t": "shown",
        "k.c": "shown-as-text",
        "u1.0": "shown",
        "u1.1": "empty",
        "u1": "shown",
        "file": "file-as-text",
        "step": "never-sent",
        "thought": "shown-as-text",
        "p1": "cleared",
        "p2": "interrupted",
    }
    assert {name: view.explain(name).reason for name in expected} == expected
    more: list[ev.Event] = [
        ev.ToolFailed("p2", "x"),
        ev.MessageFinished("a1", "stop"),
        ev.PartRemoved("u1.1"),
        ev.MessageRemoved("a1"),
    ]
    session.append([(3, event) for event in more])
    gone = ModelView.of(session)
    assert gone.explain("u1.1").reason == "removed"
    assert gone.explain("p1").reason == "message-removed"
    assert view.explain("p1").reason == "cleared", "a view explains its own version"
    session.rollback(version - 5)
    back = ModelView.of(session)
    assert back.explain("p2").reason == "rolled-back"
    assert not back.explain("p2").shown
    assert ModelView.of(session, at=5).explain("p2").reason == "later"
    with pytest.raises(NotFoundError):
        back.explain("nobody")


def test_options_take_a_model_and_no_name() -> None:
    """A model by its name is refused where it is given, with the form that is taken."""
    with pytest.raises(CallError, match=r"Model\('openai'"):
        RenderOptions(model="openai/gpt-5")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
