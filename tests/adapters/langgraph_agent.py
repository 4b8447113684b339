"""An agent of LangChain whose model is on a server, run in processes that are killed."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
from typing import Any, Literal
from urllib.request import Request, urlopen

from langchain import agents
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, convert_to_openai_messages
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool, tool

from eventlog import Feed, Store
from eventlog.adapters.langgraph import EverdeltaSaver
from eventlog.history.session_lists import lists_of
from eventlog.open_log import open_log
from tests.support.dying_io import DyingIO
from tests.support.openai_server import Answer, Asked, ToolCall

__all__ = ["CONFIG", "THREAD", "Die", "ServedModel", "agent_on", "answer", "in_processes", "look"]

THREAD = "chat"
CONFIG: Any = {"configurable": {"thread_id": THREAD}}
Die = tuple[Literal["before", "after", "call"], int]
"""Append before or after which, or system call of the log at which, it dies."""


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


def answer(asked: Asked) -> Answer:
    """Answer a question by two calls at once, and by what they gave."""
    last = asked.messages[-1]
    if last["role"] == "user":
        text = last["content"]
        return Answer(calls=[ToolCall(f"{text} {one}", "look", json.dumps({"at": f"{text} {one}"})) for one in "ab"])
    return Answer(f"told {last['content']}")


def agent_on(saver: EverdeltaSaver, url: str) -> Any:
    """Return the agent."""
    tools: list[BaseTool] = [look]
    create: Any = getattr(agents, "create_agent")  # noqa: B009 - its types are not known in part
    return create(ServedModel(url=url), tools, checkpointer=saver)


def run(path: str, url: str, turns: int, durability: Literal["sync", "async", "exit"], die: Die | None) -> None:
    """Go on with the thread until its questions are answered, or die."""
    kind, number = die or ("", 0)
    if kind in {"before", "after"}:
        _die_at(number, kind == "after")
    io = DyingIO(number if kind == "call" else 0)
    with Store(open_log(path, lists_of=lists_of, io=io)) as store:
        saver = EverdeltaSaver(store)
        graph = agent_on(saver, url)
        if saver.get_tuple(CONFIG) is not None:  # a process before this one was killed, perhaps
            graph.invoke(None, CONFIG, durability=durability)
        while (asked := _asked(graph)) < turns:
            question = HumanMessage(f"question {asked}", id=f"q{asked}")
            graph.invoke({"messages": [question]}, CONFIG, durability=durability)


def _asked(graph: Any) -> int:
    messages = graph.get_state(CONFIG).values.get("messages", [])
    return sum(isinstance(one, HumanMessage) for one in messages)


def _die_at(number: int, after: bool) -> None:
    add, count = Feed.add, 0

    def counted(*given: Any, **options: Any) -> Any:
        nonlocal count
        count += 1
        if count == number and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        told = add(*given, **options)
        if count == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return told

    Feed.add = counted  # type: ignore[method-assign]


def in_processes(*runs: tuple[Any, ...], seconds: float | None = None) -> list[int]:
    """Run each in a process of its own, all at once; return their exit codes.

    What still runs after some seconds is killed.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    started = [context.Process(target=run, args=given) for given in runs]
    for one in started:
        one.start()
    for one in started:
        one.join(120 if seconds is None else seconds)
        if seconds is not None and one.exitcode is None:
            one.kill()
            one.join()
    return [one.exitcode if one.exitcode is not None else -1 for one in started]
