"""The tokens of a view: the neutral messages as the texts that they send, counted by `tokens/`.

Not the counting itself.  A message of a view is counted once, and what a view shares at its beginning with
the one before is not looked at again; a large text is counted once wherever it stands, because its count is kept under its
hash.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import pairwise
from threading import Lock

from eventlog import os_fork
from eventlog.codec.bodies import INLINE
from projections.tokens import BodyCounter, CountCache, Counter, MemoryCountCache, frame_tokens, media_tokens
from projections.view.messages import Messages
from projections.view.neutral import Call, File, NeutralMessage, NeutralPart, Result

__all__ = ["ViewCounter", "wire_messages"]

_PIECE = 1 << 18
"""Characters of a text that are encoded at a time to be hashed."""


class ViewCounter:
    """Counts views that follow each other; what they share is counted once."""

    def __init__(self, counter: Counter, model: str = "", cache: CountCache | None = None) -> None:
        self._counter = counter
        self._bodies = BodyCounter(counter, cache or MemoryCountCache())
        self._model = model
        self._messages = Messages([])
        """What was counted last."""
        self._sums: list[tuple[int, int]] = [(0, 0)]
        """The tokens of the texts and the messages on the wire of as many of these as the place in the list says."""
        self._others: tuple[str, ...] = ()
        self._others_tokens = 0
        self._lock = Lock()
        """Views that share a counter may be in several threads."""
        os_fork.register(self)

    def fork_off(self) -> None:
        """This is a child process, in which what was counted last may be half noted."""
        self._lock = Lock()
        self._messages, self._sums = Messages([]), [(0, 0)]
        self._others, self._others_tokens = (), 0

    def count(self, messages: Iterable[NeutralMessage], system: Sequence[str] = (), tools: str | None = None) -> int:
        """The tokens of a request with this system prompt, these messages and these tool schemas (JSON)."""
        given = messages if isinstance(messages, Messages) else Messages([*messages])
        others = (*system, tools) if tools else tuple(system)
        with self._lock:
            total, frames = self._sum(given)
            if others != self._others:
                self._others_tokens, self._others = sum(map(self._text, others)), others
            return total + self._others_tokens + frame_tokens(frames + len(others))

    def _sum(self, messages: Messages) -> tuple[int, int]:
        sums = self._sums
        common = messages.common(self._messages)
        before = zip(self._messages.since(common), pairwise(sums[common:]), strict=True)
        known = {id(message): (end[0] - start[0], end[1] - start[1]) for message, (start, end) in before}
        total, frames = sums[common]
        added: list[tuple[int, int]] = []
        for message in messages.since(common):
            tokens, wire = known.get(id(message)) or (self._message(message), wire_messages(message))
            total, frames = total + tokens, frames + wire
            added.append((total, frames))
        sums[common + 1 :] = added
        self._messages = messages
        return total, frames

    def part(self, part: NeutralPart) -> int:
        """The tokens of one part alone."""
        return self._message(NeutralMessage("assistant", (part,)))

    def _message(self, message: NeutralMessage) -> int:
        texts = sum(map(self._text, _texts(message)))
        return texts + sum(self._file(file) for file in _files(message))

    def _text(self, text: str) -> int:
        if len(text) <= INLINE:
            return self._counter.count(text)
        digest = sha256()
        for begin in range(0, len(text), _PIECE):
            digest.update(text[begin : begin + _PIECE].encode("utf-8", "surrogatepass"))
        return self._bodies.count(digest.digest(), lambda: text)

    def _file(self, file: File) -> int:
        data = b""
        if file.url.startswith("data:"):
            try:
                data = b64decode(file.url.partition(",")[2])
            except (binascii.Error, ValueError):
                data = b""
        return media_tokens(file.mime, data, self._model)


def wire_messages(message: NeutralMessage) -> int:
    """Messages on the wire: each result of a tool is one."""
    return len(message.parts) if message.role == "tool" else 1


def _texts(message: NeutralMessage) -> Iterator[str]:
    for part in message.parts:
        if isinstance(part, Call):
            yield part.tool
            yield part.input
        elif isinstance(part, Result):
            yield part.output
        elif not isinstance(part, File):
            yield part.text


def _files(message: NeutralMessage) -> Iterator[File]:
    for part in message.parts:
        if isinstance(part, File):
            yield part
        elif isinstance(part, Result):
            yield from part.files
