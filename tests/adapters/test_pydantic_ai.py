"""Conversation store of pydantic-ai, against the framework's own one in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_ai import Agent, UserError
from pydantic_ai import messages as framework_messages
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationConflict, ConversationStore, InMemoryConversationStore
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelRequest, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.models.test import TestModel

from eventlog.adapters import pydantic_ai as adapter
from eventlog.adapters import unshared
from eventlog.adapters.pydantic_ai import EverdeltaConversationStore
from eventlog.adapters.pydantic_entries import EntryFeed
from eventlog.testing.file_search import files_with
from projections import ModelView
from tests.adapters.pydantic_messages import KINDS, Talk, listed, viewed
from tests.support.engines import ENCRYPTED, ENGINES, Engine

MODES = [*ENGINES, ENCRYPTED]
NAMES = st.sampled_from("ab")
PICKS = st.integers(0, 30)
PROGRAMS = st.lists(
    st.one_of(
        st.tuples(st.just("save"), NAMES, KINDS, PICKS),
        st.tuples(st.just("save"), NAMES, KINDS, PICKS),
        st.tuples(st.just("rewrite"), NAMES, KINDS, PICKS),
        st.tuples(st.just("branch"), NAMES, KINDS, PICKS),
        st.tuples(st.just("return"), NAMES, KINDS, PICKS),
        st.tuples(st.just("fork"), NAMES, KINDS, PICKS),
        st.tuples(st.just("fork branch"), NAMES, KINDS, PICKS),
        st.tuples(st.just("stale"), NAMES, KINDS, PICKS),
        st.tuples(st.just("delete"), NAMES, KINDS, PICKS),
    ),
    min_size=1,
    max_size=12,
)


class Pair:
    """A store under test, and the framework's own one that has had the same commands."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.ours = EverdeltaConversationStore(engine.open())
        self.theirs = InMemoryConversationStore()
        self.talk = Talk()

    async def run(self, kind: str, name: str, kinds: list[str], pick: int) -> None:
        """Give both a command; both refuse it, or none does."""
        loaded = await self.theirs.load(name)
        messages = loaded.messages if loaded is not None else []
        at = pick % (len(messages) + 1)
        more = self.talk.messages(kinds, messages[:at] if kind == "rewrite" else messages)

        async def play(store: ConversationStore) -> Any:
            conversation = await store.load(name, limit=max(pick, 1) if kind == "save" else None)
            if kind == "delete":
                return await store.delete(name)
            if kind == "fork":
                return (await store.fork(name, at=at, new_conversation_id="f")).messages
            if kind == "save" or conversation is None:
                conversation = conversation or Conversation(conversation_id=name)
                conversation.messages.extend(more)
                return len(await store.save(conversation, scope="s"))
            if kind == "rewrite":
                again = Conversation(
                    conversation_id=name, messages=[*messages[:at], *more], revision=conversation.revision
                )
                return len(await store.save(again))
            if kind == "branch":
                return (await store.branch(name, at=at, expected_revision=conversation.revision)).messages
            if kind == "stale":
                await store.save(conversation)
                conversation.revision = "other"
                return await store.save(conversation)
            record = await store.read_record(name)
            assert record is not None
            left = record.branches[pick % len(record.branches)] if record.branches else "none"
            line = await store.read_history(left) if record.branches else []
            entry = line[pick % len(line)].id if line else "none"
            if kind == "return":
                return (await store.branch(name, from_entry=entry, expected_revision=conversation.revision)).messages
            return (await store.fork(name, from_entry=entry, new_conversation_id="f")).messages

        outcomes: list[Any] = []
        for store in (self.ours, self.theirs):
            try:
                outcomes.append(await play(store))
            except UserError as error:
                outcomes.append(type(error))
        assert outcomes[0] == outcomes[1], kind

    async def check(self) -> None:
        """Both have the same conversations, and the views show them."""
        fresh = EverdeltaConversationStore(self.engine.open())
        assert [one.conversation_id for one in await fresh.list_conversations()] == [
            one.conversation_id for one in await self.theirs.list_conversations()
        ]
        for name in "abf":
            theirs, ours = await self.theirs.load(name), await fresh.load(name)
            assert (ours is None) == (theirs is None)
            if ours is None or theirs is None:
                continue
            assert (ours.messages, ours.usage) == (theirs.messages, theirs.usage)
            for limit in (0, 1, 3):
                last, wanted = await fresh.load(name, limit=limit), await self.theirs.load(name, limit=limit)
                assert last is not None
                assert wanted is not None
                assert last.messages == wanted.messages
            record, other = await fresh.read_record(name), await self.theirs.read_record(name)
            assert record is not None
            assert other is not None
            assert (record.scope, record.forked_from, len(record.branches)) == (
                other.scope,
                other.forked_from,
                len(other.branches),
            )
            for left, right in zip(record.branches, other.branches, strict=True):
                assert [one.message for one in await fresh.read_history(left)] == [
                    one.message for one in await self.theirs.read_history(right)
                ]
            assert viewed(ModelView.of(fresh.session(name))) == listed(theirs.messages)


