"""Stores of a framework's conversation: the engine's, its own, and JSON files."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import eventlog
from benchmarks.peers.base import imported
from benchmarks.workloads import Turn

__all__ = ["SIDES", "Framework", "Talk"]

KEY = {"project_key": "-work", "session_id": "0f4a7c6e-0000-4000-8000-000000000001"}


class Talk(Protocol):
    """One conversation in one store."""

    def turn(self, turn: Turn) -> None:
        """Add a turn; as durable as the store makes it when this returns."""
        ...

    def load(self) -> None:
        """Read the whole conversation."""
        ...

    def close(self) -> None:
        """Close the store."""
        ...


class Framework(NamedTuple):
    """A framework, and stores of it by name; the engine's is the first."""

    name: str
    sides: dict[str, Callable[[Path], Talk]]


class _Engine:
    """A store of the engine, and the loop that the framework's coroutines run in."""

    def __init__(self, directory: Path) -> None:
        self.store = eventlog.open(directory / "store")
        self.runner = asyncio.Runner()

    def close(self) -> None:
        self.runner.close()
        self.store.close()


async def _dropped(work: Awaitable[object]) -> None:
    """Drop the result: `Runner.run` would make a text of it, to compare signal handlers."""
    await work


# -- OpenAI Agents -----------------------------------------------------------------------------


