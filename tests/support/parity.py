"""Loader of the parity fixtures: what OpenCode 1.18.33 had stored and what it sent."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

from tests.support.shared import SHARED

Record = dict[str, Any]


class Pair(NamedTuple):
    """A request, and the stored conversation when it arrived, without the open message."""

    scenario: str
    name: str
    kind: str
    model: str
    modalities: list[str]
    sent: list[Record]
    state: Record


class Scenario:
    """One recorded scenario."""

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self._path = path
        blobs = path / "blobs.json"
        self._blobs: Record = json.loads(blobs.read_text("utf-8")) if blobs.exists() else {}

    def exports(self) -> Iterator[tuple[str, Record]]:
        """The exports by name, in order."""
        for path in sorted((self._path / "exports").glob("*.json")):
            yield path.stem, self._load(path)

    def pairs(self) -> Iterator[Pair]:
        """Every request with a recorded state."""
        states = self._load(self._path / "states.json")
        models = self._load(self._path / "scenario.json")["models"]
        for path in sorted((self._path / "requests").glob("*.json")):
            if path.stem not in states:
                continue
            request = self._load(path)
            sent = [message for message in request["messages"] if message["role"] != "system"]
            modalities = models[request["model"]]["modalities"]["input"]
            state = _state(states, path.stem)
            yield Pair(self.name, path.stem, request["kind"], request["model"], modalities, sent, state)

    def _load(self, path: Path) -> Any:
        return _unpacked(json.loads(path.read_text("utf-8")), self._blobs)


def scenarios() -> list[Scenario]:
    """All scenarios, or none without the fixtures."""
    folder = SHARED / "parity" / "dev"
    paths = sorted(folder.iterdir()) if folder.is_dir() else []
    return [Scenario(path) for path in paths if (path / "scenario.json").exists()]


def _unpacked(value: Any, blobs: Record) -> Any:
    if isinstance(value, dict):
        found = cast("Record", value)
        if found.keys() == {"$blob"}:
            return blobs[found["$blob"]]
        return {key: _unpacked(item, blobs) for key, item in found.items()}
    if isinstance(value, list):
        return [_unpacked(item, blobs) for item in cast("Iterable[Any]", value)]
    return value


def _state(states: Record, name: str) -> Record:
    """Undo the differences, and leave out the assistant message that the request fills."""
    chain: list[Record] = []
    base: str | None = name
    while base is not None:
        chain.append(states[base])
        base = chain[-1]["base"]
    known = {message["info"]["id"]: message for step in reversed(chain) for message in step["put"]}
    messages = [known[message] for message in chain[0]["order"]]
    filled = next(message for message in reversed(messages) if message["info"]["role"] == "assistant")
    return {"info": chain[0]["info"], "messages": [message for message in messages if message is not filled]}
