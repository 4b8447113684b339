"""Conversations of the frameworks as the contract speaks to them, each on its adapter."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.base import empty_checkpoint
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import ModelRequest, ModelResponse, ToolCallPart, ToolReturnPart, UserPromptPart

from eventlog import LeaseHeldError, Session, Store
from eventlog.adapters.claude_agent import EverdeltaSessionStore
from eventlog.adapters.langgraph import EverdeltaSaver
from eventlog.adapters.openai_agents import EverdeltaSession
from eventlog.adapters.pydantic_ai import EverdeltaConversationStore
from eventlog.testing import Said


class Talk:
    """A conversation in a store."""

    format: str

    def __init__(self, store: Store, name: str) -> None:
        self.store = store
        self.name = name

    @property
    def session(self) -> Session:
        """The session of the conversation."""
        return self.store.open_session((self.format, self.name))


class OpenAITalk(Talk):
    """Items of the OpenAI Agents SDK."""

    format = "openai-agents"

    def __init__(self, store: Store, name: str) -> None:
        super().__init__(store, name)
        self.items = EverdeltaSession(store, name)

    async def add(self, said: Sequence[Said]) -> None:
        """Add items."""
        make: dict[str, Callable[[Said], Any]] = {
            "user": lambda one: {"role": "user", "content": one.text, "data": one.data},
            "call": lambda one: {"type": "function_call", "call_id": one.call, "name": "look", "arguments": one.text},
            "result": lambda one: {"type": "function_call_output", "call_id": one.call, "output": one.text},
        }
        await self.items.add_items([make[one.kind](one) for one in said])

    async def read(self) -> list[Said]:
        """Return what the items say."""
        return [
            Said(one["content"], data=one["data"])
            if "role" in one
            else Said(one["arguments"], "call", one["call_id"])
            if one["type"] == "function_call"
            else Said(one["output"], "result", one["call_id"])
            for one in await self.items.get_items()
        ]

    async def erase(self) -> None:
        """Clear the session."""
        await self.items.clear_session()


class ClaudeTalk(Talk):
    """Entries of a transcript of Claude Code, each behind the last that this object knows."""

    format = "claude-agent"

    def __init__(self, store: Store, name: str) -> None:
        super().__init__(store, name)
        self.transcripts = EverdeltaSessionStore(store)
        self.key: Any = {"project_key": "-work", "session_id": name}
        self.leaf: str | None = None

    @property
    def session(self) -> Session:
        """The session of the transcript."""
        return self.transcripts.session(self.key)

    async def add(self, said: Sequence[Said]) -> None:
        """Append entries."""
        entries = [self._entry(one) for one in said]
        await self.transcripts.append(self.key, entries)

    async def read(self) -> list[Said]:
        """Load the entries."""
        entries = await self.transcripts.load(self.key) or []
        self.leaf = entries[-1]["uuid"] if entries else None
        return [Said(*entry["said"]) for entry in entries]

    async def erase(self) -> None:
        """Delete the transcript."""
        await self.transcripts.delete(self.key)
        self.leaf = None

    def _entry(self, one: Said) -> dict[str, Any]:
        call: dict[str, Any] = {"type": "tool_use", "id": one.call, "name": "look", "input": {}}
        result: dict[str, Any] = {"type": "tool_result", "tool_use_id": one.call, "content": one.text}
        content: Any = {"user": one.text, "call": [call], "result": [result]}[one.kind]
        if one.kind == "call":
            call["input"] = json.loads(one.text)
        role = "assistant" if one.kind == "call" else "user"
        message: dict[str, Any] = {"role": role, "content": content}
        if role == "assistant":
            message |= {"id": f"msg_{one.call}", "type": "message", "model": "m", "stop_reason": "tool_use"}
        entry = {"type": role, "uuid": str(uuid.uuid4()), "parentUuid": self.leaf, "sessionId": self.name}
        self.leaf = str(entry["uuid"])
        return entry | {"message": message, "said": [one.text, one.kind, one.call, one.data]}


class PydanticTalk(Talk):
    """Messages of a conversation of pydantic-ai."""

    format = "pydantic-ai"

    def __init__(self, store: Store, name: str) -> None:
        super().__init__(store, name)
        self.conversations = EverdeltaConversationStore(store)
        self.loaded: Conversation | None = None

    async def add(self, said: Sequence[Said]) -> None:
        """Save the conversation with these messages."""
        if self.loaded is None:
            await self.read()
        assert self.loaded is not None
        before = self.loaded
        messages = [*before.messages, *(self._message(one) for one in said)]
        conversation = Conversation(conversation_id=self.name, messages=messages, revision=before.revision)
        await self.conversations.save(conversation)
        self.loaded = conversation

    async def read(self) -> list[Said]:
        """Load the conversation."""
        self.loaded = await self.conversations.load(self.name) or Conversation(conversation_id=self.name)
        return [self._said(message) for message in self.loaded.messages]

    async def erase(self) -> None:
        """Delete the conversation."""
        await self.conversations.delete(self.name)
        self.loaded = None

    @staticmethod
    def _message(one: Said) -> Any:
        if one.kind == "call":
            return ModelResponse([ToolCallPart("look", one.text, one.call)])
        if one.kind == "result":
            return ModelRequest([ToolReturnPart("look", one.text, one.call)])
        return ModelRequest([UserPromptPart(one.text)], metadata={"data": one.data})

    @staticmethod
    def _said(message: Any) -> Said:
        part = message.parts[0]
        if part.part_kind == "tool-call":
            return Said(part.args, "call", part.tool_call_id)
        if part.part_kind == "tool-return":
            return Said(part.content, "result", part.tool_call_id)
        return Said(part.content, data=message.metadata["data"])


class LangGraphTalk(Talk):
    """Messages of the newest checkpoint of a thread; a worker holds its lease."""

    format = "langgraph"

    def __init__(self, store: Store, name: str) -> None:
        super().__init__(store, name)
        self.saver = EverdeltaSaver(store)
        self.config: Any = {"configurable": {"thread_id": name, "checkpoint_ns": ""}}

    async def add(self, said: Sequence[Said]) -> None:
        """Put a checkpoint with further messages behind the newest one."""
        session = self.session
        while True:
            try:
                with session.lease():
                    return await self._put([self._message(one) for one in said])
            except LeaseHeldError:
                await asyncio.sleep(0.005)

    async def _put(self, told: list[Any]) -> None:
        found = await self.saver.aget_tuple(self.config)
        before: list[Any] = [] if found is None else found.checkpoint["channel_values"]["messages"]
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {"messages": [*before, *told]}
        checkpoint["channel_versions"] = {"messages": len(before) + 1}
        where = self.config if found is None else found.config
        await self.saver.aput(where, checkpoint, {"source": "loop"}, {"messages": len(before) + 1})

    async def read(self) -> list[Said]:
        """Return the messages of the newest checkpoint."""
        found = await self.saver.aget_tuple(self.config)
        return [] if found is None else [self._said(one) for one in found.checkpoint["channel_values"]["messages"]]

    async def erase(self) -> None:
        """Delete the thread."""
        await self.saver.adelete_thread(self.name)

    @staticmethod
    def _message(one: Said) -> Any:
        id = str(uuid.uuid4())
        if one.kind == "call":
            call: Any = {"name": "look", "args": json.loads(one.text), "id": one.call}
            return AIMessage("", tool_calls=[call], id=id)
        if one.kind == "result":
            return ToolMessage(one.text, tool_call_id=one.call, id=id)
        return HumanMessage(one.text, additional_kwargs={"data": one.data}, id=id)

    @staticmethod
    def _said(message: Any) -> Said:
        if isinstance(message, AIMessage):
            return Said(json.dumps(message.tool_calls[0]["args"]), "call", message.tool_calls[0]["id"] or "")
        if isinstance(message, ToolMessage):
            return Said(str(message.content), "result", message.tool_call_id)
        return Said(message.content, data=message.additional_kwargs["data"])