@pytest.mark.parametrize("engine_name", MODES)
def test_random_programs_agree_with_the_store_in_memory(engine_name: str) -> None:
    """After every command both stores have the same conversations, and the views show them."""

    @settings(max_examples=30 if engine_name == "memory" else 6)
    @given(PROGRAMS)
    def agree(program: list[tuple[str, str, list[str], int]]) -> None:
        async def play() -> None:
            pair = Pair(engine)
            for command in program:
                await pair.run(*command)
                await pair.check()

        engine = Engine(engine_name)
        try:
            asyncio.run(play())
        finally:
            engine.close()

    agree()


def said(*texts: str) -> list[Any]:
    """Return requests, each with a user prompt."""
    return [ModelRequest([UserPromptPart(text)]) for text in texts]


def texts_of(conversation: Conversation | None) -> list[str]:
    """Return the texts of a conversation of `said`."""
    assert conversation is not None
    return [str(message.parts[0].content) for message in conversation.messages]  # type: ignore[union-attr]


async def test_an_agent_goes_on_from_its_conversation(engine: Engine) -> None:
    """Turns of an agent, each in a store opened anew, show in the view what the model is sent."""
    for turn in ("first", "second", "third"):
        store = EverdeltaConversationStore(engine.open())
        agent: Agent[None, str] = Agent(TestModel())
        agent.tool_plain(look)
        conversation = await store.load("chat") or Conversation(conversation_id="chat")
        result = await agent.run(turn, conversation=conversation)
        await store.save(result)
        loaded = await store.load("chat")
        assert loaded is not None
        assert loaded.messages == result.all_messages()
        assert viewed(ModelView.of(store.session("chat"))) == listed(loaded.messages)


def look(at: str) -> str:
    """Look at a thing."""
    return f"seen {at}"


def test_retries_of_earlier_versions_are_shown_as_what_they_were(engine: Engine) -> None:
    """A retry prompt that names a call is its failed result; another one is a user message."""
    parts: list[dict[str, Any]] = [
        {"part_kind": "retry-prompt", "content": "wrong arguments", "tool_name": "look", "tool_call_id": "c1"},
        {"part_kind": "retry-prompt", "content": "answer in JSON", "tool_name": None, "tool_call_id": "c2"},
    ]
    feed = EntryFeed(engine.open().create_session())
    call = {"part_kind": "tool-call", "tool_name": "look", "args": "{}", "tool_call_id": "c1"}
    messages: list[Any] = [{"kind": "response", "parts": [call]}, {"kind": "request", "parts": parts}]
    feed.add([{"id": str(number), "message": message} for number, message in enumerate(messages)])
    view = viewed(ModelView.of(feed.session))
    assert view == listed(ModelMessagesTypeAdapter.validate_python(messages))
    assert view == [("call", "c1", "look", "{}", "wrong arguments"), ("user", "answer in JSON")]


@pytest.mark.filterwarnings("ignore:`RetryPromptPart` is deprecated")
async def test_a_retry_whose_details_lack_a_field_loads_again(engine: Engine) -> None:
    """Details that pydantic-ai's own JSON does not read come back whole."""
    part: Any = getattr(framework_messages, "RetryPromptPart")  # noqa: B009  # deprecated, and still made
    details = [{"type": "missing", "loc": ("a",), "msg": "Field required"}]
    talk: list[Any] = [
        ModelRequest(parts=[UserPromptPart("hi")]),
        ModelRequest(parts=[part(details, tool_name="t", tool_call_id="c1")]),
    ]
    store = EverdeltaConversationStore(engine.open())
    await store.save(Conversation(conversation_id="c", messages=talk))
    loaded = await store.load("c")
    assert loaded is not None
    shown: Any = loaded.messages[1].parts[0]
    assert shown.content == details


async def test_several_system_prompts_of_a_request_are_shown_together(engine: Engine) -> None:
    """An agent's system prompts are all in the view's system prompt."""
    store = EverdeltaConversationStore(engine.open())
    agent: Agent[None, str] = Agent(TestModel(), system_prompt=("AAA", "BBB"))
    await store.save(await agent.run("asked", conversation=Conversation(conversation_id="chat")))
    assert ModelView.of(store.session("chat")).system == ("AAA\n\nBBB",)


