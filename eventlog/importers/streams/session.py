"""Session of one recorded stream while it is read, and what of its records no event has.

A stream has no identity that is safe to use, because recordings of one request exist under many
names: its session is named after the format and the path. A stream has no times either: the n-th
record is n milliseconds after `created`, if the provider sends that, or after 1970.

Texts that events hold are null in the rest of a record, so that none is stored twice. A record
whose rest is one of the newest, as that of most deltas, has none; sequence numbers and padding do
not count.
"""

from __future__ import annotations

import json
import os
from collections import deque
from hashlib import sha256
from typing import Any

from eventlog import events as ev
from eventlog.importers.common.importer import ImportBatch, Report, bounded_id, path_identity
from eventlog.importers.common.json_lines import dump, is_array, is_object
from eventlog.values import Json, Origin

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


_LATEST = 1 << 40


class StreamSession:
    """The session, and the batch that is being filled."""

    def __init__(self, name: str, path: str, report: Report) -> None:
        self.report = report
        identity = path_identity(path)
        digest = sha256(identity.encode("utf-8", "surrogateescape")).hexdigest()
        self.id: str = f"{name}-{digest[:26]}"
        self._started = ev.SessionStarted(os.path.basename(path), origin=Origin(name, identity, identity))  # noqa: PTH119  # not always a path
        self.batch: ImportBatch = ImportBatch(self.id)
        self.rests: Rests = Rests()
        self._begun = False
        self._ids: set[str] = set()
        self._base = 0
        self._time = 0

    def tick(self, created: object) -> None:
        """Advance the time to that of the next record: one millisecond later.

        The first `created` (UTC seconds) sets where time begins.
        """
        self._time += 1
        if self._base or not isinstance(created, (int, float)) or isinstance(created, bool):
            return
        if 1 <= created < _LATEST:
            self._base, self._time = int(created) * 1000, 0

    def add(self, event: ev.Event) -> None:
        """Append an event at the time of the record that is being read."""
        if not self._begun:
            self._begun = True
            self.report.sessions.append(self.id)
            self.batch.add(self._base + self._time, self._started)
        self.batch.add(self._base + self._time, event)

    def pop_batch(self) -> ImportBatch:
        """Return the batch filled so far and begin a new one."""
        batch, self.batch = self.batch, ImportBatch(self.id)
        return batch

    def new_id(self, wanted: str) -> str:
        """Return an unused id: the wanted one, or one made from it."""
        name, number = bounded_id(wanted), 1
        while name in self._ids:
            number += 1
            name = bounded_id(f"{wanted}#{number}")
        self._ids.add(name)
        return name
