"""Session of the OpenAI Agents SDK, against the SDK's own `SQLiteSession`."""

from __future__ import annotations

import asyncio
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from agents import Agent, Model, ModelResponse, RunConfig, Runner, SQLiteSession, Usage, function_tool
from agents.extensions.memory.encrypt_session import EncryptedSession
from agents.memory import OpenAIResponsesCompactionSession, Session
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseReasoningItem,
)
from openai.types.responses.response_reasoning_item import Summary

from eventlog import ConflictError, Store
from eventlog.adapters.openai_agents import EverdeltaSession
from eventlog.testing.file_search import files_with
from projections import ModelView
from tests.adapters.openai_items import KINDS, Talk, listed, viewed
from tests.support.engines import ENCRYPTED, ENGINES, Engine

MODES = [*ENGINES, ENCRYPTED]
PROGRAMS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), KINDS),
        st.tuples(st.just("add"), KINDS),
        st.tuples(st.just("pop"), st.integers(1, 4)),
        st.tuples(st.just("compact"), st.integers(1, 6)),
        st.tuples(st.just("replace"), st.integers(0, 3)),
        st.tuples(st.just("clear"), st.none()),
        st.tuples(st.just("reopen"), st.none()),
        st.tuples(st.just("undo"), st.integers(1, 6)),
    ),
    min_size=1,
    max_size=14,
)


def texts(*said: str) -> list[Any]:
    """Return user items."""
    return [{"role": "user", "content": one} for one in said]


def shown(session: EverdeltaSession) -> list[tuple[str, ...]]:
    """Return what the model view shows."""
    return viewed(ModelView.of(session.session))


class Pair:
    """A session under test, and the SDK's own one that has had the same commands."""

    def __init__(self, engine: Engine) -> None:
        self.store = engine.open()
        self.ours = EverdeltaSession(self.store, "chat")
        self.theirs = SQLiteSession("chat")
        self.talk = Talk()

    async def run(self, kind: str, what: Any) -> None:
        """Give both a command."""
        before = await self.theirs.get_items()
        match kind:
            case "add":
                items = self.talk.items(what, before)
                await self.ours.add_items(items)
                await self.theirs.add_items(items)
            case "pop":
                for _ in range(what):
                    assert await self.ours.pop_item() == await self.theirs.pop_item()
            case "compact":
                await self.compact(what)
            case "undo":
                if await self.compact(what):
                    self.ours.session.redo()
                    await self.replace(before)
            case "replace":
                items = [*before[:what], *self.talk.items(["user", "compaction", "assistant"], [])]
                await self.ours.get_items(1)
                assert await self.ours._atomic_replace_items(items)
                await self.replace(items)
            case "clear":
                await self.ours.clear_session()
                await self.theirs.clear_session()
            case _:
                self.ours = EverdeltaSession(self.store, "chat")

    async def compact(self, size: int) -> bool:
        """Replace the newest items by a summary, as the SDK's compaction does; if there are any."""
        theirs = await self.theirs._get_compaction_snapshot(size)
        ours = await self.ours._get_compaction_snapshot(size)
        assert theirs is not None
        output = self.talk.items(["user", "compaction"], [])
        if ours is None:
            assert theirs.items == []
            return False
        assert (ours.items, ours.complete) == (theirs.items, theirs.complete)
        start = size // 3
        replaced = await ours.replace_suffix(start, output)
        assert replaced == await theirs.replace_suffix(start, output)
        return replaced

    async def replace(self, items: list[Any]) -> None:
        """Make the items of the SDK's session these."""
        await self.theirs.clear_session()
        await self.theirs.add_items(items)

    async def check(self) -> None:
        """Both have the same items, and the view shows them."""
        items = await self.theirs.get_items()
        assert await self.ours.get_items() == items
        for limit in (-1, 0, 1, 3):
            assert await self.ours.get_items(limit) == await self.theirs.get_items(limit)
        assert shown(self.ours) == listed(items)


