"""An agent of LangChain whose model is on a server, run in a process that is killed."""

from __future__ import annotations

import json
from typing import Any
from urllib.request import Request, urlopen

from langchain import agents
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, convert_to_openai_messages
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool, tool

from eventlog.adapters.langgraph import EverdeltaSaver


class ServedModel(BaseChatModel):
    """A chat model behind an OpenAI-compatible server."""

    url: str
    """Address of the server's API."""

    @property
    def _llm_type(self) -> str:
        return "served"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        """Return the model itself: the server knows the tools."""
        del tools, options
        return self

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **options: Any
    ) -> ChatResult:
        del stop, run_manager, options
        body = json.dumps({"model": "m", "messages": convert_to_openai_messages(messages)})
        request = Request(f"{self.url}/chat/completions", body.encode(), {"Content-Type": "application/json"})  # noqa: S310 - of the test's own server
        with urlopen(request, timeout=60) as reply:  # noqa: S310
            said = json.loads(reply.read())["choices"][0]["message"]
        calls = [
            {"id": call["id"], "name": call["function"]["name"], "args": json.loads(call["function"]["arguments"])}
            for call in said.get("tool_calls") or ()
        ]
        return ChatResult(generations=[ChatGeneration(message=AIMessage(said.get("content") or "", tool_calls=calls))])


@tool
def look(at: str) -> str:
    """Look at a thing."""
    return f"seen {at}"


def agent_on(saver: EverdeltaSaver, url: str) -> Any:
    """Return the agent."""
    tools: list[BaseTool] = [look]
    create: Any = getattr(agents, "create_agent")  # noqa: B009 - its types are not known in part
    return create(ServedModel(url=url), tools, checkpointer=saver)


def config_of(thread: str) -> Any:
    """Return the config of a thread."""
    return {"configurable": {"thread_id": thread}}


def messages_of(graph: Any, thread: str) -> list[BaseMessage]:
    """Return the messages of a thread's newest checkpoint."""
    messages: list[BaseMessage] = graph.get_state(config_of(thread)).values.get("messages", [])
    return messages