@pytest.mark.promise(4)
@pytest.mark.parametrize("begun", [False, True])
async def test_one_of_two_savers_wins(engine: Engine, begun: bool) -> None:
    """Of savers of one revision exactly one wins; the others are refused and leave nothing."""
    stores = [EverdeltaConversationStore(engine.open()) for _ in range(3)]
    if begun:
        await stores[0].save(Conversation(conversation_id="chat", messages=said("asked")))
    loaded = [await store.load("chat") or Conversation(conversation_id="chat") for store in stores]
    for number, conversation in enumerate(loaded):
        conversation.messages += said(f"by {number}")
    saved = await asyncio.gather(
        *(store.save(one) for store, one in zip(stores, loaded, strict=True)), return_exceptions=True
    )
    refused = [one for one in saved if isinstance(one, BaseException)]
    assert [type(one) for one in refused] == [ConversationConflict] * 2
    (winner,) = (number for number, one in enumerate(saved) if not isinstance(one, BaseException))
    wanted = [*(["asked"] if begun else []), f"by {winner}"]
    for store in stores:
        assert texts_of(await store.load("chat")) == wanted
    assert [info.messages for info in stores[0].store.sessions()] == [len(wanted)]


def breaks(feed: EntryFeed, *, wait: float) -> None:
    """Break off before the erasure."""
    del feed, wait


def test_late_save_brings_no_conversation_back(engine: Engine) -> None:
    """A save behind a deletion is refused, also behind one that broke off before it erased."""
    late, other = (EverdeltaConversationStore(engine.open()) for _ in range(2))

    async def play(delete: Callable[[], Any]) -> None:
        await other.save(Conversation(conversation_id="chat", messages=said("asked")))
        conversation = await late.load("chat")
        assert conversation is not None
        await delete()
        conversation.messages += said("late")
        with pytest.raises(ConversationConflict):
            await late.save(conversation)
        assert await late.load("chat") is None
        assert await other.list_conversations() == []
        await late.save(Conversation(conversation_id="chat", messages=said("anew")))
        assert texts_of(await other.load("chat")) == ["anew"]
        await other.delete("chat")

    async def breaks_off() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("eventlog.adapters.pydantic_ai.erase_unshared", breaks)
            await other.delete("chat")

    asyncio.run(play(lambda: other.delete("chat")))
    asyncio.run(play(breaks_off))


def test_a_fork_that_meets_a_deletion_is_whole_or_refused(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fork of a conversation that is deleted meanwhile is a conflict, and leaves nothing."""
    one, other = (EverdeltaConversationStore(engine.open()) for _ in range(2))
    original = unshared.fork

    def meanwhile(*args: Any, **options: Any) -> Any:
        monkeypatch.setattr(adapter, "fork", original)
        deletion = asyncio.new_event_loop()
        with pytest.MonkeyPatch.context() as patch:
            if breaks_off:
                patch.setattr(adapter, "erase_unshared", breaks)
            deletion.run_until_complete(other.delete("chat"))
        deletion.close()
        return original(*args, **options)

    for breaks_off in (False, True):
        asyncio.run(one.save(Conversation(conversation_id="chat", messages=said("a", "b"))))
        monkeypatch.setattr(adapter, "fork", meanwhile)
        with pytest.raises(ConversationConflict):
            asyncio.run(one.fork("chat", at=1, new_conversation_id="fork"))
        assert asyncio.run(other.load("fork")) is None
        assert [info.fork_of for info in engine.open().sessions()] == [None] * breaks_off
        asyncio.run(one.save(Conversation(conversation_id="fork", messages=said("c"))))
        asyncio.run(one.delete("fork"))


async def test_entries_are_found_by_a_new_process(engine: Engine) -> None:
    """An entry is found by its id alone; an unknown id is `KeyError`."""
    first = EverdeltaConversationStore(engine.open())
    entries = await first.save(Conversation(conversation_id="chat", messages=said(*map(str, range(70)))))
    await first.save(Conversation(conversation_id="other", messages=said("x")))
    fresh = EverdeltaConversationStore(engine.open())
    assert await fresh.read_entry(entries[3].id) == entries[3]
    assert await fresh.read_history(entries[40].id, limit=2) == entries[39:41]
    with pytest.raises(KeyError):
        await fresh.read_entry("none")


@pytest.mark.parametrize("mode", ["embedded", ENCRYPTED])
def test_deleted_messages_leave_no_byte(mode: str, tmp_path: Path) -> None:
    """After a deletion and a scrub no file has a text that no fork has, of left branches too."""
    place = Engine(mode, tmp_path)
    store = EverdeltaConversationStore(place.open())

    async def play() -> None:
        conversation = Conversation(conversation_id="chat", messages=said("shared", "secret-large " * 3000))
        await store.save(conversation)
        await store.fork("chat", at=1, new_conversation_id="fork")
        branched = await store.branch("chat", at=1, expected_revision=conversation.revision)
        branched.messages.append(ModelResponse([TextPart("secret-branch")]))
        await store.save(branched)
        await store.delete("chat")

    asyncio.run(play())
    store.store.scrub()
    for text in ("secret-large", "secret-branch"):
        assert files_with(place.path, text) == []
    assert texts_of(asyncio.run(store.load("fork"))) == ["shared"]
    place.close()
