"""The requests to a summariser: no media, capped outputs, as many requests as it takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog import events as ev
from eventlog.errors import MessageTooLargeError
from eventlog.values import Attachment, File, Model, Patch, Reasoning, Text, Todo, Tool
from projections.conversation.parts import Message
from projections.replay.loop import replay
from projections.view.neutral import Call, NeutralMessage, Result
from projections.view.neutral import Text as Said
from projections.view.options import DEFAULT
from projections.view.targets import ModelViewProjection
from projections.window.compaction.offline import summarize_offline
from projections.window.compaction.request import GOES_ON, SummaryJob, SummaryRequest
from projections.window.compaction.template import SYSTEM, prompt_digest, sections_of, summary_prompt
from projections.window.policy.policy import DEFAULT_POLICY
from tests.support.history_strategies import histories
from tests.support.spans import Recording

ONE, TWO = Model("p", "one"), Model("p", "two")


def words(messages: Sequence[NeutralMessage], system: Sequence[str]) -> int:
    """A counter for tests: characters sent, and ten per message."""
    total = sum(map(len, system))
    for message in messages:
        total += 10
        for part in message.parts:
            match part:
                case Said():
                    total += len(part.text)
                case Call():
                    total += len(part.input)
                case Result():
                    total += len(part.output)
                case _:
                    total += 1_000
    return total


def heads(events: Sequence[ev.Event]) -> tuple[list[Message], Recording]:
    """The messages that these events make."""
    recording = Recording([(1_000 + 7 * at, event) for at, event in enumerate(events)])
    return list(replay(ModelViewProjection(), recording).state.messages.values()), recording


def told(*events: ev.Event, max_input: int | None = None, prompt: str | None = None, **options: Any) -> SummaryJob:
    """A job over the messages of these events."""
    messages, recording = heads([ev.SessionStarted(title="t"), *events])
    return SummaryJob(
        messages,
        DEFAULT_POLICY.compaction,
        recording.text,
        words,
        max_input=max_input,
        prompt=prompt,
        **options,
    )


def question(name: str, text: str) -> list[ev.Event]:
    """A user message."""
    return [ev.UserMessageAdded(name), ev.PartStarted(name, f"{name}p", Text(text))]


def answer(name: str, text: str, output: str | None = None) -> list[ev.Event]:
    """An assistant message, with a call if there is an output."""
    events: list[ev.Event] = [ev.AssistantMessageStarted(name, model=ONE), ev.StepStarted(name, f"{name}s")]
    events += [ev.PartStarted(name, f"{name}p", Text(text)), ev.PartEnded(f"{name}p")]
    if output is not None:
        events += [
            ev.PartStarted(name, f"{name}t", Tool("c", "bash")),
            ev.ToolRunning(f"{name}t", '{"a":1}'),
            ev.ToolCompleted(f"{name}t", output, None, "", None, (Attachment("image/png", "data:,x", "shot.png"),)),
        ]
    return [*events, ev.MessageFinished(name, "stop")]


TALK = [*question("u1", "first"), *answer("a1", "one", "x" * 2_500), *question("u2", "second"), *answer("a2", "two")]


def test_head_is_rendered_for_reading() -> None:
    """Media are named, outputs capped at the policy's length, and the prompt comes last."""
    image = ev.PartStarted("u1", "u1f", File("image/png", "data:image/png;base64,AAAA", "a.png"))
    request = told(*question("u1", "first"), image, *TALK[2:]).request()
    assert request.messages[0].parts == (Said("first"), Said("[Attached image/png: a.png]"))
    result = request.messages[2].parts[0]
    assert isinstance(result, Result)
    assert result.output.startswith("x" * 2_000 + "\n[Tool output truncated: omitted 500 chars]")
    assert "[Attached image/png: shot.png]" in result.output
    assert result.files == ()
    assert request.conversation()[-1] == NeutralMessage("user", (Said(summary_prompt()),))
    assert (request.system, request.last, request.upto) == (SYSTEM, True, 4)
    assert request.digest == prompt_digest(SYSTEM, summary_prompt())
    assert request.tokens == words(request.conversation(), (SYSTEM,))


def test_previous_summary_and_context_are_in_the_prompt() -> None:
    """The previous summary is the anchor and what hooks add comes last."""
    job = told(*TALK, context=("Mind this.",))
    assert job.request(0, "OLD").prompt == summary_prompt("OLD", ["Mind this."])
    own = told(*TALK, context=("Mind this.",), prompt="Be brief.").request(0, "OLD")
    assert own.prompt == "OLD\n\nBe brief.\n\nMind this."


def test_another_models_reasoning_is_text() -> None:
    """For another model, reasoning is sent as text: no provider takes another's."""
    events: list[ev.Event] = [
        ev.AssistantMessageStarted("a", model=ONE),
        ev.PartStarted("a", "r", Reasoning("thought", '{"p":1}')),
        ev.PartEnded("r"),
        ev.MessageFinished("a", "stop"),
    ]
    request = told(*events, model=TWO, options=DEFAULT).request()
    assert request.messages == (
        NeutralMessage("user", (Said(GOES_ON),)),
        NeutralMessage("assistant", (Said("thought"),), "a"),
    )
    assert request.model == TWO


def test_messages_may_be_transformed() -> None:
    """A hook sees the messages as they would be sent and may change or drop them."""

    def only_users(messages: list[NeutralMessage]) -> list[NeutralMessage]:
        return [message for message in messages if message.role == "user"]

    request = told(*TALK, transform=only_users).request()
    assert [message.source for message in request.messages] == ["u1", "u2"]


