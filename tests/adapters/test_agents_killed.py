"""Agents of the frameworks: killed anywhere, resumed, and looked at."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import get_session_messages_from_store
from langchain_core.messages import messages_to_dict
from pydantic_ai.messages import ModelMessagesTypeAdapter

import eventlog
from eventlog import Session, Store
from eventlog.adapters.claude_agent import EverdeltaSessionStore
from eventlog.adapters.langgraph import EverdeltaSaver
from eventlog.adapters.openai_agents import EverdeltaSession
from eventlog.adapters.pydantic_ai import EverdeltaConversationStore
from projections import ModelView
from projections.cli.app import run
from tests.adapters import claude_entries, langchain_lists, openai_items, pydantic_messages
from tests.adapters.agent_worker import TURNS, AgentWorker, Program
from tests.adapters.langgraph_agent import agent_on, config_of
from tests.support.faults.tracing import may_trace
from tests.support.openai_server import Answer, Asked, OpenAIServer, ToolCall

FRAMEWORKS = ("openai_agents", "pydantic_ai", "claude_agent", "langgraph sync", "langgraph async")
"""Of the Claude Agent SDK, whose loop is a program of its own, the store is driven."""
SLOW = os.environ.get("EVERDELTA_SLOW") == "1"
NAME = "-work"


def answered(asked: Asked) -> Answer:
    """Ask for two tools before each answer."""
    last, number = asked.messages[-1], len(asked.messages)
    if last.get("role") == "tool" or last.get("type") == "function_call_output":
        return Answer(["looked at everything", f" {number}"], usage=(number, 2))
    calls = [ToolCall(f"call_{number}_{name}", "look", f'{{"at": "{name}"}}') for name in "ab"]
    return Answer(calls=calls, usage=(number, 1))


@pytest.fixture(scope="module")
def worker() -> Generator[AgentWorker]:
    """Give the process that runs programs."""
    with AgentWorker() as started:
        yield started


@pytest.fixture(scope="module")
def url() -> Generator[str]:
    """Give the address of a model server."""
    with OpenAIServer(by=answered) as server:
        yield server.url


class Place:
    """A store in which programs of a framework run."""

    def __init__(self, framework: str, directory: Path, url: str) -> None:
        self.framework = framework
        self.directory = directory
        self.path = directory / "store"
        self.times = 2 if framework.startswith("langgraph") else 1
        """Kills, as a multiple: a run of LangGraph stores most."""
        self._url = url
        talk = claude_entries.Talk()
        self.entries = talk.more(
            [("calls", 2), ("results", 2), ("answer", 0), ("branch", 0), ("answer", 1), ("prompt", 0), ("answer", 0)]
        )

    def program(self, **options: Any) -> Program:
        """Return a program on this store."""
        out = self.directory / f"out {random.random()}"
        entries = self.entries if self.framework == "claude_agent" else []
        return Program(self.framework, str(self.path), self._url, str(out), NAME, entries=entries, **options)

    def clear(self) -> None:
        """Remove the store."""
        shutil.rmtree(self.path, ignore_errors=True)

    def check(self, store: Store, *, shared: bool = False) -> tuple[list[Any], Session]:
        """Return the framework's own list, which the view shows, and its session."""
        return asyncio.run(self._check(store, shared))

    async def _check(self, store: Store, shared: bool) -> tuple[list[Any], Session]:
        if self.framework == "openai_agents":
            chat = EverdeltaSession(store, NAME)
            items = await chat.get_items()
            order: Any = sorted if shared else list
            assert order(openai_items.viewed(ModelView.of(chat.session))) == order(openai_items.listed(items))
            return items, chat.session
        if self.framework == "pydantic_ai":
            conversations = EverdeltaConversationStore(store)
            loaded = await conversations.load(NAME)
            messages = loaded.messages if loaded is not None else []
            session = conversations.session(NAME)
            assert pydantic_messages.viewed(ModelView.of(session)) == pydantic_messages.listed(messages)
            return ModelMessagesTypeAdapter.dump_python(messages, mode="json"), session
        if self.framework.startswith("langgraph"):
            saver = EverdeltaSaver(store)
            states = list(agent_on(saver, self._url).get_state_history(config_of(NAME)))
            session = saver.session(NAME)
            for at, state in [(None, states[0]), *((saver.version(one.config), one) for one in states)]:
                said = state.values.get("messages", [])
                assert langchain_lists.viewed(ModelView.of(session, at)) == langchain_lists.listed(said)
            return messages_to_dict(states[0].values["messages"]), session
        transcripts: Any = EverdeltaSessionStore(store)
        key = {**claude_entries.KEY, "project_key": NAME}
        chain = await get_session_messages_from_store(transcripts, key["session_id"], "/work")
        session = transcripts.session(key)
        assert claude_entries.viewed(ModelView.of(session).messages) == claude_entries.listed(chain)
        return await transcripts.load(key) or [], session


