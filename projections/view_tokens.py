"""The tokens of a view: the neutral messages as the texts that they send, counted by `tokens/`.

Not the counting itself.  Imported by `model_view.py`.  A message of a view is counted once; a large text is counted once
wherever it stands, because its count is kept under its hash.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256

from eventlog.blobs import INLINE
from projections.neutral import Call, File, NeutralMessage, NeutralPart, Result
from projections.tokens import BodyCounter, CountCache, Counter, MemoryCountCache, frame_tokens, media_tokens

__all__ = ["ViewCounter", "wire_messages"]


class ViewCounter:
    """Counts views that follow each other; what they share is counted once."""

    def __init__(self, counter: Counter, model: str = "", cache: CountCache | None = None) -> None:
        self._counter = counter
        self._bodies = BodyCounter(counter, cache or MemoryCountCache())
        self._model = model
        self._known: dict[int, tuple[NeutralMessage, int, int]] = {}

    def count(self, messages: Iterable[NeutralMessage], system: Sequence[str] = (), tools: str | None = None) -> int:
        """The tokens of a request with this system prompt, these messages and these tool schemas (JSON)."""
        total, frames = 0, 0
        known: dict[int, tuple[NeutralMessage, int, int]] = {}
        for message in messages:
            entry = self._known.get(id(message)) or (message, self._message(message), wire_messages(message))
            known[id(message)] = entry
            total += entry[1]
            frames += entry[2]
        self._known = known
        others = [*system, *([tools] if tools else [])]
        return total + sum(map(self._text, others)) + frame_tokens(frames + len(others))

    def part(self, part: NeutralPart) -> int:
        """The tokens of one part alone."""
        return self._message(NeutralMessage("assistant", (part,)))

    def _message(self, message: NeutralMessage) -> int:
        texts = sum(map(self._text, _texts(message)))
        return texts + sum(self._file(file) for file in _files(message))

    def _text(self, text: str) -> int:
        if len(text) <= INLINE:
            return self._counter.count(text)
        digest = sha256(text.encode("utf-8", "surrogatepass")).digest()
        return self._bodies.count(digest, lambda: text)

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
