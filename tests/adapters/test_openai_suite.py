"""Scenes of the OpenAI Agents SDK's session tests, with its store and with this one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest
from agents import Agent, RunConfig, Runner, SessionSettings, SQLiteSession
from agents.extensions.memory.encrypt_session import EncryptedSession
from agents.memory import OpenAIResponsesCompactionSession
from agents.testing import ScriptedModel
from openai.types.responses import ResponseOutputMessage, ResponseOutputText

from eventlog.adapters.openai_agents import EverdeltaSession
from projections import ModelView
from tests.adapters.openai_items import listed, viewed
from tests.support.engines import Engine

Make = Callable[..., Any]
SUMMARY: Any = {"type": "compaction", "id": "cmp", "encrypted_content": "sums it up"}
PLAIN = RunConfig(tracing_disabled=True)


def said(*texts: str) -> list[Any]:
    """Return user items."""
    return [{"role": "user", "content": text} for text in texts]


def reply(text: str) -> list[Any]:
    """Return the output of a model."""
    content = ResponseOutputText(text=text, type="output_text", annotations=[])
    return [ResponseOutputMessage(id="m", content=[content], role="assistant", status="completed", type="message")]


class Scene:
    """A session, and an agent whose model says one reply after the other."""

    def __init__(self, make: Make, how: str = "run") -> None:
        self.make = make
        self.how = how
        self.session = make("chat")
        self.seen: list[Any] = []
        """Items that are compared."""

    async def turn(self, text: str | list[Any], session: Any = None, **config: Any) -> None:
        """Run an agent once; what its model was sent counts."""
        model = ScriptedModel(steps=[reply(f"on {text}")])
        agent, kept = Agent(name="Agent", model=model), session or self.session
        run = RunConfig(tracing_disabled=True, **config)
        if self.how == "run":
            await Runner.run(agent, text, session=kept, run_config=run)
        elif self.how == "sync":
            await asyncio.to_thread(_sync, agent, text, kept, run)
        else:
            streamed = Runner.run_streamed(agent, text, session=kept, run_config=run)
            async for _ in streamed.stream_events():
                pass
        self.seen.append(list(model.calls[0].input))

    async def items(self, session: Any = None, **limit: Any) -> None:
        """Read items, which count."""
        self.seen.append(await (session or self.session).get_items(**limit))

    def compacting(self, compact: Callable[..., Any] | None = None, session: Any = None, **options: Any) -> Any:
        """Return the SDK's session that compacts after each run."""

        async def sums(**asked: Any) -> Any:
            self.seen.append(asked.get("input"))
            if compact is not None:
                await compact()
            return SimpleNamespace(output=[SUMMARY])

        client = cast("Any", SimpleNamespace(responses=SimpleNamespace(compact=sums)))
        options = {"compaction_mode": "input", "should_trigger_compaction": bool, **options}
        return OpenAIResponsesCompactionSession("chat", session or self.session, client=client, **options)


def _sync(agent: Agent[Any], text: Any, session: Any, run: RunConfig) -> None:
    """Run an agent in a thread with an event loop of its own."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        Runner.run_sync(agent, text, session=session, run_config=run)
    finally:
        loop.close()


async def goes_on(scene: Scene) -> None:
    """Turns of two sessions, each with its own history."""
    other = scene.make("other")
    for turn in ("I like cats", "what do I like?"):
        await scene.turn(turn)
        await scene.turn(f"not {turn}", other)
    await scene.items()
    await scene.items(other)


async def takes_lists(scene: Scene) -> None:
    """A turn of several items goes behind the history, or where a callback puts it."""
    await scene.session.add_items([*said("earlier"), {"role": "assistant", "content": "saved"}])
    await scene.turn(said("a", "b"))
    await scene.turn(said("c"), session_input_callback=_first_and_new)
    await scene.items()


def _first_and_new(old: list[Any], new: list[Any]) -> list[Any]:
    return [*old[:1], *new]


async def limits(scene: Scene) -> None:
    """Limits of the run, of the session as class and as dict, and of a call."""
    await scene.session.add_items(said(*map(str, range(6))))
    for settings in (SessionSettings(limit=2), SessionSettings(limit=0), SessionSettings(limit=100), {"limit": 1}):
        await scene.turn("more", session_settings=settings)
        limited = scene.make("chat", session_settings=settings)
        await scene.items(limited)
        await scene.items(limited, limit=3)
        await scene.turn("and more", limited)
        scene.seen.append(limited.session_settings)
    scene.seen.append(scene.session.session_settings)


async def compacts_an_end(scene: Scene) -> None:
    """Items that the model was not sent stay before the summary."""
    await scene.session.add_items(said("a", "b", "c"))
    await scene.turn("go on", scene.compacting(), session_settings=SessionSettings(limit=1))
    await scene.items()
    await scene.turn("and on", scene.compacting())
    await scene.items()


async def keeps_calls_whole(scene: Scene) -> None:
    """A call is not parted from its output, nor reasoning from what follows it."""
    call = {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c", "output": "seen"}
    reasoning: Any = {"type": "reasoning", "id": "rs", "summary": []}
    await scene.session.add_items([reasoning, call, output])
    await scene.turn("go on", scene.compacting(), session_settings=SessionSettings(limit=2))
    await scene.items()


async def keeps_newer_items(scene: Scene) -> None:
    """Items that come while a summary is made are not replaced."""
    await scene.session.add_items(said("a", "b"))

    async def meanwhile() -> None:
        await scene.session.add_items(said("newer"))

    await scene.turn("go on", scene.compacting(meanwhile), session_settings=SessionSettings(limit=1))
    await scene.items()


async def compacts_when_asked(scene: Scene) -> None:
    """A compaction that the program asks for replaces all."""
    session = scene.compacting()
    await session.add_items(said("a", "b"))
    await session.run_compaction({"force": True})
    await scene.items()
    await session.add_items(said("c"))
    await session.run_compaction({"force": True})
    await scene.items()


async def needs_whole_chains(scene: Scene) -> None:
    """With previous responses only a whole history is compacted."""
    await scene.session.add_items(said("a", "b"))
    session = scene.compacting(compaction_mode="previous_response_id")
    await scene.turn("go on", session, session_settings=SessionSettings(limit=1))
    await scene.items()


SCENES: list[Callable[[Scene], Any]] = [goes_on, takes_lists, limits, compacts_an_end, keeps_calls_whole, keeps_newer_items, compacts_when_asked, needs_whole_chains]  # fmt: skip


@pytest.fixture
def makers(engine: Engine) -> Iterator[tuple[Make, Make]]:
    """Give what makes the SDK's sessions, and what makes these."""
    path = engine.path.parent / "sdk.db"
    made: list[SQLiteSession] = []

    def theirs(name: str, **options: Any) -> SQLiteSession:
        made.append(SQLiteSession(name, path, **options))
        return made[-1]

    def ours(name: str, **options: Any) -> EverdeltaSession:
        return EverdeltaSession(engine.open(), name, **options)

    yield theirs, ours
    for session in made:
        session.close()