@pytest.fixture(params=FRAMEWORKS)
def place(request: pytest.FixtureRequest, tmp_path: Path, url: str) -> Place:
    """Give a store for programs of each framework."""
    return Place(request.param, tmp_path, url)


def texts_of(stored: list[Any]) -> list[str]:
    """Return prompts in a framework's list."""
    return [turn for turn in TURNS if f"'{turn}'" in repr(stored)]


def killed_and_resumed(worker: AgentWorker, place: Place, **kill: Any) -> None:
    """Kill a program, run another one to its end, and compare with what the first one knew."""
    place.clear()
    (died,) = worker.run(place.program(**kill))
    assert died.signal == signal.SIGKILL
    (ended,) = worker.run(place.program())
    assert ended.signal == 0
    with eventlog.open(place.path) as store:
        stored, session = place.check(store)
    for command in (["show", session.id], ["timeline", session.id], ["audit", session.id], ["verify"]):
        assert run([*command, "--store", str(place.path)]) == 0, command
    assert stored[: len(died.stored)] == died.stored, "what was acknowledged is lost"
    if place.framework == "claude_agent":
        assert stored == place.entries
    else:
        assert texts_of(stored) == list(TURNS)


@pytest.mark.promise(1, 3)
@pytest.mark.skipif(not may_trace(), reason="this system lets no process trace its children")
def test_nothing_acknowledged_is_lost_at_any_system_call(worker: AgentWorker, place: Place) -> None:
    """Killed at any system call that changes a file, and resumed, a loop has all that it knew."""
    (whole,) = worker.run(place.program(kill_call=-1))
    assert whole.calls > 3 * whole.appends // 2
    chance = random.Random(5)
    every = range(1, whole.calls - whole.calls // 8)  # a run makes more of them or fewer, by its timing
    for number in every if SLOW else sorted(chance.sample(every, 4 * place.times)):
        killed_and_resumed(worker, place, kill_call=number)


@pytest.mark.promise(3)
def test_a_killed_fork_is_whole_or_none(worker: AgentWorker, tmp_path: Path, url: str) -> None:
    """Killed at any append, a fork of pydantic-ai has its name and record, or is not there."""
    place = Place("pydantic_fork", tmp_path, url)
    (whole,) = worker.run(place.program())
    for kill_at in range(whole.appends - 2, whole.appends + 1):
        for behind in (False, True) if SLOW or kill_at == whole.appends else (False,):
            place.clear()
            worker.run(place.program(kill_at=kill_at, behind=behind))
            with eventlog.open(place.path) as store:
                forks = [info for info in store.sessions() if info.fork_of is not None]
                loaded = asyncio.run(EverdeltaConversationStore(store).load("fork"))
                assert [info.name for info in forks] == ([] if loaded is None else [("pydantic-ai", "fork")])
                assert loaded is None or len(loaded.messages) == 1
            (again,) = worker.run(place.program())
            assert again.stored == ["fork"]
            with eventlog.open(place.path) as store:
                assert len(list(store.sessions())) == 2


@pytest.mark.promise(4)
@pytest.mark.parametrize("place", FRAMEWORKS[:-1], indirect=True)  # not with checkpoints stored meanwhile
def test_two_workers_run_one_conversation(worker: AgentWorker, place: Place) -> None:
    """Two programs on one conversation at once lose nothing that either knew to be stored."""
    outcomes = worker.run(place.program(), place.program())
    assert [one.signal for one in outcomes] == [0, 0]
    with eventlog.open(place.path) as store:
        stored, _ = place.check(store, shared=True)
    for outcome in outcomes:
        known = outcome.stored
        if place.framework == "openai_agents":
            assert all(item in stored for item in known)
        elif not place.framework.startswith("langgraph"):  # whose newest checkpoint is one run's
            assert stored[: len(known)] == known
    if place.framework == "claude_agent":
        assert sorted(entry["uuid"] for entry in stored) == sorted(entry["uuid"] for entry in place.entries)
    else:
        assert texts_of(stored) == list(TURNS)
