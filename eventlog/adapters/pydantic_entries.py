"""Entries of pydantic-ai as records: its JSON, and the odd values of messages.

pydantic-ai's JSON turns NaN into null and keys into text, refuses what is nested too deep, and lone
surrogates in keys, and does not read details of a retry that lack a field. A field of a message
with such a value is in the JSON as it is shown, and comes back as it was.

A record is an entry with its message, or `{"conversation", "places"}`: the conversation's own
record as of that append, and for each branch that it left the number of the newest record there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, replace
from typing import Any

from pydantic import TypeAdapter
from pydantic_ai.conversation_store import ConversationEntry

from eventlog.adapters.framework_feed import FrameworkFeed, Showing
from eventlog.adapters.odd_values import is_odd, pack, shown, unpack
from eventlog.adapters.pydantic_messages import PydanticAIMapping
from eventlog.errors import CallError, NotFoundError
from eventlog.importers.common.json_lines import is_array, is_object
from eventlog.records.json_value import dumped
from eventlog.session.session import Session

_ENTRY = TypeAdapter(ConversationEntry)
_ENTRIES = TypeAdapter(list[ConversationEntry])

_DETAILS = frozenset(("type", "loc", "msg", "input"))
"""Fields that pydantic's details of an error must have."""
ODD = "odd"
"""Field of a record: each odd value's part (or -1), field and nodes."""


def record_of(entry: ConversationEntry) -> dict[str, Any]:
    """Return the record of an entry."""
    try:
        return _record_of(entry, is_odd)
    except UnicodeEncodeError:  # a lone surrogate in a key
        return _record_of(entry, lambda value: isinstance(value, dict) or is_odd(value))


def _record_of(entry: ConversationEntry, is_packed: Callable[[Any], bool]) -> dict[str, Any]:
    message: Any = entry.message
    odd: list[tuple[int, str, list[Any]]] = []
    parts = list(message.parts)
    for place, part in enumerate(parts):
        for name, value, nodes in _odd(part, is_packed):
            odd.append((place, name, nodes))
            parts[place] = replace(parts[place], **{name: value})
    changed: dict[str, Any] = {}
    for name, value, nodes in _odd(message, is_packed):
        odd.append((-1, name, nodes))
        changed[name] = value
    if not odd:
        return _ENTRY.dump_python(entry, mode="json")  # type: ignore[no-any-return]
    message = replace(message, parts=parts, **changed)
    record: dict[str, Any] = _ENTRY.dump_python(replace(entry, message=message), mode="json")
    return {**record, ODD: [list(one) for one in odd]}


def _odd(one: Any, is_packed: Callable[[Any], bool]) -> Iterator[tuple[str, Any, list[Any]]]:
    """Yield the fields of a message or part with an odd value: name, what is shown, and nodes."""
    for field in fields(one):
        value = getattr(one, field.name)
        if field.name == "content" and getattr(one, "part_kind", "") == "retry-prompt" and _lacks_details(value):
            yield field.name, dumped(shown(value)), pack(value)
            continue
        if isinstance(value, (dict, list, tuple, float)) and field.name != "parts" and is_packed(value):
            try:
                nodes = pack(value)
            except CallError:  # something of pydantic-ai's own is in it
                continue
            yield field.name, _with_utf8_keys(shown(value)), nodes


def _lacks_details(content: Any) -> bool:
    """Whether the details of a retry lack a field that they are read with."""
    return is_array(content) and not all(is_object(detail) and detail.keys() >= _DETAILS for detail in content)


def _with_utf8_keys(value: Any) -> Any:
    """Return a JSON value whose keys have a `?` for each lone surrogate."""
    if is_array(value):
        return [_with_utf8_keys(item) for item in value]
    if not is_object(value):
        return value
    return {key.encode(errors="replace").decode(): _with_utf8_keys(item) for key, item in value.items()}


def entries_of(records: Iterable[dict[str, Any]]) -> list[ConversationEntry]:
    """Return the entries of records."""
    plain: list[Any] = []
    odd: list[list[tuple[int, str, list[Any]]]] = []
    for record in records:
        odd.append(record.get(ODD, []))
        plain.append({name: value for name, value in record.items() if name != ODD} if ODD in record else record)
    try:
        entries = _ENTRIES.validate_json(dumped(plain))  # takes a third of the time of objects
    except ValueError:  # lone surrogates
        entries = _ENTRIES.validate_python(plain)
    for entry, places in zip(entries, odd, strict=True):
        for place, name, nodes in places:
            message: Any = entry.message
            setattr(message if place < 0 else message.parts[place], name, unpack(nodes))
    return entries


PIECE = 32
"""Records that are read together in search of an entry."""


class EntryFeed(FrameworkFeed):
    """The entries of a conversation."""

    def __init__(self, session: Session) -> None:
        super().__init__(session, Showing(PydanticAIMapping()))

    def newest(self) -> tuple[int, dict[str, Any]]:
        """Return the number and value of the newest record."""
        path = self.path(newest=1)
        value: Any = self.read(path)[0] if path else None
        return path[0] if path else 0, value if is_object(value) else {}

    def is_deleted(self) -> bool:
        """Whether the conversation is deleted, or about to be."""
        try:
            return self.newest()[1].get("conversation", "") is None
        except NotFoundError:
            return True

    def place(self, entry: str | None) -> int:
        """Return the number of an entry, 0 for None; `NotFoundError` for an unknown id."""
        for path in self._lines() if entry is not None else ():
            for end in range(len(path), 0, -PIECE):
                piece = path[max(0, end - PIECE) : end]
                for number, value in zip(piece, self.read(piece), strict=True):
                    if is_object(value) and value.get("id") == entry:
                        return number
        if entry is not None:
            raise NotFoundError("entry", entry, session=self.session.id)
        return 0

    def entries(self, head: str, limit: int | None) -> list[Any]:
        """Return the newest entries up to one, all without a limit, oldest first."""
        path = self.path(self.place(head))
        wanted = len(path) if limit is None else limit
        found: list[Any] = []
        while path and len(found) < wanted:
            piece = path[-2 * wanted :]
            del path[-len(piece) :]
            found[:0] = [value for value in self.read(piece) if is_object(value) and "message" in value]
        return found[-wanted:]

    def _lines(self) -> Iterator[list[int]]:
        """Yield the records of the history, and of the branches that it left, newest first."""
        yield self.path()
        places: dict[str, int] = self.newest()[1].get("places") or {}
        for place in reversed(places.values()):
            yield self.path(place)
