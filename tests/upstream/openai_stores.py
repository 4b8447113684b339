"""Plugin of pytest that puts this store's classes in place of a framework's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import agents
import agents.memory
import agents.memory.sqlite_session

import eventlog
from eventlog.adapters.openai_agents import EverdeltaSession


class Session(EverdeltaSession):
    """The session of the OpenAI Agents SDK, made as `SQLiteSession` is."""

    def __init__(self, session_id: str, db_path: str | Path = ":memory:", *names: str, **options: Any) -> None:
        del names  # of tables
        place = "memory:" if str(db_path) == ":memory:" else f"{db_path}.everdelta"
        super().__init__(eventlog.open(place), session_id, **options)

    def close(self) -> None:
        """Close the store."""
        self.store.close()


for module in (agents, agents.memory, agents.memory.sqlite_session):
    setattr(module, "SQLiteSession", Session)  # noqa: B010 - the framework's name
