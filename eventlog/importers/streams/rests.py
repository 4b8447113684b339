"""Rest of a stream's record: its fields that no event has.

Texts that events hold are null in it, so that none is stored twice. A record whose rest is one of
the newest, as that of most deltas, has none; sequence numbers and padding do not count.
"""

from __future__ import annotations

import json
from collections import deque
from typing import Any

from eventlog.importers.common.json_lines import dump, is_array, is_object
from eventlog.values import Json

__all__ = ["Rests"]

_SHORT = 16
"""Shorter texts stay, except in fields for texts: a text may be "assistant"."""
_NEWEST = 16
_TEXTS = frozenset(
    {
        "arguments", "content", "delta", "partial_json", "reasoning", "reasoning_content", "refusal", "text", "thinking",
        "transcript",
    }
)  # fmt: skip
_VOLATILE = frozenset({"sequence_number", "obfuscation"})


class Rests:
    """Texts that the events of a stream hold, and the newest rests."""

    def __init__(self) -> None:
        self._newest: deque[str] = deque(maxlen=_NEWEST)
        self._pieces: dict[str, list[str]] = {}
        self._lengths: dict[str, int] = {}
        self._whole: set[str] = set()
        self._fresh: set[str] = set()
        """Texts of events of the record that is read now."""

    def begin(self) -> None:
        """Forget the texts of the last answer, which another does not repeat."""
        self._pieces, self._lengths, self._whole = {}, {}, set()

    def add(self, part: str, piece: str) -> None:
        """Note a piece of the text, or of the input, of a part."""
        if piece:
            self._fresh.add(piece)
            self._pieces.setdefault(part, []).append(piece)
            self._lengths[part] = self._lengths.get(part, 0) + len(piece)

    def hold(self, value: Any) -> None:
        """Note the texts in a value that an event holds."""
        if isinstance(value, str) and len(value) >= _SHORT:
            self._whole.add(value)
        elif is_object(value):
            for item in value.values():
                self.hold(item)
        elif is_array(value):
            for item in value:
                self.hold(item)

    def hold_json(self, text: Json | None) -> None:
        """Note the texts in JSON that an event holds; a text that is no JSON is noted itself."""
        if text:
            self.hold(text)
            try:
                self.hold(json.loads(text))
            except (ValueError, RecursionError):
                return

    def rest_of(self, record: dict[str, Any], *, plain: bool) -> Json | None:
        """Return the rest of the record as JSON; None if one of the newest is equal."""
        rest = self._strip(record, "")
        self._fresh.clear()
        shape = dump({name: value for name, value in rest.items() if name not in _VOLATILE}, plain=plain)
        if shape in self._newest:
            return None
        self._newest.append(shape)
        return dump(rest, plain=plain)

    def _strip(self, value: Any, name: str) -> Any:
        if isinstance(value, str):
            return None if self._has(value, name) else value
        if is_object(value):
            return {key: self._strip(item, key) for key, item in value.items()}
        if is_array(value):
            return [self._strip(item, name) for item in value]
        return value

    def _has(self, text: str, name: str) -> bool:
        if text in self._fresh:
            return len(text) >= _SHORT or name in _TEXTS
        if not text or (len(text) < _SHORT and name not in _TEXTS):
            return False
        if text in self._whole:
            return True
        return len(text) in self._lengths.values() and any(
            self._lengths[part] == len(text) and "".join(pieces) == text for part, pieces in self._pieces.items()
        )
