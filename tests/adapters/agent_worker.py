"""Programs that run agents of the frameworks, killed where a test says."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import msgspec

import eventlog
from eventlog import Store
from eventlog.log.commit import Append
from tests.support.faults.tracing import CHANGES, Call, traced

TURNS = ("first", "second")
ROOT = Path(__file__).resolve().parents[2]


class Program(msgspec.Struct):
    """A program: which framework's, on what store and server, and where it is killed."""

    framework: str
    store: str
    url: str
    out: str
    name: str = "chat"
    kill_at: int = 0
    """Number of the append at which the program dies; 0: at none."""
    behind: bool = False
    """Whether it dies when that append is durable, not before."""
    kill_call: int = 0
    """Number of the system call that changes the store at which it is killed; -1: count them."""
    entries: list[Any] = []
    """Entries to mirror, for the Claude Agent SDK."""


class Outcome(NamedTuple):
    """End of a program: what it printed, and the signal that killed it, 0 if none did."""

    told: list[Any]
    signal: int
    calls: int = 0
    """How many system calls it made that change the store, if they were counted."""

    @property
    def stored(self) -> list[Any]:
        """The newest list that the program knew to be stored."""
        found: list[list[Any]] = [one["stored"] for one in self.told if "stored" in one]
        return found[-1] if found else []

    @property
    def appends(self) -> int:
        """How many appends a program made that came to its end."""
        return next((one["appends"] for one in self.told if "appends" in one), 0)


class AgentWorker:
    """The process in which programs run."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.adapters.agent_worker"]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(30)

    def run(self, *programs: Program) -> list[Outcome]:
        """Run programs at once, and return how each ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([msgspec.to_builtins(one) for one in programs]) + "\n")
        self._process.stdin.flush()
        ended: list[tuple[int, int]] = json.loads(self._process.stdout.readline())
        told = [[json.loads(line) for line in Path(one.out).read_text().splitlines()] for one in programs]
        return [Outcome(lines, *how) for lines, how in zip(told, ended, strict=True)]


def main() -> None:
    """Run the programs of each line."""
    import agents  # pyright: ignore[reportUnusedImport]  # noqa: F401
    import claude_agent_sdk  # pyright: ignore[reportUnusedImport]  # noqa: F401
    import openai  # pyright: ignore[reportUnusedImport]  # noqa: F401
    import pydantic_ai.models.openai  # pyright: ignore[reportUnusedImport]  # noqa: F401

    for line in sys.stdin:
        programs = msgspec.json.decode(line, type=list[Program])
        if programs[0].kill_call:
            print(json.dumps([_traced(programs[0])]), flush=True)
            continue
        statuses = [os.waitpid(child, 0)[1] for child in [_begin(one) for one in programs]]
        for status in statuses:
            assert not os.WIFEXITED(status) or os.WEXITSTATUS(status) == 0, "a program failed"
        signals = [os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0 for status in statuses]
        print(json.dumps([(killed, 0) for killed in signals]), flush=True)


def _begin(program: Program) -> int:
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        _write(program)
        status = 0
    finally:
        sys.stderr.flush()
        os._exit(status)


def _traced(program: Program) -> tuple[int, int]:
    """Run a program under a tracer that kills it; return the signal, and the calls it made."""
    made = 0

    def decide(call: Call) -> int | None:
        nonlocal made
        made += call.path.startswith(program.store) and call.name in CHANGES
        return None if made == program.kill_call else 0

    ended = traced(lambda: _write(program), decide)
    assert ended.status <= 0, "a program failed"
    return -ended.status, made


def _write(program: Program) -> None:
    with Path(program.out).open("w") as out:
        _play(program, lambda told: print(json.dumps(told), file=out, flush=True))


def _play(program: Program, tell: Callable[[Any], None]) -> None:
    with eventlog.open(program.store) as store:
        counted = _Counting(store, program)
        asyncio.run(FRAMEWORKS[program.framework](store, program, tell))
        tell({"appends": counted.appends})


class _Counting:
    """Counts the appends of a store, and kills the process at one."""

    def __init__(self, store: Store, program: Program) -> None:
        self.appends = 0
        self._program = program
        self._submit = store.log.submit
        store.log.submit = self.submit  # type: ignore[method-assign]

    def submit(self, append: Append) -> Any:
        """Submit an append, unless the process dies before."""
        self.appends += 1
        dies = self.appends == self._program.kill_at
        if dies and not self._program.behind:
            os.kill(os.getpid(), signal.SIGKILL)
        ticket = self._submit(append)
        if dies:
            ticket.wait()
            os.kill(os.getpid(), signal.SIGKILL)
        return ticket


