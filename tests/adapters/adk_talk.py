"""A session of Google ADK as the contract speaks to it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from google.adk.events.event import Event
from google.adk.sessions.session import Session as AdkSession
from google.genai import types

from eventlog import Session, Store
from eventlog.adapters.google_adk import EverdeltaSessionService
from eventlog.adapters.google_adk_keys import Key
from eventlog.testing import Said


class AdkTalk:
    """A session object of ADK; the texts of a user are one event, as that is an append."""

    def __init__(self, store: Store, name: str) -> None:
        self.service = EverdeltaSessionService(store)
        self.key: dict[str, Any] = {"app_name": "app", "user_id": "user", "session_id": f"s {name} ."}
        self.loaded: AdkSession | None = None

    @property
    def session(self) -> Session:
        """The session."""
        return self.service.store.open_session(Key(**dict(zip(Key._fields, self.key.values(), strict=True))).name)

    async def add(self, said: Sequence[Said]) -> None:
        """Append events, in a session that is created if it was not there."""
        if self.loaded is None:
            await self.read()
        self.loaded = self.loaded or await self.service.create_session(**self.key)
        for _, group in groupby(said, lambda one: one.kind):
            await self.service.append_event(self.loaded, self._event(list(group)))

    async def read(self) -> list[Said]:
        """Get the session."""
        self.loaded = await self.service.get_session(**self.key)
        return [] if self.loaded is None else [one for event in self.loaded.events for one in self._said(event)]

    async def erase(self) -> None:
        """Delete the session."""
        await self.service.delete_session(**self.key)
        self.loaded = None

    @staticmethod
    def _event(said: list[Said]) -> Event:
        one = said[0]
        if one.kind == "call":
            call = types.FunctionCall(id=one.call, name="look", args=json.loads(one.text))
            return Event(author="agent", content=types.Content(role="model", parts=[types.Part(function_call=call)]))
        if one.kind == "result":
            result = types.FunctionResponse(id=one.call, name="look", response={"output": one.text})
            part = types.Part(function_response=result)
            return Event(author="agent", content=types.Content(role="user", parts=[part]))
        content = types.Content(role="user", parts=[types.Part(text=one.text) for one in said])
        return Event(author="user", content=content, custom_metadata={"data": [one.data for one in said]})

    @staticmethod
    def _said(event: Any) -> list[Said]:
        part = event.content.parts[0]
        if part.function_call is not None:
            return [Said(json.dumps(part.function_call.args), "call", part.function_call.id)]
        if part.function_response is not None:
            return [Said(part.function_response.response["output"], "result", part.function_response.id)]
        told = zip(event.content.parts, event.custom_metadata["data"], strict=True)
        return [Said(part.text, data=data) for part, data in told]
