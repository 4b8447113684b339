"""The adapters on the contract that every adapter keeps."""

from __future__ import annotations

import pytest
from pydantic_ai.conversation_store import ConversationConflict

from eventlog import Store
from eventlog.testing import AdapterContract, Chat
from tests.adapters import talks
from tests.support.postgres_server import new_place

ENGINES = ("memory", "embedded", "encrypted", "postgres")


class OnAllEngines(AdapterContract):
    """The contract, on a server too."""

    engines = ENGINES

    def postgres(self) -> str:
        """Return the address of an empty log."""
        return new_place()


@pytest.mark.promise(1, 3, 4)
class TestOpenAIAgents(OnAllEngines):
    """The session of the OpenAI Agents SDK."""

    def chat(self, store: Store, name: str) -> Chat:
        """Return a session."""
        return talks.OpenAITalk(store, name)


@pytest.mark.promise(1, 3, 4)
class TestClaudeAgent(OnAllEngines):
    """The session store of the Claude Agent SDK; of racing entries, branches, views show one."""

    shows_words = False

    def chat(self, store: Store, name: str) -> Chat:
        """Return a transcript."""
        return talks.ClaudeTalk(store, name)


@pytest.mark.promise(1, 3, 4)
class TestPydanticAI(OnAllEngines):
    """The conversation store of pydantic-ai."""

    refused = (ConversationConflict,)

    def chat(self, store: Store, name: str) -> Chat:
        """Return a conversation."""
        return talks.PydanticTalk(store, name)


@pytest.mark.promise(1, 3, 4)
class TestLangGraph(OnAllEngines):
    """The checkpointer of LangGraph, whose workers hold the lease of their thread."""

    def chat(self, store: Store, name: str) -> Chat:
        """Return a thread."""
        return talks.LangGraphTalk(store, name)