async def _openai_agents(store: Store, program: Program, tell: Callable[[Any], None]) -> None:
    """Run the turns that the session has not, with the SDK's own loop, streaming."""
    from agents import Agent, OpenAIResponsesModel, RunConfig, Runner, function_tool
    from openai import AsyncOpenAI

    from eventlog.adapters.openai_agents import EverdeltaSession

    @function_tool
    async def look(at: str) -> str:
        """Look at a thing."""
        return f"seen {at}"

    class Told(EverdeltaSession):
        async def add_items(self, items: list[Any]) -> None:
            await super().add_items(items)
            tell({"stored": await self.get_items()})

    client = AsyncOpenAI(base_url=program.url, api_key="none", max_retries=0)
    agent = Agent(name="Agent", model=OpenAIResponsesModel("m", client), tools=[look])
    session = Told(store, program.name)
    said = [item.get("content") for item in await session.get_items()]
    for turn in TURNS:
        if turn not in said:
            run = Runner.run_streamed(agent, turn, session=session, run_config=RunConfig(tracing_disabled=True))
            async for _ in run.stream_events():
                pass
    await client.close()


async def _pydantic_ai(store: Store, program: Program, tell: Callable[[Any], None]) -> None:
    """Run the turns that the conversation has not, and save each; a conflict loads again."""
    from openai import AsyncOpenAI
    from pydantic_ai import Agent
    from pydantic_ai.conversation import Conversation
    from pydantic_ai.conversation_store import ConversationConflict
    from pydantic_ai.messages import ModelMessagesTypeAdapter
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    from eventlog.adapters.pydantic_ai import EverdeltaConversationStore

    client = AsyncOpenAI(base_url=program.url, api_key="none", max_retries=0)
    agent = Agent(OpenAIChatModel("m", provider=OpenAIProvider(openai_client=client)))

    @agent.tool_plain
    def look(at: str) -> str:
        """Look at a thing."""
        return f"seen {at}"

    async def streams(_: Any, events: Any) -> None:
        async for _event in events:
            pass

    conversations = EverdeltaConversationStore(store)
    for turn in TURNS:
        while True:
            conversation = await conversations.load(program.name) or Conversation(conversation_id=program.name)
            if turn in [
                part.content
                for message in conversation.messages
                for part in message.parts
                if part.part_kind == "user-prompt"
            ]:
                break
            result = await agent.run(turn, conversation=conversation, event_stream_handler=streams)
            try:
                await conversations.save(result)
            except ConversationConflict:
                tell({"conflict": turn})
                continue
            stored = ModelMessagesTypeAdapter.dump_python(result.all_messages(), mode="json")
            tell({"stored": stored})
            break
    await client.close()


async def _pydantic_fork(store: Store, program: Program, tell: Callable[[Any], None]) -> None:
    """Save a conversation of pydantic-ai, and fork it, unless that is done."""
    from pydantic_ai.conversation import Conversation
    from pydantic_ai.messages import ModelRequest, UserPromptPart

    from eventlog.adapters.pydantic_ai import EverdeltaConversationStore

    conversations = EverdeltaConversationStore(store)
    if await conversations.load(program.name) is None:
        messages: list[Any] = [ModelRequest([UserPromptPart(turn)]) for turn in TURNS]
        await conversations.save(Conversation(conversation_id=program.name, messages=messages))
    if await conversations.load("fork") is None:
        await conversations.fork(program.name, at=1, new_conversation_id="fork")
    tell({"stored": ["fork"]})


async def _claude_agent(store: Store, program: Program, tell: Callable[[Any], None]) -> None:
    """Mirror the entries that the store has not, as the SDK does: the last batch is repeated."""
    from eventlog.adapters.claude_agent import EverdeltaSessionStore
    from tests.adapters.claude_entries import KEY

    transcripts = EverdeltaSessionStore(store)
    key = {**KEY, "project_key": program.name}
    done = max(len(await transcripts.load(key) or []) - 3, 0)
    for start in range(done, len(program.entries), 3):
        await transcripts.append(key, program.entries[start : start + 3])
        tell({"stored": await transcripts.load(key)})


async def _langgraph(store: Store, program: Program, tell: Callable[[Any], None]) -> None:
    """Go on with a run that broke off, and run the turns that the thread has not."""
    from langchain_core.messages import HumanMessage, messages_to_dict

    from eventlog.adapters.langgraph import EverdeltaSaver
    from tests.adapters.langgraph_agent import agent_on, config_of, messages_of

    saver, config = EverdeltaSaver(store), config_of(program.name)
    graph = agent_on(saver, program.url)

    def run(given: Any) -> None:
        graph.invoke(given, config, durability=program.framework.partition(" ")[2])
        tell({"stored": messages_to_dict(messages_of(graph, program.name))})

    if saver.get_tuple(config) is not None:
        run(None)
    while left := [turn for turn in TURNS if turn not in [one.content for one in messages_of(graph, program.name)]]:
        run({"messages": [HumanMessage(left[0])]})


FRAMEWORKS = {
    "langgraph sync": _langgraph,
    "langgraph async": _langgraph,
    "openai_agents": _openai_agents,
    "pydantic_ai": _pydantic_ai,
    "pydantic_fork": _pydantic_fork,
    "claude_agent": _claude_agent,
}


if __name__ == "__main__":
    main()
