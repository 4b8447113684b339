"""Agents on LangGraph's checkpointer: killed anywhere, and two on one thread."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Generator
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from langchain_core.messages import BaseMessage, HumanMessage

import eventlog
from eventlog.adapters.langgraph import EverdeltaSaver
from projections import ModelView
from projections.cli.app import run
from tests.adapters.langchain_lists import listed, viewed
from tests.adapters.langgraph_agent import CONFIG, THREAD, Die, agent_on, answer, in_processes
from tests.support.openai_server import OpenAIServer

SLOW = os.environ.get("EVERDELTA_SLOW") == "1"
TURNS = 2
APPENDS = 10
"""Appends of a turn, and more, so that the last ones meet no kill."""
CALLS = 60
"""Calls and points of a log in a whole run, and more."""


def inspected(path: Path) -> list[BaseMessage]:
    """Check the view of every checkpoint, and our commands; return the newest list."""
    with eventlog.open(path) as store:
        saver = EverdeltaSaver(store)
        graph = agent_on(saver, "")
        session = saver.session(THREAD)
        for state in graph.get_state_history(CONFIG):
            view = ModelView.of(session, at=saver.version(state.config))
            assert viewed(view) == listed(state.values.get("messages", []))
        messages: list[BaseMessage] = graph.get_state(CONFIG).values["messages"]
        assert viewed(ModelView.of(session)) == listed(messages)
    for command in (["show", session.id], ["timeline", session.id], ["audit", session.id], ["verify"]):
        assert run([*command, "--store", str(path)]) == 0
    return messages


class Talk:
    """A thread whose agent is killed and goes on, and what a whole run of it leaves."""

    def __init__(self, directory: Path, url: str, durability: str) -> None:
        self.directory = directory
        self._given = url, TURNS, durability
        whole = directory / "whole"
        begun = monotonic()
        assert in_processes((str(whole), *self._given, None)) == [0]
        self.seconds = monotonic() - begun
        self._wanted = self._messages(whole)
        assert len(self._wanted) == 5 * TURNS
        self.killed = 0
        self._number = 0

    def dies(self, die: Die | None, seconds: float | None = None) -> None:
        """Kill an agent at a place or after a time, let another one go on, and look at the list."""
        self._number += 1
        path = self.directory / str(self._number)
        (code,) = in_processes((str(path), *self._given, die), seconds=seconds)
        self.killed += code == -signal.SIGKILL
        assert in_processes((str(path), *self._given, None)) == [0]
        assert self._messages(path) == self._wanted

    def _messages(self, path: Path) -> list[Any]:
        return [(type(one), one.content) for one in inspected(path)]


@pytest.fixture(params=["sync", "async"])
def talk(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Talk]:
    """Give a thread, whose checkpoints are stored before the next step or meanwhile."""
    with OpenAIServer(by=answer) as server:
        yield Talk(tmp_path, server.url, request.param)


@pytest.mark.promise(1, 3)
def test_agent_killed_at_an_append_goes_on(talk: Talk) -> None:
    """An agent killed before or after an append goes on, and answers each question once."""
    for place, number in enumerate(range(1, APPENDS * TURNS, 1 if SLOW else 4)):
        if SLOW or place % 2 == 0:
            talk.dies(("before", number))
        if SLOW or place % 2 == 1:
            talk.dies(("after", number))
    assert talk.killed >= 3


@pytest.mark.promise(1, 3)
def test_agent_killed_at_a_call_of_the_system_goes_on(talk: Talk) -> None:
    """An agent killed at any call of the system that its log makes goes on likewise."""
    for number in range(1, CALLS, 1 if SLOW else CALLS // 8):
        talk.dies(("call", number))
    assert talk.killed >= 6


@pytest.mark.promise(1, 3)
def test_agent_killed_at_any_time_goes_on(talk: Talk) -> None:
    """An agent killed at a random time, goes on likewise."""
    chance = random.Random(3)
    seconds = talk.seconds
    for _ in range(60 if SLOW else 6):
        killed = talk.killed
        talk.dies(None, chance.uniform(0.1, 0.9) * seconds)
        if talk.killed == killed:  # it was done before
            seconds /= 2
    assert talk.killed


@pytest.mark.promise(4)
def test_two_workers_on_one_thread(tmp_path: Path) -> None:
    """Two processes that run one thread at once lose no checkpoint, and each has its view."""
    path = tmp_path / "store"
    with OpenAIServer(by=answer) as server:
        worker: tuple[Any, ...] = (str(path), server.url, 4, "sync", None)
        assert in_processes(worker, worker) == [0, 0]
    messages = inspected(path)
    assert sum(isinstance(one, HumanMessage) for one in messages) >= 4
