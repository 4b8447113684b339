"""Agents on LangGraph's checkpointer: killed at their appends, and two on one thread."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

if os.environ.get("CI") is None:
    pytest.importorskip("langchain.agents")
    pytest.importorskip("langgraph.checkpoint.base")
from langchain_core.messages import BaseMessage, HumanMessage

import eventlog
from eventlog.adapters.langgraph import EverdeltaSaver
from projections import ModelView
from projections.cli.app import run
from tests.adapters.langchain_lists import listed, viewed
from tests.adapters.langgraph_agent import CONFIG, THREAD, agent_on, answer, in_processes
from tests.support.openai_server import OpenAIServer

SLOW = os.environ.get("EVERDELTA_SLOW") == "1"
TURNS = 2
APPENDS = 10
"""Appends of a turn, and more, so that the last ones meet no kill."""


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


@pytest.mark.promise(1, 3)
@pytest.mark.parametrize("durability", ["sync", "async"])
def test_killed_agent_goes_on(tmp_path: Path, durability: str) -> None:
    """An agent killed before or after an append goes on, and answers each question once."""
    killed = 0
    with OpenAIServer(by=answer) as server:
        whole = tmp_path / "whole"
        assert in_processes((str(whole), server.url, TURNS, durability, None)) == [0]
        wanted = [(type(one), one.content) for one in inspected(whole)]
        assert len(wanted) == 5 * TURNS
        for number in range(1, APPENDS * TURNS, 1 if SLOW else 4):
            for after in (False, True):
                path = tmp_path / f"{number}{after}"
                (code,) = in_processes((str(path), server.url, TURNS, durability, (number, after)))
                killed += code == -signal.SIGKILL
                assert in_processes((str(path), server.url, TURNS, durability, None)) == [0]
                assert [(type(one), one.content) for one in inspected(path)] == wanted
    assert killed >= 6


@pytest.mark.promise(4)
def test_two_workers_on_one_thread(tmp_path: Path) -> None:
    """Two processes that run one thread at once lose no checkpoint, and each has its view."""
    path = tmp_path / "store"
    with OpenAIServer(by=answer) as server:
        worker: tuple[Any, ...] = (str(path), server.url, 4, "sync", None)
        assert in_processes(worker, worker) == [0, 0]
    messages = inspected(path)
    assert sum(isinstance(one, HumanMessage) for one in messages) >= 4
