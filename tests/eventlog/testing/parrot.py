"""The adapter of the page on records, and its conversation for the contract."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from eventlog import Session, Store
from eventlog.testing import Said
from tests.support.pages import example


def chat_class() -> Any:
    """Return the class of the page's adapter, made anew."""
    names: dict[str, Any] = {"__name__": __name__}
    exec(compile(example("class ParrotChat").code, "eventlog/records/README.md", "exec"), names)  # noqa: S102 - the page
    return names["ParrotChat"]


def record_of(said: Said) -> Any:
    """Return a record of the made-up framework."""
    if said.kind == "call":
        call = {"id": said.call, "tool": "look", "input": json.loads(said.text)}
        return {"who": "parrot", "asks": [call], "raw": said.text}
    if said.kind == "result":
        return {"who": "tool", "id": said.call, "gives": said.text}
    return {"who": "human", "says": said.text, "with": said.data}


def said_in(record: Any) -> Said:
    """Return what a record says."""
    if record["who"] == "human":
        return Said(record["says"], data=record["with"])
    if record["who"] == "tool":
        return Said(record["gives"], "result", record["id"])
    return Said(record["raw"], "call", record["asks"][0]["id"])


class Talk:
    """A `Chat` on the adapter."""

    adapter: Any = chat_class()

    def __init__(self, store: Store, name: str) -> None:
        self.chat = self.adapter(store, name)

    @property
    def session(self) -> Session:
        """The session."""
        session: Session = self.chat.feed().session
        return session

    async def add(self, said: Sequence[Said]) -> None:
        """Add messages."""
        await self.chat.add([record_of(one) for one in said])

    async def read(self) -> list[Said]:
        """Return all messages."""
        return [said_in(record) for record in await self.chat.read()]

    async def erase(self) -> None:
        """Erase the conversation."""
        await self.chat.erase()
