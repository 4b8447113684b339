"""Processor time of adapters beside each framework's own store, at 1,000 turns.

    python -m benchmarks.adapters [--turns N] [--rounds N] [NAME …]

LangGraph, OpenAI Agents and ADK have stores on SQLite; the others stand beside rows of JSON, each
flushed by itself. A side writes in one process and loads in a fresh one; opening the store counts,
importing the framework does not. Sides take turns, and ratios are those of medians.
"""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time
from types import SimpleNamespace
from typing import Any

import eventlog
from benchmarks.children import child
from benchmarks.machine import workplace
from benchmarks.peers import google_adk, langgraph, openai_agents
from benchmarks.peers.base import imported
from benchmarks.peers.rows import Rows, message_rows
from benchmarks.workloads import Turn, small_turns

_CHILD = "import json, sys; from benchmarks.adapters import measured; print(json.dumps(measured(*sys.argv[1:])))"
_KEY = {"project_key": "-work", "session_id": "0f4a7c6e-0000-4000-8000-000000000001"}
Made = tuple[Callable[[Turn, str], object], Callable[[], Any]]
"""Adds a turn whose call has an id; reads all into objects of the framework."""


def _chat(made: Made, close: Callable[[], None]) -> Any:
    """Return a conversation that has the methods of a peer's."""
    numbers = count(1)

    def take(turn: Turn) -> None:
        made[0](turn, f"call_{next(numbers)}")

    return SimpleNamespace(turn=take, load=made[1], close=close)


def _items(store: Any) -> Made:
    """Put an item of LangGraph for a turn, and search for all."""

    def add(turn: Turn, call: str) -> None:
        store.put(("users", call[-1]), call, {"text": turn.output})

    return add, lambda: store.search(("users",), limit=1_000_000)


def _messages(store: Any) -> Made:
    """Save the messages of pydantic-ai: a question, an answer with a call, and its result."""
    make, run = imported("pydantic_ai.messages"), asyncio.Runner().run
    said = imported("pydantic_ai.conversation").Conversation(conversation_id="s")

    def add(turn: Turn, call: str) -> None:
        asked = make.ToolCallPart("bash", {"command": turn.command}, call)
        said.messages += [
            make.ModelRequest([make.UserPromptPart(turn.question)]),
            make.ModelResponse([make.TextPart("".join(turn.answer)), asked]),
            make.ModelRequest([make.ToolReturnPart("bash", turn.output, call)]),
        ]
        run(store.save(said))

    return add, lambda: run(store.load("s")).messages


def _entries(store: Any) -> Made:
    """Append entries of Claude Code: a question, a text, a call and its result."""
    run, before = asyncio.Runner().run, [""]

    def entry(name: str, kind: str, **message: object) -> dict[str, Any]:
        said: dict[str, Any] = {
            "type": kind,
            "uuid": name,
            "parentUuid": before[0] or None,
            "sessionId": _KEY["session_id"],
        }
        said |= {"timestamp": "2026-01-01T00:00:00.000Z", "isSidechain": False, "cwd": "/work"}
        before[0] = name
        return said | {"message": {"role": kind, **message}}

    def add(turn: Turn, call: str) -> None:
        asked = {"type": "tool_use", "id": call, "name": "Bash", "input": {"command": turn.command}}
        result = {"type": "tool_result", "tool_use_id": call, "content": turn.output}
        blocks = ({"type": "text", "text": "".join(turn.answer)}, asked)
        told = [entry(f"{call}-q", "user", content=turn.question)]
        told += [entry(f"{call}-{one['type']}", "assistant", content=[one], id=call, model="claude") for one in blocks]
        run(store.append(_KEY, [*told, entry(f"{call}-r", "user", content=[result])]))

    return add, lambda: run(store.load(_KEY))


