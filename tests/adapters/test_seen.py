"""Questions that come while a framework's run is going: its answer has not seen them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from threading import Event
from typing import Any, Literal

import pytest
from agents import Agent, ModelResponse, RunConfig, Runner, Usage
from agents.models.interface import Model
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from openai.types.responses import ResponseOutputMessage, ResponseOutputText
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import ModelResponse as PydanticResponse
from pydantic_ai import TextPart
from pydantic_ai.conversation import Conversation
from pydantic_ai.models.function import FunctionModel

from eventlog import Session, Store
from eventlog import events as ev
from eventlog.adapters.claude_agent import EverdeltaSessionStore
from eventlog.adapters.langgraph import EverdeltaSaver
from eventlog.adapters.openai_agents import EverdeltaSession
from eventlog.adapters.openai_feed import ItemFeed
from eventlog.adapters.pydantic_ai import EverdeltaConversationStore
from eventlog.session.outcome import outcome_of
from projections import ModelView
from projections.view.neutral import Text
from tests.adapters.claude_entries import KEY, said

Durability = Literal["sync", "async", "exit"]
Meanwhile = Callable[[str], None]
"""Work of the model while it answers a text."""


class Chat:
    """One framework's chat: each run asks, and the model answers."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.meanwhile: Meanwhile = lambda _: None

    @property
    def session(self) -> Session:
        """The session of the chat."""
        raise NotImplementedError

    def ask(self, text: str) -> None:
        """Ask a question beside the framework."""
        self.session.user(text)

    async def run(self, text: str) -> None:
        """Ask a question, which the model answers with `answer to TEXT`."""
        raise NotImplementedError


class OpenAIChat(Chat):
    """The OpenAI Agents SDK."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.items = EverdeltaSession(store, "chat")
        chat = self

        class Answers(Model):
            async def get_response(self, *given: Any, **more: Any) -> ModelResponse:
                text = (more.get("input") or given[1])[-1]["content"]
                await asyncio.to_thread(chat.meanwhile, text)
                block = ResponseOutputText(text=f"answer to {text}", type="output_text", annotations=[])
                message = ResponseOutputMessage(
                    id=f"m-{text}", content=[block], role="assistant", status="completed", type="message"
                )
                return ModelResponse(output=[message], usage=Usage(), response_id=None)

            def stream_response(self, *given: Any, **more: Any) -> Any:
                raise NotImplementedError

        self.agent = Agent(name="agent", model=Answers())

    @property
    def session(self) -> Session:
        """The session of the chat."""
        return self.items.session

    async def run(self, text: str) -> None:
        """Run the agent."""
        await Runner.run(self.agent, text, session=self.items, run_config=RunConfig(tracing_disabled=True))


class LangGraphChat(Chat):
    """A graph of LangGraph that answers in one step."""

    durability: Durability = "sync"

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.saver = EverdeltaSaver(store)
        builder: Any = StateGraph(MessagesState)
        builder.add_node("say", self._say)
        builder.add_edge(START, "say")
        builder.add_edge("say", END)
        self.graph = builder.compile(checkpointer=self.saver)

    def _say(self, state: Any) -> Any:
        text = state["messages"][-1].content
        self.meanwhile(text)
        return {"messages": [AIMessage(f"answer to {text}")]}

    @property
    def session(self) -> Session:
        """The session of the chat."""
        return self.saver.session("chat")

    async def run(self, text: str) -> None:
        """Run the graph."""
        config: Any = {"configurable": {"thread_id": "chat"}}
        await self.graph.ainvoke({"messages": [HumanMessage(text)]}, config, durability=self.durability)


class LangGraphExitChat(LangGraphChat):
    """A graph that stores one checkpoint at the end of a run."""

    durability: Durability = "exit"


class PydanticChat(Chat):
    """An agent of pydantic-ai with a conversation store."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.conversations = EverdeltaConversationStore(store)

        def answer(messages: list[Any], info: Any) -> PydanticResponse:
            del info
            text = str(messages[-1].parts[-1].content)
            self.meanwhile(text)
            return PydanticResponse([TextPart(f"answer to {text}")])

        self.agent: PydanticAgent[None, str] = PydanticAgent(FunctionModel(answer))

    @property
    def session(self) -> Session:
        """The session of the chat."""
        return self.conversations.session("chat")

    async def run(self, text: str) -> None:
        """Run the agent, and save the conversation."""
        conversation = await self.conversations.load("chat") or Conversation(conversation_id="chat")
        result = await self.agent.run(text, conversation=conversation)
        await self.conversations.save(result)