@pytest.mark.parametrize(
    ("scene", "how"),
    [(scene, how) for scene in SCENES for how in ("run", "sync", "streamed") if how == "run" or scene in SCENES[:3]],
    ids=lambda one: getattr(one, "__name__", one),
)
def test_a_scene_ends_as_with_the_sdks_store(
    makers: tuple[Make, Make], scene: Callable[[Scene], Any], how: str
) -> None:
    """Models are sent, readers get, and the session keeps equal items, run in any way."""
    played = [Scene(make, how) for make in makers]
    for one in played:
        asyncio.run(scene(one))
    assert played[1].seen == played[0].seen
    ours = played[1].session
    assert viewed(ModelView.of(ours.session)) == listed(asyncio.run(ours.get_items(-1)))


@pytest.mark.parametrize("outside", [False, True])
def test_encryption_and_compaction_wrap_it_in_any_order(makers: tuple[Make, Make], outside: bool) -> None:
    """Encryption by the SDK around its compaction, or inside of it, changes no item."""

    async def play(scene: Scene) -> list[Any]:
        def hidden(session: Any) -> Any:
            return EncryptedSession("chat", session, encryption_key="synthetic", ttl=600)

        session = hidden(scene.compacting()) if outside else scene.compacting(session=hidden(scene.session))
        await session.add_items(said("a", "b", "c"))
        await scene.turn("go on", session, session_settings=SessionSettings(limit=1))
        left: list[Any] = await session.get_items()
        assert len(await scene.session.get_items()) == len(left)
        return left

    scenes = [Scene(make) for make in makers]
    left = [asyncio.run(play(scene)) for scene in scenes]
    assert left[1] == left[0]
    assert scenes[1].seen == scenes[0].seen


async def test_a_cancelled_compaction_settles_before_a_newer_item(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run cancelled while its end is replaced has replaced it before the next item is added."""
    backend = EverdeltaSession(engine.open(), "chat")
    started, release = threading.Event(), threading.Event()
    scene = Scene(partial(getattr, SimpleNamespace(chat=backend)))
    await backend.add_items(said("a", "b", "c"))
    session = scene.compacting()
    feed, add = backend._begun(), backend._begun().add

    def gated(values: Any, **options: Any) -> Any:
        if values == [SUMMARY]:
            started.set()
            assert release.wait(10)
        return add(values, **options)

    monkeypatch.setattr(feed, "add", gated)
    model = ScriptedModel(steps=[reply("done")])
    config = RunConfig(tracing_disabled=True, session_settings=SessionSettings(limit=1))
    run = Runner.run(Agent(name="Agent", model=model), "go on", session=session, run_config=config)
    work = asyncio.create_task(run)
    assert await asyncio.to_thread(started.wait, 10)
    work.cancel()
    newer = asyncio.create_task(session.add_items(said("newer")))
    await asyncio.sleep(0.01)
    work.cancel()
    await asyncio.sleep(0.01)
    assert not newer.done()
    release.set()
    with pytest.raises(asyncio.CancelledError):
        await work
    await newer
    assert await backend.get_items() == [*said("a", "b"), SUMMARY, *said("newer")]


def test_a_write_that_fails_ends_a_streamed_run(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A streamed run whose session cannot be written raises, and does not hang."""
    session = EverdeltaSession(engine.open(), "chat")

    def fails(tell: object) -> None:
        raise FileNotFoundError(str(tell))

    async def play() -> None:
        streamed = Runner.run_streamed(
            Agent(name="Agent", model=ScriptedModel(steps=[reply("never")])), "Hi", session=session, run_config=PLAIN
        )
        async for _ in streamed.stream_events():
            pass

    monkeypatch.setattr(session, "_write", fails)
    with pytest.raises(FileNotFoundError):
        asyncio.run(asyncio.wait_for(play(), 10))
