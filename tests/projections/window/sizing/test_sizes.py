"""Sizes for planners: the view's own cached count, and OpenCode's estimate."""

from __future__ import annotations

import json
from collections.abc import Iterator

import msgspec
import pytest

import eventlog
from eventlog.errors import NotFoundError
from eventlog.values import Attachment, Content, Model
from projections.conversation.parts import Message, TextPart, ToolPart
from projections.conversation.state import Conversation
from projections.replay.loop import replay
from projections.requests.ai_sdk import model_messages
from projections.tokens.counter import CharsCounter, TokenCounter, frame_tokens
from projections.view.message_rendering import MessageRenderer
from projections.view.model_view import ModelView
from projections.view.options import DEFAULT, OPENCODE_1_18
from projections.view.selection import visible_messages
from projections.view.targets import PROJECTION
from projections.window.sizing.sizes import CharsSizes, Sizes, TokenSizes, sizes_named
from tests.support.opencode_exports import events_of_export
from tests.support.parity import scenarios
from tests.support.shared import shared_path
from tests.support.spans import Recording

PIXEL = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@pytest.fixture
def session() -> Iterator[eventlog.Session]:
    """A session with a call and its result, and a long text."""
    with eventlog.open("memory:") as store:
        session = store.create_session()
        session.user("Was steht im Log? 日志里写了什么")
        with session.assistant("p/m") as reply:
            reply.add_text("Ich sehe nach.")
            call = reply.tool("read", call_id="c1", input={"filePath": "/log"}, id="tool")
            call.succeed("Zeile 中文 🙂\n" * 400, attachments=(Attachment("image/png", PIXEL),))
            reply.finish("tool-calls")
        session.user("Und nun?")
        yield session


def state_of(session: eventlog.Session) -> Conversation:
    """The state of the view."""
    return replay(PROJECTION, session.reader).state


def test_the_sizes_of_all_messages_are_the_view(session: eventlog.Session) -> None:
    """The sizes of all messages sum to the view's count, but for what begins the answer."""
    state = state_of(session)
    sizes = TokenSizes(state, DEFAULT, session.store.text, TokenCounter())
    messages = visible_messages(state, DEFAULT)
    assert sizes.messages(messages) == ModelView.of(session).tokens - frame_tokens(0)
    assert sizes.messages(messages) == sum(sizes.messages([message]) for message in messages)
    assert sizes.messages([]) == 0


def test_a_result_is_its_output_and_its_attachments(session: eventlog.Session) -> None:
    """A result is as large as its output and its image, pruned or not."""
    sizes = TokenSizes(state_of(session), DEFAULT, session.store.text, TokenCounter())
    part = _tool(state_of(session))
    assert sizes.counted(part) == TokenCounter().count("Zeile 中文 🙂\n" * 400) + 255
    part.pruned = True
    assert sizes.counted(part) == TokenCounter().count("Zeile 中文 🙂\n" * 400) + 255


def test_sizes_are_calibrated(session: eventlog.Session) -> None:
    """Messages have the counted size times the ratio, which may change, a result as counted."""
    state = state_of(session)
    messages, part = visible_messages(state, DEFAULT), _tool(state)
    plain = TokenSizes(state, DEFAULT, session.store.text, TokenCounter())
    calibrated = TokenSizes(state, DEFAULT, session.store.text, TokenCounter())
    calibrated.ratio = 1.5
    assert calibrated.messages(messages) == round(1.5 * plain.messages(messages))
    assert calibrated.counted(part) == plain.counted(part)
    calibrated.ratio = 2.0
    assert calibrated.messages(messages) == 2 * plain.messages(messages)
    named = sizes_named("chars/4", state, DEFAULT, session.store.text)
    named.ratio = 3.0
    assert named.messages(messages) == CharsSizes(state, DEFAULT, session.store.text).messages(messages)


@pytest.mark.parametrize("name", ["o200k_base", "chars/4"])
def test_only_what_changed_is_counted_again(session: eventlog.Session, name: str) -> None:
    """A second look reads nothing, and after any change sizes equal fresh ones."""
    state = state_of(session)
    looked: list[Content] = []

    def resolve(content: Content) -> str:
        looked.append(content)
        return session.store.text(content)

    sizes = sizes_named(name, state, DEFAULT, resolve)
    messages, part = visible_messages(state, DEFAULT), _tool(state)
    before = _all(sizes, messages, part)
    looked.clear()
    assert _all(sizes, messages, part) == before
    assert looked == []
    seen = {before}
    text = next(found for message in messages for found in message.parts if isinstance(found, TextPart))
    changes = [
        (part, "pruned", True),
        (part, "pruned", False),
        (part, "output", "short"),
        (part, "removed", True),
        (text, "pieces", ["another text"]),
        (messages[-1], "removed", False),
    ]
    for changed, field, value in changes:
        setattr(changed, field, value)
        fresh = sizes_named(name, state, DEFAULT, session.store.text)
        assert _all(sizes, messages, part) == _all(fresh, messages, part)
        seen.add(_all(sizes, messages, part))
    assert len(seen) == 5
    text.pieces.append(" that grows")
    fresh = sizes_named(name, state, DEFAULT, session.store.text)
    assert _all(sizes, messages, part) == _all(fresh, messages, part)


def test_opencode_measures_the_json_that_it_makes() -> None:
    """OpenCode's size is a quarter of the UTF-16 units of the JSON, halves rounded up."""
    shared_path("parity", "dev")
    compared = 0
    for scenario in scenarios():
        if scenario.name not in {"chinese-tools", "compact-auto", "attachments"}:
            continue
        for pair in scenario.pairs():
            recording = Recording.of(events_of_export(pair.state))
            state, _ = replay(PROJECTION, recording)
            options = msgspec.structs.replace(OPENCODE_1_18, model=Model("fake", pair.model))
            sizes = CharsSizes(state, options, recording.text)
            messages = visible_messages(state, options)
            view = [
                made
                for message in messages
                for made in model_messages(
                    MessageRenderer(message, options, recording.text, shows_question=True).messages()
                )
            ]
            written = json.dumps(view, ensure_ascii=False, separators=(",", ":"))
            assert sizes.messages(messages) == CharsCounter().count(written)
            compared += len(messages)
    assert compared > 100


@pytest.mark.parametrize(("output", "expected"), [("x" * 2_001, 500), ("x" * 2_002, 501), ("🙂" * 1_501, 751), ("", 0)])
def test_opencode_measures_a_result_by_its_output(store: eventlog.Store, output: str, expected: int) -> None:
    """A quarter of the output's UTF-16 units, whether it lies in the event or in a body."""
    session = store.create_session()
    session.user("x")
    with session.assistant("p/m") as reply:
        call = reply.tool("read", call_id="c1", input={})
        call.succeed(output, attachments=(Attachment("image/png", PIXEL),))
        reply.finish("tool-calls")
    state = state_of(session)
    assert CharsSizes(state, DEFAULT, session.store.text).counted(_tool(state)) == expected


def test_an_unknown_counter_is_refused(session: eventlog.Session) -> None:
    """An unknown counter's name is an error."""
    with pytest.raises(NotFoundError):
        sizes_named("words", state_of(session), DEFAULT, session.store.text)


def _tool(state: Conversation) -> ToolPart:
    return next(part for _, part in state.where.values() if isinstance(part, ToolPart))


def _all(sizes: Sizes, messages: list[Message], part: ToolPart) -> tuple[int, int]:
    return sizes.messages(messages), sizes.counted(part)