def _items(turn: Turn, number: int) -> list[dict[str, Any]]:
    text = {"type": "output_text", "text": "".join(turn.answer), "annotations": list[Any](), "logprobs": list[Any]()}
    answer = {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed", "content": [text]}
    call = {
        "type": "function_call",
        "call_id": f"call_{number}",
        "name": "bash",
        "arguments": json.dumps({"command": turn.command}),
    }
    result = {"type": "function_call_output", "call_id": f"call_{number}", "output": turn.output}
    return [{"role": "user", "content": turn.question}, call, result, answer]


class _Session:
    """A session of the OpenAI Agents SDK."""

    def __init__(self, session: Any, runner: asyncio.Runner, close: Callable[[], None]) -> None:
        self._session = session
        self._runner = runner
        self._numbers = count(1)
        self.close = close

    def turn(self, turn: Turn) -> None:
        """Add the items of a turn in one call."""
        self._runner.run(self._session.add_items(_items(turn, next(self._numbers))))

    def load(self) -> None:
        """Read all items."""
        self._runner.run(_dropped(self._session.get_items()))


def _openai_agents() -> Framework:
    sqlite_session = imported("agents").SQLiteSession
    session_of = imported("eventlog.adapters.openai_agents").EverdeltaSession

    def ours(directory: Path) -> Talk:
        engine = _Engine(directory)
        return _Session(session_of(engine.store, "chat"), engine.runner, engine.close)

    def theirs(directory: Path) -> Talk:
        session, runner = sqlite_session("chat", directory / "chat.db"), asyncio.Runner()

        def close() -> None:
            session.close()
            runner.close()

        return _Session(session, runner, close)

    return Framework("OpenAI Agents", {"everdelta": ours, "SQLiteSession": theirs})


# -- pydantic-ai -------------------------------------------------------------------------------


class _Conversation:
    """A conversation of pydantic-ai."""

    def __init__(self, store: Any, runner: asyncio.Runner, close: Callable[[], None]) -> None:
        self._store = store
        self._runner = runner
        self._messages = imported("pydantic_ai.messages")
        self._conversation: Any = imported("pydantic_ai.conversation").Conversation(conversation_id="chat")
        self._numbers = count(1)
        self.close = close

    def messages(self, turn: Turn) -> list[Any]:
        """Return the messages of a turn."""
        m, call = self._messages, f"call_{next(self._numbers)}"
        return [
            m.ModelRequest([m.UserPromptPart(turn.question)]),
            m.ModelResponse([m.ToolCallPart("bash", {"command": turn.command}, call)]),
            m.ModelRequest([m.ToolReturnPart("bash", turn.output, call)]),
            m.ModelResponse([m.TextPart("".join(turn.answer))]),
        ]

    def turn(self, turn: Turn) -> None:
        """Save the messages of a turn."""
        self._conversation.messages.extend(self.messages(turn))
        self._runner.run(self._store.save(self._conversation))

    def load(self) -> None:
        """Load the conversation."""
        self._runner.run(_dropped(self._store.load("chat")))


class _ConversationFile(_Conversation):
    """The messages as a list in a JSON file, which is written whole."""

    def __init__(self, directory: Path) -> None:
        super().__init__(None, asyncio.Runner(), lambda: None)
        self._path = directory / "chat.json"
        self._adapter = self._messages.ModelMessagesTypeAdapter

    def turn(self, turn: Turn) -> None:
        """Write the whole file again."""
        self._conversation.messages.extend(self.messages(turn))
        self._path.write_bytes(self._adapter.dump_json(self._conversation.messages))

    def load(self) -> None:
        """Read and validate the messages."""
        self._adapter.validate_json(self._path.read_bytes())


def _pydantic_ai() -> Framework:
    store_of = imported("eventlog.adapters.pydantic_ai").EverdeltaConversationStore

    def ours(directory: Path) -> Talk:
        engine = _Engine(directory)
        return _Conversation(store_of(engine.store), engine.runner, engine.close)

    in_memory = imported("pydantic_ai.conversation_store").InMemoryConversationStore
    stores: dict[Path, Any] = {}

    def theirs(directory: Path) -> Talk:
        return _Conversation(stores.setdefault(directory, in_memory()), asyncio.Runner(), lambda: None)

    sides: dict[str, Callable[[Path], Talk]] = {
        "everdelta": ours,
        "InMemoryConversationStore": theirs,
        "a JSON file": _ConversationFile,
    }
    return Framework("pydantic-ai", sides)


# -- Claude Agent SDK --------------------------------------------------------------------------


class _Transcript:
    """A transcript of the Claude Agent SDK: a turn is one batch of entries."""

    def __init__(self, store: Any, runner: asyncio.Runner, close: Callable[[], None]) -> None:
        self._store = store
        self._runner = runner
        self._numbers = count(1)
        self.close = close

    def entries(self, turn: Turn) -> list[dict[str, Any]]:
        """Return the entries of a turn, each behind the one before."""
        call = f"toolu_{next(self._numbers)}"
        result = {"type": "tool_result", "tool_use_id": call, "content": turn.output}
        return [
            self._entry("user", turn.question),
            self._entry(
                "assistant", [{"type": "tool_use", "id": call, "name": "Bash", "input": {"command": turn.command}}]
            ),
            self._entry("user", [result], toolUseResult={"stdout": turn.output, "stderr": "", "interrupted": False}),
            self._entry("assistant", [{"type": "text", "text": "".join(turn.answer)}]),
        ]

    def _entry(self, kind: str, content: Any, **more: Any) -> dict[str, Any]:
        number = next(self._numbers)
        message: dict[str, Any] = {"role": kind, "content": content}
        if kind == "assistant":
            usage = {"input_tokens": 100, "output_tokens": 20}
            message |= {"id": f"msg_{number}", "model": "claude", "stop_reason": None, "usage": usage}
        uuid = "{:08x}-0000-4000-8000-000000000000".format
        return {
            "type": kind, "uuid": uuid(number), "parentUuid": uuid(number - 1), "sessionId": KEY["session_id"],
            "timestamp": "2026-01-01T00:00:00.000Z", "isSidechain": False, "cwd": "/work", "version": "2.1.0", "gitBranch": "main",
            "message": message, **more,
        }  # fmt: skip

    def turn(self, turn: Turn) -> None:
        """Append the entries of a turn."""
        self._runner.run(self._store.append(KEY, self.entries(turn)))

    def load(self) -> None:
        """Load the transcript."""
        self._runner.run(_dropped(self._store.load(KEY)))


class _TranscriptFile(_Transcript):
    """The transcript as Claude Code's own file, a line for each entry."""

    def __init__(self, directory: Path) -> None:
        super().__init__(None, asyncio.Runner(), lambda: None)
        self._path = directory / "chat.jsonl"

    def turn(self, turn: Turn) -> None:
        """Append lines, without a sync."""
        with self._path.open("a") as file:
            file.writelines(json.dumps(entry) + "\n" for entry in self.entries(turn))

    def load(self) -> None:
        """Read and decode all lines."""
        with self._path.open() as file:
            [json.loads(line) for line in file]


def _claude_agent() -> Framework:
    imported("claude_agent_sdk")
    store_of = imported("eventlog.adapters.claude_agent").EverdeltaSessionStore

    def ours(directory: Path) -> Talk:
        engine = _Engine(directory)
        return _Transcript(store_of(engine.store), engine.runner, engine.close)

    return Framework("Claude Agent SDK", {"everdelta": ours, "its file": _TranscriptFile})


SIDES: dict[str, Callable[[], Framework]] = {
    "OpenAI Agents": _openai_agents,
    "pydantic-ai": _pydantic_ai,
    "Claude Agent SDK": _claude_agent,
}
"""Frameworks by name; `ImportError` from one that is not installed."""