def _ours(module: str, name: str, make: Callable[[Any], Made], directory: Path) -> Any:
    store = eventlog.open(directory)
    return _chat(make(getattr(imported(f"eventlog.adapters.{module}"), name)(store)), store.close)


def _theirs(store: Callable[[Rows], Any], make: Callable[[Any], Made], directory: Path) -> Any:
    rows = Rows(directory)
    return _chat(make(store(rows)), rows.connection.close)


def _sqlite_items(directory: Path) -> Any:
    directory.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(directory / "items.db", isolation_level=None, check_same_thread=False)
    items: Any = imported("langgraph.store.sqlite").SqliteStore(connection)
    items.setup()
    return _chat(_items(items), connection.close)


_STORE = partial(_ours, "langgraph", "EverdeltaStore", _items)
_CONVERSATIONS = partial(_ours, "pydantic_ai", "EverdeltaConversationStore", _messages)
_TRANSCRIPTS = partial(_ours, "claude_agent", "EverdeltaSessionStore", _entries)
SIDES: dict[str, dict[str, Callable[[Path], Any]]] = {
    "LangGraph, SqliteSaver": {"ours": langgraph.ours, "theirs": langgraph.theirs},
    "LangGraph, SqliteStore": {"ours": _STORE, "theirs": _sqlite_items},
    "OpenAI Agents, SQLiteSession": {"ours": openai_agents.ours, "theirs": openai_agents.theirs},
    "ADK, DatabaseSessionService": {"ours": google_adk.ours, "theirs": google_adk.theirs},
    "pydantic-ai, rows": {"ours": _CONVERSATIONS, "theirs": partial(_theirs, message_rows, _messages)},
    "Claude Agent SDK, rows": {"ours": _TRANSCRIPTS, "theirs": partial(_theirs, lambda rows: rows, _entries)},
}


def measured(name: str, side: str, directory: str, turns: str) -> list[float]:
    """Return processor seconds of opening, and of writing turns; with none, of loading."""
    work, make = list(small_turns(int(turns))), SIDES[name][side]
    with suppress(ImportError):  # what a program of the framework has imported
        imported(name.partition(",")[0].lower().replace(" ", "_"))
    with TemporaryDirectory() as other:
        make(Path(other) / "first").close()
    gc.collect()
    gc.freeze()  # no side pays for walks over what its framework imports
    start = process_time()
    chat = make(Path(directory))
    opened = process_time()
    for turn in work:
        chat.turn(turn)
    if work:
        chat.close()
    else:
        assert chat.load()
    return [opened - start, process_time() - opened]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print a table."""
    parser = ArgumentParser(prog="python -m benchmarks.adapters", description="Processor time of adapters.")
    parser.add_argument("names", nargs="*", help="frameworks, by the beginning of their names")
    for option, usual in (("--turns", 1_000), ("--rounds", 3)):
        parser.add_argument(option, type=int, default=usual)
    options = parser.parse_args(arguments)
    chosen = tuple(map(str.lower, options.names)) or ("",)
    print("| framework, its store | a turn, CPU ms | ratio | cold load, CPU ms | ratio |\n|---|---|---|---|---|")
    for name, sides in SIDES.items():
        found: dict[str, list[tuple[float, float]]] = {side: [] for side in sides}
        for _ in range(options.rounds if name.lower().startswith(chosen) else 0):
            for side, times in found.items():
                with TemporaryDirectory(dir=workplace()) as place:
                    wrote = child(_CHILD, name, side, f"{place}/chat", str(options.turns))
                    times.append((sum(wrote), sum(child(_CHILD, name, side, f"{place}/chat", "0"))))
        if all(found.values()):
            ours, theirs = ([median(one) * 1e3 for one in zip(*times, strict=True)] for times in found.values())
            turn = f"{ours[0] / options.turns:.3f} | {ours[0] / theirs[0]:.2f}"
            print(f"| {name} | {turn} | {ours[1]:.1f} | {ours[1] / theirs[1]:.2f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
