"""A provider with a prefix cache, and a program that knows what broke a prefix.

The truth does not come from the report: each action is measured by itself, by the text that would
be sent before and after it, and the provider says what it would have had without a time to live.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from hashlib import blake2b
from itertools import accumulate, zip_longest
from typing import NamedTuple

import msgspec

from eventlog.session.session import Session
from eventlog.values import Tokens, Usage
from projections.reports.cache_rules import CacheRules
from projections.view.digest import RENDERER
from projections.view.model_view import ModelView
from projections.view.options import RenderOptions

OPTIONS = RenderOptions(reminder=True)
RENDER = msgspec.json.encode({"renderer": RENDERER, "options": OPTIONS}).decode()
LOOK_BACK = 20
"""Pieces before a mark at which an earlier mark is found."""
TOKEN = 4
"""Characters of the provider's tokens."""


class Served(NamedTuple):
    """Tokens of a request, and those from the cache."""

    tokens: int
    cached: int
    endless: int
    """Those that a cache without a time to live would have had."""
    written: int = 0


class Sent(NamedTuple):
    """A request piece by piece: tools, system prompt, the parts of messages."""

    pieces: list[str]
    marks: list[int]
    """Pieces in front of marks: behind the system prompt, and the newest user messages."""


class Provider:
    """Keeps blocks of the beginnings of requests, by model, for a while after their last use."""

    def __init__(self, rules: CacheRules) -> None:
        self.rules = rules
        self._used: dict[tuple[str, bytes], int] = {}

    def serve(self, model: str, sent: Sent, time: int) -> Served:
        """Read a request at a time in milliseconds."""
        return (self._marked if self.rules.marked else self._blocks)(model, sent, time)

    def _marked(self, model: str, sent: Sent, time: int) -> Served:
        """Look back from each mark, for what an earlier request had marked."""
        ends = [*accumulate(map(len, sent.pieces), initial=0)]
        keys = [(model, blake2b("".join(sent.pieces[:count]).encode()).digest()) for count in range(len(ends))]
        looked = {count for mark in sent.marks for count in range(max(0, mark - LOOK_BACK), mark + 1)}
        held = [count for count in looked if keys[count] in self._used]
        fresh = [count for count in held if time - self._used[keys[count]] <= 1_000 * (self.rules.life or 0)]
        cached, endless = (ends[max(counts, default=0)] // TOKEN for counts in (fresh, held))
        marks = [mark for mark in sent.marks if ends[mark] >= self.rules.least * TOKEN]
        self._used |= {keys[count]: time for count in (*marks, max(fresh, default=0)) if count}
        return Served(ends[-1] // TOKEN, cached, endless, max(0, ends[max(marks, default=0)] // TOKEN - cached))

    def _blocks(self, model: str, sent: Sent, time: int) -> Served:
        """Find the longest beginning of whole blocks."""
        text = "".join(sent.pieces)
        rules, size = self.rules, self.rules.block * TOKEN
        digest, found = blake2b(), {True: 0, False: 0}
        is_whole = {True: True, False: True}
        for count, begin in enumerate(range(0, len(text) - len(text) % size, size), 1):
            digest.update(text[begin : begin + size].encode())
            key = (model, digest.digest())
            used = self._used.get(key)
            is_fresh = used is not None and (rules.life is None or time - used <= 1_000 * rules.life)
            for ends, is_held in ((True, is_fresh), (False, used is not None)):
                is_whole[ends] = is_whole[ends] and is_held
                if is_whole[ends]:
                    found[ends] = count * rules.block
            self._used[key] = time
        kept = {ends: tokens if tokens >= rules.least else 0 for ends, tokens in found.items()}
        return Served(len(text) // TOKEN, kept[True], kept[False])


class Step(NamedTuple):
    """A step, and what is true of it."""

    version: int
    missed: int
    """Tokens that the request before had too, and that did not come from the cache."""
    causes: frozenset[str]
    """The causes that are right: the action that broke the beginning, or an end of life."""


class Program:
    """A session, a provider, and the time."""

    def __init__(self, session: Session, provider: Provider, clock: list[int]) -> None:
        """`clock` has the milliseconds that the store's clock reads."""
        self.session = session
        self.steps: list[Step] = []
        self.provider = provider
        self._clock = clock
        self._breaks: dict[str, list[tuple[int, str]]] = {}
        """By model the characters in front of what actions changed since its last step."""
        self._sent: dict[str, list[str]] = {}
        self._newest = ""

    def act(self, cause: str, action: Callable[[], object]) -> None:
        """Do something, and measure where it changes the request."""
        before = self._pieces()
        action()
        after = self._pieces()
        if after[: len(before)] != before:
            for breaks in self._breaks.values():
                breaks.append((_common("".join(before), "".join(after)), cause))

    def wait(self, seconds: int) -> None:
        """Let time pass."""
        self._clock[0] += 1_000 * seconds

    def step(self, model: str, text: str, results: tuple[str, ...] = (), written: str = "") -> list[str]:
        """Ask a model, which says a text and calls tools; return the parts of the calls.

        `written` is a large argument of each call.
        """
        view = ModelView.of(self.session, options=OPTIONS)
        sent = _sent(view)
        served = self.provider.serve(model, sent, self._clock[0])
        self._note(model, sent.pieces, served)
        calls: list[str] = []

        def answer() -> None:
            with self.session.assistant(model, view=view.version) as reply:
                reply.step(view_version=view.version, view_digest=view.digest, render=RENDER, counted=view.tokens)
                self.steps[-1] = self.steps[-1]._replace(version=self.session.version)
                reply.add_text(text)
                for result in results:
                    call = reply.tool(
                        "read", call_id=f"c{result[:12]}", input={"path": result[:12], "written": written}
                    )
                    call.succeed(result)
                    calls.append(call.id)
                anew = served.tokens - served.cached - served.written
                tokens = Tokens(anew, 20, 0, served.cached, served.written)
                reply.finish("tool-calls" if results else "stop", usage=Usage(tokens))

        self.act("reminder", answer)
        self._clock[0] += 2_000
        return calls

    def _note(self, model: str, pieces: list[str], served: Served) -> None:
        other = model != self._newest and model not in self._sent
        before = self._sent.get(model) or self._sent.get(self._newest) or []
        known = set(before)
        again = sum(len(piece) for piece in pieces if piece in known) // TOKEN
        limit = len("".join(before))
        broken = _common("".join(before), "".join(pieces))
        breaks = self._breaks.get(model, [])
        nearest = min((abs(place - broken) for place, _ in breaks), default=0)
        causes = {cause for place, cause in breaks if abs(place - broken) == nearest}
        missed = max(0, self.provider.rules.kept(min(again, limit // TOKEN)) - served.cached)
        if other:
            causes = {"model"}
        elif 2 * (served.endless - served.cached) > missed:
            causes = {"expired"}
        self.steps.append(Step(0, missed if before else 0, frozenset(causes)))
        self._breaks[model] = []
        self._sent[model], self._newest = pieces, model

    def _pieces(self) -> list[str]:
        return _sent(ModelView.of(self.session, options=OPTIONS)).pieces


def _sent(view: ModelView) -> Sent:
    pieces = [view.tools or "", *view.system]
    marks = [len(pieces)]
    for message, after in zip_longest(view.messages, [*view.messages][1:]):
        pieces += [msgspec.json.encode(part).decode() for part in message.parts]
        if message.role != "assistant" and (after is None or after.role == "assistant"):
            marks.append(len(pieces))
    return Sent(pieces, [*marks[:1], *marks[1:][-2:]])


def _common(one: str, two: str) -> int:
    return bisect_left(range(min(len(one), len(two))), True, key=lambda place: one[: place + 1] != two[: place + 1])
