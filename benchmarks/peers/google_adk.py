"""Google ADK's `DatabaseSessionService` on SQLite, and `EverdeltaSessionService`.

The service leaves SQLite's defaults, a rollback journal and `synchronous=FULL`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import eventlog
from benchmarks.peers.base import Chat, Peer, imported
from benchmarks.workloads import Turn

_NAMES = {"app_name": "benchmark", "user_id": "user", "session_id": "s"}


class AdkChat(Chat):
    """One session; a turn is a user event, an answer with a call, and its result."""

    def __init__(self, service: Any, close: Callable[[], None] | None = None) -> None:
        self._runner = asyncio.Runner()
        self._event: Any = imported("google.adk.events").Event
        self._types: Any = imported("google.genai.types")
        self._service = service
        self._close = close
        self._session: Any = None

    def turn(self, turn: Turn) -> None:
        """Append three durable events."""
        self._runner.run(self._append(turn))

    def load(self) -> int:
        """Call `get_session` with all its events."""
        self._session = self._runner.run(self._service.get_session(**_NAMES))
        return len(self._session.events)

    def close(self) -> None:
        """Close the service and the loop."""
        if self._close is None:
            self._runner.run(self._service.close())
        else:
            self._close()
        self._runner.close()

    async def _append(self, turn: Turn) -> None:
        if self._session is None:
            self._session = await self._service.get_session(**_NAMES) or await self._service.create_session(**_NAMES)
        types = self._types
        call = types.FunctionCall(id="call_1", name="bash", args={"command": turn.command})
        answer = types.FunctionResponse(id="call_1", name="bash", response={"output": turn.output})
        parts = (
            ("user", "user", [types.Part(text=turn.question)]),
            ("agent", "model", [types.Part(text="".join(turn.answer)), types.Part(function_call=call)]),
            ("agent", "user", [types.Part(function_response=answer)]),
        )
        for author, role, content in parts:
            event = self._event(author=author, content=types.Content(role=role, parts=content), invocation_id="i")
            await self._service.append_event(self._session, event)


def theirs(directory: Path) -> AdkChat:
    """Open ADK's service."""
    directory.mkdir(parents=True, exist_ok=True)
    service: Any = imported("google.adk.sessions.database_session_service").DatabaseSessionService
    return AdkChat(service(f"sqlite+aiosqlite:///{directory}/chat.db"))


def ours(directory: Path) -> AdkChat:
    """Open ours."""
    store = eventlog.open(directory)
    return AdkChat(imported("eventlog.adapters.google_adk").EverdeltaSessionService(store), store.close)


PEERS = (
    Peer(
        "google-adk",
        "Google ADK DatabaseSessionService",
        durable=True,
        note="a rollback journal; commits each of a turn's three events by itself",
        package="google.adk.sessions.database_session_service",
        install="pip install 'google-adk>=2.13,<3' sqlalchemy aiosqlite",
        chat=theirs,
        quick=100,
    ),
)
