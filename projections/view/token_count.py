"""The tokens of a view: of a request, a message, a part, and by kind of content.

`tokens/` counts texts; this module says which texts a view sends. A message of a view is counted
once, and the beginning that a view shares with the one before is not looked at again. The count of
a large text is cached under its hash.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import pairwise
from threading import Lock
from typing import Literal, TypeAlias
from urllib.parse import unquote_to_bytes

from eventlog import os_fork
from eventlog.codec.large_texts import INLINE
from eventlog.log.contract import Log
from eventlog.values import Body, Content, Model
from projections.tokens.cache import CountCache
from projections.tokens.counter import Counter, TokenCounter, frame_tokens
from projections.tokens.encodings import encoding_for
from projections.tokens.media import media_tokens
from projections.view.messages import Messages
from projections.view.neutral import Call, File, NeutralMessage, NeutralPart, Opaque, Reasoning, Result

ContentKind: TypeAlias = Literal["text", "reasoning", "calls", "results", "attachments"]
"""Kind of the content of a part.

"calls" are names and arguments, "results" are outputs without their attachments.
"""

CIPHER = 4
"""Characters of a cipher for one token, if the provider reports none."""
_PIECE = 1 << 18
"""Characters of a text that are encoded at a time to be hashed."""


class ViewCounter:
    """Counts requests, messages and parts; views that follow each other share their counts."""

    def __init__(self, counter: Counter, model: str = "", cache: CountCache | None = None) -> None:
        """`model` decides what images cost; `cache` has the counts of large texts."""
        self._counter = counter
        self._cache = cache or CountCache()
        self._model = model
        self._messages = Messages([])
        """The messages of the request counted last."""
        self._sums: list[tuple[int, int]] = [(0, 0)]
        """Running sums over `_messages`: tokens of the content, and messages on the wire."""
        self._others: tuple[str, ...] = ()
        self._others_tokens = 0
        self._lock = Lock()
        """Views that share a counter may be in several threads."""
        os_fork.register(self)

    def fork_off(self) -> None:
        """Forget the last request in a child process: the parent may have been counting it."""
        self._lock = Lock()
        self._messages, self._sums = Messages([]), [(0, 0)]
        self._others, self._others_tokens = (), 0

    def count(
        self,
        messages: Iterable[NeutralMessage],
        system: Sequence[str] = (),
        tools: str | None = None,
        format: str | None = None,
    ) -> int:
        """Return the tokens of a request: messages, system prompt, tools, format, frames."""
        sequence = messages if isinstance(messages, Messages) else Messages([*messages])
        others = (*system, *filter(None, (tools, format)))
        with self._lock:
            total, frames = self._sum(sequence)
            if others != self._others:
                self._others_tokens, self._others = sum(map(self.text, others)), others
            return total + self._others_tokens + frame_tokens(frames + len(others))

    def message(self, message: NeutralMessage) -> int:
        """Return the tokens that a message adds to a request, its frame included."""
        return self._message(message) + frame_tokens(wire_messages(message)) - frame_tokens(0)

    def part(self, part: NeutralPart) -> int:
        """Return the tokens of a part, without the frame of its message."""
        return sum(tokens for _, tokens in self.by_kind(part))

    def by_kind(self, part: NeutralPart) -> Iterator[tuple[ContentKind, int]]:
        """Yield the tokens of a part by the kind of its content."""
        if isinstance(part, Call):
            yield "calls", self.text(part.tool) + self.text(part.input)
        elif isinstance(part, Result):
            yield "results", self.text(part.output)
            for file in part.files:
                yield "attachments", self.file(file.mime, file.url)
        elif isinstance(part, File):
            yield "attachments", self.file(part.mime, part.url)
        elif isinstance(part, Opaque):
            known = len(part.data) // CIPHER if part.tokens is None else part.tokens
            yield "text", self.text(part.text) if part.text else known
        else:
            yield "reasoning" if isinstance(part, Reasoning) else "text", self.text(part.text)

    def text(self, text: str) -> int:
        """Return the tokens of a text."""
        if len(text) <= INLINE:
            return self._counter.count(text)
        digest = sha256()
        for begin in range(0, len(text), _PIECE):
            digest.update(text[begin : begin + _PIECE].encode("utf-8", "surrogatepass"))
        return self._cache.counted(self._counter, digest.digest(), lambda: text)

    def content(self, content: Content, resolve: Callable[[Content], str]) -> int:
        """Return the tokens of a content; `resolve` loads a body whose count is not cached."""
        if isinstance(content, Body):
            return self._cache.counted(self._counter, content.digest, lambda: resolve(content))
        return self.text(content)

    def file(self, mime: str, url: str) -> int:
        """Return the tokens of a file; one behind an address counts as of unknown size."""
        data = b""
        if url.startswith("data:"):
            head, _, said = url.partition(",")
            try:
                data = b64decode(said) if head.endswith(";base64") else unquote_to_bytes(said)
            except (binascii.Error, ValueError):
                data = b""
            if mime.startswith("text/"):  # sent as a text, or charged as one
                return self.text(data.decode(errors="replace"))
        return media_tokens(mime, data, self._model)

    # -- helpers -------------------------------------------------------------------------------

    def _sum(self, messages: Messages) -> tuple[int, int]:
        sums = self._sums
        common = messages.common(self._messages)
        before = zip(self._messages.since(common), pairwise(sums[common:]), strict=True)
        counted = {id(message): (end[0] - start[0], end[1] - start[1]) for message, (start, end) in before}
        total, frames = sums[common]
        added: list[tuple[int, int]] = []
        for message in messages.since(common):
            tokens, wire = counted.get(id(message)) or (self._message(message), wire_messages(message))
            total, frames = total + tokens, frames + wire
            added.append((total, frames))
        sums[common + 1 :] = added
        self._messages = messages
        return total, frames

    def _message(self, message: NeutralMessage) -> int:
        return sum(map(self.part, message.parts))


def counter_of(session: str, log: Log, model: Model | None) -> ViewCounter:
    """Return a counter for a model; the log keeps the counts of a session's large texts."""
    name = "" if model is None else model.name
    return ViewCounter(TokenCounter(encoding_for(name)), name, CountCache(log.of(session)))


def wire_messages(message: NeutralMessage) -> int:
    """Return how many messages a provider is sent for this one: each result of a tool is one."""
    return len(message.parts) if message.role == "tool" else 1