@pytest.mark.parametrize("engine_name", MODES)
def test_random_programs_agree_with_sqlite_session(engine_name: str) -> None:
    """After every command the items are those of `SQLiteSession`, and the view shows them."""

    @settings(max_examples=30 if engine_name == "memory" else 6)
    @given(PROGRAMS)
    def agree(program: list[tuple[str, Any]]) -> None:
        async def play() -> None:
            pair = Pair(engine)
            try:
                for kind, what in program:
                    await pair.run(kind, what)
                    await pair.check()
            finally:
                pair.theirs.close()

        engine = Engine(engine_name)
        try:
            asyncio.run(play())
        finally:
            engine.close()

    agree()


async def test_reading_begins_no_session(store: Store) -> None:
    """Reads, pops, clears and snapshots of an id without items begin no session."""
    session = EverdeltaSession(store, "chat")
    assert isinstance(session, Session)
    assert await session.get_items() == []
    assert await session.pop_item() is None
    await session.add_items([])
    await session.clear_session()
    assert await session._get_compaction_snapshot(3) is None
    assert list(store.sessions()) == []


async def test_replacements_of_changed_items_are_refused(engine: Engine) -> None:
    """A compaction of items that another worker has added to or cleared replaces nothing."""
    one, other = (EverdeltaSession(engine.open(), "chat") for _ in range(2))
    await one.add_items(texts("a", "b"))
    snapshot = await one._get_compaction_snapshot(5)
    assert snapshot is not None
    await one.get_items()
    await other.add_items(texts("c"))
    assert not await snapshot.replace_suffix(0, texts("sum"))
    with pytest.raises(ConflictError):
        await one._atomic_replace_items(texts("sum"))
    assert await one.get_items() == texts("a", "b", "c")
    snapshot = await one._get_compaction_snapshot(5)
    assert snapshot is not None
    await other.clear_session()
    assert not await snapshot.replace_suffix(0, texts("sum"))
    assert await one.get_items() == []


async def test_own_items_are_replaced_with_those_read(engine: Engine) -> None:
    """Items added since the read are no other worker's, unless others were added before them."""
    one, other = (EverdeltaSession(engine.open(), "chat") for _ in range(2))
    for begun in ([], texts("a")):
        await one.add_items(begun)
        assert await one.get_items() == begun
        await one.add_items(texts("b", "c"))
        await one.add_items(texts("d"))
        await one._atomic_replace_items(texts("a", "sum"))
        assert await one.get_items() == texts("a", "sum")
        await other.get_items()
        await other.add_items(texts("e"))
        await one.add_items(texts("f"))
        with pytest.raises(ConflictError):
            await one._atomic_replace_items(texts("sum"))
        await one.clear_session()


async def test_own_writes_at_once_are_no_conflict(engine: Engine) -> None:
    """A handle knows what its tasks add or take back at once, and nothing of another's."""
    one, other = (EverdeltaSession(engine.open(), "chat") for _ in range(2))
    await one.add_items(texts("a"))
    await one.get_items()
    await asyncio.gather(*(one.add_items(texts(f"b {number}")) for number in range(5)))
    assert await one.pop_item() is not None
    await one._atomic_replace_items(texts("sum"))
    await one._atomic_replace_items(texts("of it"))
    assert await one.get_items() == texts("of it")
    await one.add_items(texts("c"))
    await other.pop_item()
    await one.add_items(texts("d"))
    with pytest.raises(ConflictError):
        await one._atomic_replace_items(texts("sum"))


async def test_one_task_clears_and_another_writes(engine: Engine) -> None:
    """On one handle a write that meets a clear goes before or behind it, with its position."""
    one = EverdeltaSession(engine.open(), "chat")
    for number in range(6):
        await one.add_items(texts("before"))
        await one.get_items()
        _, _, popped, *_ = await asyncio.gather(
            one.clear_session(), one.add_items(texts(f"{number}")), one.pop_item(), one.get_items()
        )
        left = await one.get_items()
        assert left in ([], texts(f"{number}"))
        assert popped in (None, *texts("before", f"{number}"))
        await one.add_items(texts("anew"))
        await one._atomic_replace_items(texts("sum"))
        assert await one.get_items() == texts("sum")
        await one.clear_session()
        await one.add_items(texts("anew"))  # the position is the new session's
        await one._atomic_replace_items(texts("sum"))
        assert shown(one) == listed(texts("sum"))


