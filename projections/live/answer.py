"""The answer to one question as it comes, for protocols that only ever add.

All replies behind the question are told from the beginning, so a reader that comes late, or again,
lacks nothing. Text is told once it is committed: what was sent cannot be taken back.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from eventlog.errors import ErasedError
from eventlog.session.outcome import WITHDRAWN, Outcome, outcome_of, pending_question
from eventlog.store import Store
from projections.live.aio import AsyncLive
from projections.live.form import Json
from projections.live.live_session import LiveSession

__all__ = ["Answer", "Happening", "Kind", "asked_now"]

_LIMIT = 1_000
"""Replies of an answer that a late reader is told of."""
_LONGEST = 1 << 30
_SAID = ("text", "reasoning")

Kind: TypeAlias = Literal["reply", "begin", "delta", "end", "call", "result", "replied"]
"""A reply or a part begins, goes on or ends; a tool is called, or has a result."""


class Happening(NamedTuple):
    """One thing that an answer says."""

    kind: Kind
    message: str
    """The reply."""
    part: Json
    """The part as a live page has it; {} of a reply."""
    text: str = ""
    """Next piece of a text, of a reasoning, or of the arguments of a call."""


class _Told(msgspec.Struct):
    """How much of a part was told."""

    length: int = 0
    """Characters of its text, or of its arguments."""
    ended: bool = False
    over: bool = False
    """Whether nothing more comes of it."""


class Answer:
    """The answer to a question of a session, which other tasks and processes may give."""

    def __init__(self, store: Store, session: str, question: str) -> None:
        self.store: Store = store
        self.session = session
        self.question = question
        self.outcome: Outcome = Outcome("pending")
        """How the answer ended, once nothing more comes."""
        self._since = store.session(session).reader.find(question)
        self._replies: dict[str, Json] = {}
        self._parts: dict[str, tuple[str, Json]] = {}
        self._told: dict[str, _Told] = {}

    async def __aiter__(self) -> AsyncGenerator[Happening]:
        updates = aiter(AsyncLive(self.store, self.session, limit=_LIMIT, longest=_LONGEST, provisional=False))
        async with aclosing(updates):
            async for update in updates:
                for happening in self._take(update.patches):
                    yield happening
                self.outcome = await asyncio.to_thread(self._look)
                if self.outcome.state != "pending":
                    break
        for happening in await asyncio.to_thread(lambda: [*self._rest()]):
            yield happening

    def _look(self) -> Outcome:
        try:
            return outcome_of(self.store.session(self.session).reader, self.question)
        except ErasedError:
            return WITHDRAWN

    def _rest(self) -> Iterator[Happening]:
        """Yield what came before the outcome was known, and end what is open."""
        live = LiveSession(self.store, self.session, limit=_LIMIT, longest=_LONGEST, provisional=False)
        update = live.advance()
        yield from self._take([] if update is None else update.patches)
        for name, told in self._told.items():
            if not told.ended:
                yield Happening("end", *self._parts[name])
        for name, reply in self._replies.items():
            if reply["finished"] is None:
                yield Happening("replied", name, {})

    def _take(self, patches: list[Json]) -> Iterator[Happening]:
        for patch in patches:
            if "reset" in patch:
                for message in patch["reset"]["messages"]:
                    yield from self._see(message)
            elif "message" in patch:
                yield from self._see(patch["message"])
            elif "of" in patch:
                yield from self._tell(patch["of"], patch["set"])
            elif patch.get("part") in self._parts:
                message, part = self._parts[patch["part"]]
                fields = patch.get("set") or {patch["field"]: part[patch["field"]] + patch["text"]}
                yield from self._tell(message, {**part, **fields})

    def _see(self, message: Json) -> Iterator[Happening]:
        name = message["id"]
        if message["version"] <= self._since or message["role"] != "assistant" or message["summary"]:
            return
        before = self._replies.get(name)
        self._replies[name] = message
        if before is None:
            yield Happening("reply", name, {})
        for part in message.get("parts", ()):
            yield from self._tell(name, part)
        if message["finished"] is not None and (before is None or before["finished"] is None):
            yield Happening("replied", name, {})

    def _tell(self, message: str, part: Json) -> Iterator[Happening]:
        kind = part["kind"]
        if message not in self._replies or kind not in (*_SAID, "tool", "file"):
            return
        name = part["id"]
        self._parts[name] = message, part
        told = self._told.get(name)
        if told is None:
            told = self._told[name] = _Told()
            yield Happening("begin", message, part)
        text = part["input"] if kind == "tool" else part["text"] if kind in _SAID else ""
        if len(text) > told.length and not told.ended:
            piece, told.length = text[told.length :], len(text)
            yield Happening("delta", message, part, piece)
        is_complete = part["status"] != "pending" if kind == "tool" else not part["open"]
        if is_complete and not told.ended:
            told.ended = True
            yield Happening("call" if kind == "tool" else "end", message, part)
        if kind == "tool" and not part["open"] and not told.over:
            told.over = True
            yield Happening("result", message, part)


def asked_now(store: Store, session: str) -> str | None:
    """Return the question that is being answered in a session, or waits for that; else None."""
    reader = store.session(session).reader
    question = pending_question(reader)
    return question if question is not None and outcome_of(reader, question).state == "pending" else None
