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
from projections.live.live_session import LiveSession
from projections.transcript.message_json import Json

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
    """How much of a part, or a reply, was told."""

    length: int = 0
    """Characters of its text, or of its arguments."""
    ended: bool = False
    over: bool = False
    """Whether nothing more comes of it."""


class Answer:
    """The answer to a question of a session, which other tasks and processes may give."""

    def __init__(self, store: Store, session: str, question: str) -> None:
        store.session(session).reader.find(question)
        self.store: Store = store
        self.session = session
        self.question = question
        self.outcome: Outcome = Outcome("pending")
        """How the answer stands: its replies, and how it ended once nothing more comes."""
        self._messages: dict[str, Json] = {}
        self._parts: dict[str, dict[str, Json]] = {}
        """The parts of each message."""
        self._message_of: dict[str, str] = {}
        self._told: dict[str, _Told] = {}

    async def __aiter__(self) -> AsyncGenerator[Happening]:
        updates = aiter(AsyncLive(self.store, self.session, limit=_LIMIT, longest=_LONGEST, provisional=False))
        async with aclosing(updates):
            async for update in updates:
                self._take(update.patches)
                if not all("part" in patch for patch in update.patches or [{}]):  # a look costs the turn so far
                    self.outcome = await asyncio.to_thread(self._look)
                for happening in self._news():
                    yield happening
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
        self._take([] if update is None else update.patches)
        yield from self._news()
        for name, told in self._told.items():
            if not told.ended:
                message = self._message_of.get(name, name)
                yield Happening("replied" if message == name else "end", message, self._parts[message].get(name, {}))

    def _take(self, patches: list[Json]) -> None:
        """Change the page."""
        for patch in patches:
            for message in patch["reset"]["messages"] if "reset" in patch else [patch.get("message")]:
                if message is not None:
                    self._messages[message["id"]] = message
                    for part in message.get("parts", ()):
                        self._keep(message["id"], part)
            if "of" in patch:
                self._keep(patch["of"], patch["set"])
            elif patch.get("part") in self._message_of:
                message = self._message_of[patch["part"]]
                part = self._parts[message][patch["part"]]
                self._keep(message, part | (patch.get("set") or {patch["field"]: part[patch["field"]] + patch["text"]}))

    def _keep(self, message: str, part: Json) -> None:
        self._message_of[part["id"]] = message
        self._parts.setdefault(message, {})[part["id"]] = part

    def _news(self) -> Iterator[Happening]:
        """Yield what was not told yet of the replies that the page has."""
        for name in filter(self._messages.__contains__, self.outcome.replies):
            if name not in self._told:
                yield Happening("reply", name, {})
            told = self._told.setdefault(name, _Told())
            for part in self._parts.setdefault(name, {}).values():
                if part["kind"] in (*_SAID, "tool", "file"):
                    yield from self._tell(name, part)
            if self._messages[name]["finished"] is not None and not told.ended:
                told.ended = True
                yield Happening("replied", name, {})

    def _tell(self, message: str, part: Json) -> Iterator[Happening]:
        kind, told = part["kind"], self._told.get(part["id"])
        if told is None:
            told = self._told[part["id"]] = _Told()
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