class ClaudeChat(Chat):
    """Transcripts as Claude Code writes them: prompt and answer apart."""

    together = False

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.transcripts = EverdeltaSessionStore(store)
        self.number = 0
        self.leaf: str | None = None

    def _entry(self, kind: str, content: Any, **more: Any) -> dict[str, Any]:
        self.number += 1
        entry = said(self.number, kind, content, self.leaf, **more)
        self.leaf = entry["uuid"]
        return entry

    @property
    def session(self) -> Session:
        """The session of the chat."""
        return self.store.open_session(("claude-agent", f"{KEY['project_key']}/{KEY['session_id']}"), create=False)

    async def run(self, text: str) -> None:
        """Append what a prompt and its answer write."""
        asked: list[Any] = [self._entry("user", text)]
        if not self.together:
            await self.transcripts.append(KEY, asked)
            asked = []
        self.meanwhile(text)
        block = {"type": "text", "text": f"answer to {text}"}
        answer = self._entry("assistant", [block], message={"id": f"m{self.number}", "stop_reason": "end_turn"})
        await self.transcripts.append(KEY, [*asked, answer])


class ClaudeBatchChat(ClaudeChat):
    """Transcripts with prompt and answer in one append."""

    together = True


CHATS = [OpenAIChat, LangGraphChat, LangGraphExitChat, PydanticChat, ClaudeChat, ClaudeBatchChat]


def outcomes(session: Session) -> dict[str, str]:
    """Return the state of each question by its text."""
    asked = {one.event.message for one in session.events() if isinstance(one.event, ev.UserMessageAdded)}
    return {
        part.text: outcome_of(session.reader, message.source).state
        for message in ModelView.of(session).messages
        for part in message.parts
        if message.source in asked and isinstance(part, Text)
    }


def answers_of(session: Session) -> list[ev.AssistantMessageStarted]:
    """Return the first events of all answers."""
    return [one.event for one in session.events() if isinstance(one.event, ev.AssistantMessageStarted)]


def shown(session: Session) -> list[str]:
    """Return the texts of the view."""
    return [part.text for message in ModelView.of(session).messages for part in message.parts if isinstance(part, Text)]


@pytest.mark.promise(2)
@pytest.mark.parametrize("kind", CHATS)
def test_the_last_answer_of_a_run_is_over_when_it_is_told(store: Store, kind: type[Chat]) -> None:
    """Nothing is left to do behind it, and no lease or turn takes it away."""
    chat = kind(store)
    asyncio.run(chat.run("zero"))
    assert store.unfinished() == []
    with chat.session.lease():
        pass
    with chat.session.turn() as turn:
        assert turn.state == "done"
    assert shown(chat.session) == ["zero", "answer to zero"]
    asyncio.run(chat.run("one"))
    assert shown(chat.session) == ["zero", "answer to zero", "one", "answer to one"]
    assert store.unfinished() == []


@pytest.mark.promise(2)
@pytest.mark.parametrize("kind", CHATS)
def test_a_question_that_comes_during_the_run_of_a_framework_is_not_done(store: Store, kind: type[Chat]) -> None:
    """The run answers its own question; the other waits behind the answer, and is listed."""
    chat = kind(store)
    asyncio.run(chat.run("zero"))
    chat.meanwhile = lambda _: chat.ask("native")
    asyncio.run(chat.run("one"))
    assert shown(chat.session) == ["zero", "answer to zero", "one", "answer to one", "native"]
    assert outcomes(chat.session) == {"zero": "done", "one": "done", "native": "pending"}
    chat.meanwhile = lambda _: None
    asyncio.run(chat.run("two"))  # it is not sent the native question either
    assert shown(chat.session)[-4:] == ["answer to one", "two", "answer to two", "native"]
    assert outcomes(chat.session) == {"zero": "done", "one": "done", "two": "done", "native": "pending"}
    assert [info.id for info in store.unfinished()] == [chat.session.id]
    assert all(answer.seen is not None for answer in answers_of(chat.session))
    view = ModelView.of(chat.session)
    with chat.session.turn(), chat.session.assistant("openai/gpt-5", view=view) as reply:
        reply.add_text("answer to native")
        reply.finish()
    assert set(outcomes(chat.session).values()) == {"done"}
    assert outcomes(chat.session)["native"] == "done"


@pytest.mark.promise(2)
@pytest.mark.parametrize("kind", CHATS)
def test_a_question_asked_before_the_run_of_a_framework_is_not_done(store: Store, kind: type[Chat]) -> None:
    """A framework sends its own list only, so a question that is not in it waits on."""
    chat = kind(store)
    asyncio.run(chat.run("zero"))
    chat.session.user("native")
    asyncio.run(chat.run("one"))
    asyncio.run(chat.run("two"))
    assert outcomes(chat.session) == {"zero": "done", "one": "done", "two": "done", "native": "pending"}
    assert shown(chat.session)[-3:] == ["two", "answer to two", "native"]


