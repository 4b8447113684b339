"""System messages that a conversation begins with: each is a record of its own in views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from eventlog import AnthropicMapping, Feed, OpenAIChatMapping, OpenAIResponsesMapping, RecordMapping, Store
from eventlog.adapters.pydantic_messages import PydanticAIMapping
from projections import ModelView
from projections.view.neutral import Text
from tests.support.engines import Engine

ONE, TWO, THREE, ASKED = "First of all be brief.", "And moreover be kind.", "Third of all be bold.", "What is this?"
Make = Callable[[str, str], Any]


def message(role: str, text: str) -> Any:
    """Return a message of the vendors."""
    return {"role": role, "content": text}


def pydantic(role: str, text: str) -> Any:
    """Return an entry of pydantic-ai."""
    part = {"part_kind": {"system": "system-prompt", "user": "user-prompt"}[role], "content": text}
    return {"id": text, "message": {"kind": "request", "parts": [part]}}


FORMATS: dict[str, tuple[RecordMapping, Make]] = {
    "responses": (OpenAIResponsesMapping(), message),
    "chat": (OpenAIChatMapping(), message),
    "anthropic": (AnthropicMapping(), message),
    "pydantic": (PydanticAIMapping(), pydantic),
}


@pytest.fixture(params=FORMATS)
def told(request: pytest.FixtureRequest) -> tuple[RecordMapping, Make]:
    """Give each mapping that knows system messages, and what makes a message of it."""
    return FORMATS[request.param]


def viewed(feed: Feed) -> list[str]:
    """Return the texts of a view; the system prompt's is marked."""
    view = ModelView.of(feed.session)
    parts = [part for message in view.messages for part in message.parts]
    return [f"prompt: {text}" for text in view.system if text] + [part.text for part in parts if isinstance(part, Text)]


@pytest.mark.parametrize("together", [False, True])
def test_each_is_in_the_view(engine: Engine, told: tuple[RecordMapping, Make], together: bool) -> None:
    """The first is the system prompt, each further one a message, told at once or one by one."""
    mapping, make = told
    records = [make("system", ONE), make("system", TWO), make("system", THREE), make("user", ASKED)]
    feed = Feed(engine.open().create_session(), mapping)
    for some in [records] if together else [[one] for one in records]:
        feed = Feed(engine.open().session(feed.session.id), mapping)
        feed.add(some)
    assert viewed(feed) == [f"prompt: {ONE}", TWO, THREE, ASKED]
    assert feed.read(feed.path()) == records


def test_a_forgotten_one_takes_its_own_text_only(store: Store, told: tuple[RecordMapping, Make]) -> None:
    """Forgetting one leaves the texts of the others as they were, in forks too."""
    mapping, make = told
    for gone, left in ((0, [TWO, ASKED]), (1, [f"prompt: {ONE}", ASKED]), (2, [f"prompt: {ONE}", TWO])):
        feed = Feed(store.create_session(), mapping)
        numbers = [feed.add([make(*one)])[0] for one in (("system", ONE), ("system", TWO), ("user", ASKED))]
        fork = Feed(feed.session.fork(), mapping)
        feed.forget([numbers[gone]])
        assert viewed(feed) == viewed(fork) == left


def test_one_behind_a_forgotten_one_is_the_prompt(store: Store, told: tuple[RecordMapping, Make]) -> None:
    """A system message before which no other is left is the system prompt."""
    mapping, make = told
    feed = Feed(store.create_session(), mapping)
    feed.forget(feed.add([make("system", ONE)]))
    feed.add([make("system", TWO)])
    feed.add([make("system", THREE)])
    assert viewed(feed) == [f"prompt: {TWO}", THREE]


def test_rollbacks_and_forks_between_them(store: Store, told: tuple[RecordMapping, Make]) -> None:
    """Behind a rollback or in a fork the first that is left is the prompt, told again or anew."""
    mapping, make = told
    feed = Feed(store.create_session(), mapping)
    (first,) = feed.add([make("system", ONE)])
    feed.add([make("system", TWO), make("user", ASKED)])
    fork = Feed(feed.session.fork(first), mapping)
    assert viewed(fork) == [f"prompt: {ONE}"]
    fork.add([make("system", THREE)])
    assert viewed(fork) == [f"prompt: {ONE}", THREE]
    feed.add([make("system", THREE)], after=first)
    assert viewed(feed) == [f"prompt: {ONE}", THREE]
    feed.session.redo()
    assert viewed(feed) == [f"prompt: {ONE}", TWO, ASKED]
    feed.replace([make("system", TWO), make("system", ONE), make("user", ASKED)])
    assert viewed(feed) == [f"prompt: {TWO}", ONE, ASKED]
    feed.replace([make("user", ASKED), make("system", ONE)])
    assert viewed(feed) == [ASKED, ONE]


def test_a_prompt_of_the_program_is_none_of_the_records(store: Store, told: tuple[RecordMapping, Make]) -> None:
    """A system prompt that the program set does not make the first system message a later one."""
    mapping, make = told
    feed = Feed(store.create_session(), mapping)
    with feed.session.lease():
        feed.session.set_system_prompt("By the program.")
    feed.add([make("system", ONE)])
    feed.add([make("system", TWO)])
    assert viewed(feed) == [f"prompt: {ONE}", TWO]