def test_material_names_what_the_messages_do_not() -> None:
    """Synthetic messages, changed files and todos go along for summarisers that are no models."""
    events: list[ev.Event] = [
        ev.UserMessageAdded("u", synthetic=True),
        ev.PartStarted("u", "up", Text("go on", synthetic=True)),
        ev.AssistantMessageStarted("a"),
        ev.PartStarted("a", "ap", Patch("h", ("b.py", "a.py", "b.py"))),
        ev.PartStarted("a", "at", Text("done")),
        ev.PartEnded("at"),
        ev.MessageFinished("a", "stop"),
    ]
    todos = (Todo("x"),)
    facts = told(*events, todos=todos).request().facts
    assert (facts.synthetic, facts.files, facts.todos) == (frozenset({"u"}), ("b.py", "a.py"), todos)


def test_chunks_are_anchored_on_the_summary_before() -> None:
    """A head that is too large is asked for message by message."""
    limit = words([NeutralMessage("user", (Said(summary_prompt("OLD")),))], (SYSTEM,)) + 2_150
    job = told(*question("u1", "first" * 200), *TALK[2:], max_input=limit)
    requests, previous = [job.request()], "OLD"
    while not requests[-1].last:
        requests.append(job.request(requests[-1].upto, previous))
    sources = [[message.source for message in request.messages if message.source] for request in requests]
    assert sources == [["u1"], ["a1", "a1"], ["u2", "a2"]]
    assert [request.previous for request in requests] == [None, "OLD", "OLD"]
    assert requests[1].messages[0] == NeutralMessage("user", (Said(GOES_ON),))
    assert all(request.tokens <= limit for request in requests)


def test_message_too_large_even_alone() -> None:
    """One message that no request can hold is a typed error that names it."""
    job = told(*TALK)
    assert job.request().last
    base = words([NeutralMessage("user", (Said(summary_prompt()),))], (SYSTEM,))
    assert job.request(0, max_input=base + 50).upto == 1
    with pytest.raises(MessageTooLargeError) as caught:
        job.request(1, max_input=base + 500)
    assert (caught.value.message, caught.value.limit) == ("a1", base + 500)
    assert caught.value.tokens > base + 2_000
    with pytest.raises(MessageTooLargeError):
        job.request(0, max_input=base)


def test_a_summary_that_leaves_no_room_is_named_in_place_of_the_message() -> None:
    """The error says how long it is; a message that is too large without it is named itself."""
    job = told(*TALK)
    base = words([NeutralMessage("user", (Said(summary_prompt("short")),))], (SYSTEM,))
    long = "word " * 3_000
    with pytest.raises(MessageTooLargeError, match="let the summariser write a shorter one") as caught:
        job.request(0, long, max_input=base + 100)
    assert len(long) <= caught.value.summary < len(long) * 1.2
    with pytest.raises(MessageTooLargeError, match=r"^message 'a1'") as caught:
        job.request(1, "short", max_input=base + 500)
    assert caught.value.summary == 0


def test_kept_message_is_told_at_its_place() -> None:
    """The user's message that stays in view is told in the request, cut and without media."""
    image = ev.PartStarted("u1", "u1f", File("image/png", "data:image/png;base64,AAAA", "a.png"))
    events = [
        *question("u0", "old"),
        *question("u1", "task" * 2_000),
        image,
        *answer("a1", "one"),
        *answer("a2", "two"),
    ]
    messages, recording = heads([ev.SessionStarted(title="t"), *events])
    head, kept = [messages[0], *messages[2:]], [messages[1]]
    request = SummaryJob(head, DEFAULT_POLICY.compaction, recording.text, words, kept=kept).request()
    assert [message.source for message in request.messages] == ["u0", "u1", "a1", "a2"]
    assert request.messages[1].parts == (Said("task" * 1_000 + "\n[…]"),)
    assert sections_of(summarize_offline(request))["Goal"].startswith("- old\n- Newest request: task")


def test_nothing_to_say_is_one_empty_request() -> None:
    """A head that renders no message makes one request of the prompt alone."""
    job = told(*question("u", ""))
    assert len(job) == 0
    assert job.request().messages == ()
    assert job.request().last


@given(histories(without=("compact", "rollback", "undo")), st.integers(0, 400), st.booleans())
def test_chunks_hold_the_whole_head_once(history: list[tuple[int, ev.Event]], room: int, long_previous: bool) -> None:
    """At any limit the requests together are the head in order, and each fits."""
    recording = Recording(history)
    state = replay(ModelViewProjection(), recording).state
    messages = list(state.messages.values())
    whole = SummaryJob(messages, DEFAULT_POLICY.compaction, recording.text, words).request()
    previous = "p" * 50 if long_previous else None
    limit = words([NeutralMessage("user", (Said(summary_prompt(previous)),))], (SYSTEM,)) + room
    job = SummaryJob(messages, DEFAULT_POLICY.compaction, recording.text, words, max_input=limit)
    found: list[SummaryRequest] = []
    try:
        found.append(job.request(0, previous))
        while not found[-1].last:
            found.append(job.request(found[-1].upto, previous))
    except MessageTooLargeError:
        found.append(job.request(found[-1].upto if found else 0, previous, max_input=10**9))
        assert found[-1].last
    else:
        assert all(words(request.conversation(), (SYSTEM,)) == request.tokens <= limit for request in found)
    for request in found:
        calls = {
            (message.source, part.call)
            for message in request.messages
            for part in message.parts
            if isinstance(part, Call)
        }
        results = {
            (message.source, part.call)
            for message in request.messages
            for part in message.parts
            if isinstance(part, Result)
        }
        assert calls == results
        assert not request.messages or request.messages[0].role == "user"
    opening = NeutralMessage("user", (Said(GOES_ON),))
    joined = [message for request in found for message in request.messages if message != opening]
    assert joined == [message for message in whole.messages if message != opening]