async def test_items_forgotten_while_they_are_read_are_left_out(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK gets items alone, also if one is forgotten once their numbers are known."""
    session = EverdeltaSession(store, "chat")
    await session.add_items(texts("a", "b"))
    feed = session._begun()
    numbers = feed.path()
    feed.forget(numbers[:1])

    def before(at: int | None = None, *, newest: int | None = None) -> list[int]:
        del at, newest
        return list(numbers)

    monkeypatch.setattr(feed, "path", before)
    assert await session.get_items() == texts("b")
    snapshot = await session._get_compaction_snapshot(5)
    assert snapshot is not None
    assert snapshot.items == texts("b")


@pytest.mark.parametrize("mode", ["embedded", ENCRYPTED])
def test_cleared_items_leave_no_byte(mode: str, tmp_path: Path) -> None:
    """After a clear and a scrub no file has a text of an item, popped or compacted."""
    place = Engine(mode, tmp_path)
    store = place.open()
    session = EverdeltaSession(store, "chat")

    async def play() -> None:
        large = "secret-large " * 3000
        await session.add_items(texts("secret-popped", large))
        await session.pop_item()
        await session.pop_item()
        await session.add_items(texts("secret-compacted", "secret-kept"))
        snapshot = await session._get_compaction_snapshot(1)
        assert snapshot is not None
        assert await snapshot.replace_suffix(0, texts("secret-summary"))
        await session.clear_session()
        await session.add_items(texts("anew"))

    asyncio.run(play())
    store.scrub()
    for said in ("secret-popped", "secret-large", "secret-compacted", "secret-kept", "secret-summary"):
        assert files_with(place.path, said) == []
    assert asyncio.run(session.get_items()) == texts("anew")
    place.close()
    assert files_with(tmp_path, "secret-") == []


@pytest.mark.parametrize("mode", ["embedded", ENCRYPTED])
def test_a_fork_keeps_of_a_cleared_session_what_it_shares(mode: str, tmp_path: Path) -> None:
    """After a clear and a scrub a fork has its items, and no file one of the same append."""
    place = Engine(mode, tmp_path)
    store = place.open()
    session = EverdeltaSession(store, "chat")

    async def play() -> None:
        await session.add_items(texts("shared", "secret-beside", "secret-popped"))
        await session.pop_item()

    asyncio.run(play())
    feed = session._begun()
    fork = session.session.fork(at=feed.path()[0])
    asyncio.run(session.clear_session())
    store.scrub()
    assert [files_with(place.path, said) for said in ("secret-beside", "secret-popped")] == [[], []]
    assert viewed(ModelView.of(fork)) == [("user", "shared")]
    place.close()


class Scripted(Model):
    """A model that asks for a tool before each answer, and keeps what it was sent."""

    def __init__(self) -> None:
        self.sent: list[list[Any]] = []
        self.numbers = count(1)

    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> ModelResponse:
        """Call a tool twice, or answer when the results are there."""
        del system_instructions
        self.sent.append(list(input))
        number = next(self.numbers)
        output: list[Any] = [
            ResponseReasoningItem(
                id=f"rs_{number}", type="reasoning", summary=[Summary(text=f"why {number}", type="summary_text")]
            )
        ]
        if input[-1].get("type") == "function_call_output":
            text = ResponseOutputText(text=f"answer {number}", type="output_text", annotations=[])
            output.append(
                ResponseOutputMessage(
                    id=f"msg_{number}", content=[text], role="assistant", status="completed", type="message"
                )
            )
        else:
            output += [
                ResponseFunctionToolCall(
                    id=f"fc_{number}_{name}", call_id=f"call_{number}_{name}", name="look", arguments=f'{{"at": "{name}"}}', type="function_call"
                )
                for name in "ab"
            ]  # fmt: skip
        return ModelResponse(output=output, usage=Usage(), response_id=f"resp_{number}")

    def stream_response(self, *_: Any, **__: Any) -> Any:
        """Stream nothing."""
        raise NotImplementedError


def agent_of(model: Model) -> Agent[Any]:
    """Return an agent with one tool."""

    @function_tool
    async def look(at: str) -> str:
        """Look at a thing."""
        await asyncio.sleep(0.005 if at == "a" else 0)
        return f"seen {at}"

    return Agent(name="Agent", model=model, tools=[look])


PLAIN = RunConfig(tracing_disabled=True)


async def test_an_agent_goes_on_from_its_session(engine: Engine) -> None:
    """Each turn of a run sends the model what `SQLiteSession` would, and the view shows it."""
    model, theirs = Scripted(), Scripted()
    oracle = SQLiteSession("chat")
    for turn in ("first", "second", "third"):
        session = EverdeltaSession(engine.open(), "chat")
        await Runner.run(agent_of(model), turn, session=session, run_config=PLAIN)
        await Runner.run(agent_of(theirs), turn, session=oracle, run_config=PLAIN)
        items = await session.get_items()
        assert items == await oracle.get_items()
        assert shown(session) == listed(items)
    assert model.sent == theirs.sent
    oracle.close()
    assert len(model.sent[-1]) > 12


class Compacts:
    """A client whose `responses.compact` sums up its input."""

    def __init__(self) -> None:
        self.responses = self

    async def compact(self, **asked: Any) -> Any:
        """Return one user message, and an opaque item."""
        said = f"sum of {len(asked['input'])}"
        user = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": said}]}
        return SimpleNamespace(output=[user, {"type": "compaction", "id": "cmp", "encrypted_content": "x"}], usage=None)


@pytest.mark.promise(9)
async def test_the_sdk_compacts_and_it_can_be_undone(store: Store) -> None:
    """Compactions, automatic or by hand, agree with `SQLiteSession`, and can be undone."""
    session, oracle = EverdeltaSession(store, "chat"), SQLiteSession("chat")

    def wrapped(inner: Any) -> Any:
        return OpenAIResponsesCompactionSession(
            "chat", inner, client=Compacts(), compaction_mode="input",  # type: ignore[arg-type]
            should_trigger_compaction=lambda context: len(context["session_items"]) > 5,
        )  # fmt: skip

    kept = (wrapped(session), wrapped(oracle))
    models = (Scripted(), Scripted())
    before: list[Any] = []
    for turn in ("first", "second", "third"):
        for model, one in zip(models, kept, strict=True):
            before = await session.get_items() if one is kept[0] else before
            await Runner.run(agent_of(model), turn, session=one, run_config=PLAIN)
        items = await session.get_items()
        assert items == await oracle.get_items()
        assert shown(session) == listed(items)
    assert [item.get("type") for item in await session.get_items()].count("compaction") >= 1
    await session.add_items(texts("more"))
    before = await session.get_items()
    await kept[0].run_compaction({"force": True})
    assert len(await session.get_items()) == 2
    session.session.redo()
    assert await session.get_items() == before
    assert shown(session) == listed(before)
    oracle.close()


async def test_the_sdks_encryption_wraps_it(store: Store) -> None:
    """`EncryptedSession` keeps its envelopes in it; a compaction prunes expired ones."""
    inner = EverdeltaSession(store, "chat")
    session = EncryptedSession("chat", cast("Any", inner), "a key of many letters", ttl=600)
    await session.add_items(texts("a", "b", "c"))
    assert [item["payload"] != "" for item in await inner.get_items()] == [True] * 3
    session.ttl = -1
    assert await session.get_items() == []
    await session.add_items(texts("d"))
    expired = (await inner.get_items())[0]
    snapshot = await inner._get_compaction_snapshot(1, prune_prefix=lambda item: item == expired)
    assert snapshot is not None
    assert await snapshot.replace_suffix(0, texts("sum"))
    assert len(await inner.get_items()) == 3
    assert expired not in await inner.get_items()