@pytest.mark.promise(2)
@pytest.mark.parametrize("kind", CHATS)
def test_a_question_that_was_answered_stays_done_behind_the_run_of_a_framework(store: Store, kind: type[Chat]) -> None:
    """A question that a native reply has answered keeps its place, and is done."""
    chat = kind(store)
    asyncio.run(chat.run("zero"))
    with chat.session.turn("native", request_id="r"), chat.session.assistant("openai/gpt-5") as reply:
        reply.add_text("answer to native")
        reply.finish()
    asyncio.run(chat.run("one"))
    asyncio.run(chat.run("two"))
    assert outcomes(chat.session) == {"zero": "done", "native": "done", "one": "done", "two": "done"}
    assert shown(chat.session)[2:6] == ["native", "answer to native", "one", "answer to one"]


@pytest.mark.promise(2)
@pytest.mark.parametrize("end", ["calls", "broken off"])
@pytest.mark.parametrize("kind", CHATS)
def test_a_question_that_only_an_unfinished_turn_has_seen_is_not_done(store: Store, kind: type[Chat], end: str) -> None:
    """A reply with calls, or one that broke off, leaves its questions pending: all of them."""
    chat = kind(store)
    asyncio.run(chat.run("zero"))
    chat.session.user("older")
    with (
        suppress(KeyboardInterrupt),
        chat.session.turn("native", request_id="r"),
        chat.session.assistant("openai/gpt-5", view=ModelView.of(chat.session)) as reply,
    ):
        if end == "broken off":
            raise KeyboardInterrupt
        reply.tool("look", call_id="c", input={}).succeed("found")
        reply.finish("tool-calls")
    asyncio.run(chat.run("one"))
    asyncio.run(chat.run("two"))
    found = outcomes(chat.session)
    assert (found["older"], found["native"], found["one"]) == ("pending", "pending", "done")
    assert shown(chat.session)[-4:] == ["two", "answer to two", "older", "native"]
    assert sum(isinstance(one.event, ev.MessagePromoted) for one in chat.session.events()) == 2 * 2
    assert [info.id for info in store.unfinished()] == [chat.session.id]


@pytest.mark.promise(2)
async def test_a_run_that_fails_behind_its_call_leaves_its_question_to_be_answered(store: Store) -> None:
    """Another run of OpenAI Agents that was not sent the question does not answer it."""
    first, second, third = (EverdeltaSession(store, "chat") for _ in range(3))
    await first.get_items()
    await second.get_items()
    await first.add_items([{"role": "user", "content": "a"}])
    await second.add_items([{"role": "user", "content": "b"}])
    call = {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"}
    await first.add_items([call, {"type": "function_call_output", "call_id": "c", "output": "found"}])
    await second.add_items([{"role": "assistant", "content": "answer to b"}])
    await third.add_items([{"role": "user", "content": "end"}])
    assert outcomes(first.session) == {"a": "pending", "b": "done", "end": "pending"}


@pytest.mark.promise(2)
def test_a_forgotten_question_takes_no_place(store: Store) -> None:
    """A question whose record was forgotten is not put behind the answers that come."""
    chat = OpenAIChat(store)
    asyncio.run(chat.run("zero"))
    feed = ItemFeed(chat.session)
    feed.forget(feed.add([{"role": "user", "content": "gone"}]))
    asyncio.run(chat.run("one"))
    assert not any(isinstance(one.event, ev.MessagePromoted) for one in chat.session.events())
    assert shown(chat.session) == ["zero", "answer to zero", "one", "answer to one"]


@pytest.mark.promise(2)
@pytest.mark.parametrize("way", ["two handles", "one handle"])
def test_a_question_of_another_run_of_openai_agents_is_not_done(store: Store, way: str) -> None:
    """Of two runs on one session each answers its own question, in whichever order they end."""

    async def main(first: str, second: str) -> None:
        ours = OpenAIChat(store)
        theirs = OpenAIChat(store)
        if way == "one handle":
            theirs.items = ours.items
        going, asked, ended = Event(), Event(), Event()

        def meanwhile(text: str) -> None:
            if text == first:
                going.set()
                asked.wait(10)
            else:
                asked.set()
                ended.wait(10)

        ours.meanwhile = theirs.meanwhile = meanwhile

        async def run_first() -> None:
            await ours.run(first)
            found = outcomes(ours.session)
            assert (found[first], found[second]) == ("done", "pending")
            ended.set()

        task = asyncio.create_task(run_first())
        await asyncio.to_thread(going.wait, 10)
        await asyncio.gather(task, theirs.run(second))
        found = outcomes(ours.session)
        assert (found[first], found[second]) == ("done", "done")
        assert len({one.reply_to for one in answers_of(ours.session)}) == 2

    asyncio.run(main("a", "b"))
    asyncio.run(OpenAIChat(store).run("last"))
    assert outcomes(OpenAIChat(store).session) == {"a": "done", "b": "done", "last": "done"}
