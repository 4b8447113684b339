"""Events of Google ADK as records: its JSON with exact values, and their mapping.

ADK's JSON turns NaN into null and bytes in free values into text. So texts and free values (state,
arguments, responses, metadata) go from an event into its record, and back, by themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import Any

from google.adk.events.event import Event
from pydantic.alias_generators import to_camel
from pydantic_core import to_jsonable_python

from eventlog.adapters.framework_feed import FrameworkFeed, Showing
from eventlog.adapters.odd_values import is_odd, pack
from eventlog.errors import CallError
from eventlog.importers.common.builder import RecordBuilder
from eventlog.importers.gemini import parts
from eventlog.records.json_value import dumped
from eventlog.session.session import Session
from eventlog.streams.records import object_of, objects_of, text_of
from eventlog.streams.tokens import gemini_usage
from eventlog.values import Model

Place = tuple[str | int, ...]
_IN_PARTS = {"text": True, "function_call": {"args"}, "function_response": {"response"}}
_APART: Any = {
    "custom_metadata": True,
    "output": True,
    "actions": {"state_delta", "agent_state"},
    "content": {"parts": {"__all__": _IN_PARTS}},
}
"""Fields that are not of ADK's JSON in a record."""


def free_value(value: Any) -> Any:
    """Return a value as a record may have it: objects of classes as ADK's JSON has them."""
    try:
        if is_odd(value):
            pack(value)
    except CallError:
        return to_jsonable_python(value, serialize_unknown=True)
    return value


def record_of(event: Event) -> dict[str, Any]:
    """Return the record of an event; bytes are base64, not in the alphabet of URLs."""
    record: dict[str, Any] = event.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=_APART)
    for owner, place in _places(record):
        if (value := _found(event, place)) is not None:
            owner[to_camel(str(place[-1]))] = free_value(value)
    for part in _parts(record):
        if data := object_of(part.get("inlineData")).get("data"):
            part["inlineData"]["data"] = data.replace("-", "+").replace("_", "/")
    return record


def event_of(record: dict[str, Any]) -> Event:
    """Return the event of a record, which loses what is not of ADK's JSON."""
    apart = [(place, owner.pop(to_camel(str(place[-1])), None)) for owner, place in _places(record)]
    event = Event.model_validate_json(dumped(record))
    for place, value in apart:
        if value is not None:
            setattr(_found(event, place[:-1]), str(place[-1]), value)
    return event


def _places(record: dict[str, Any]) -> Iterator[tuple[dict[str, Any], Place]]:
    """Yield the fields that are apart: the object in the record that has one, and its place."""
    yield from ((record, (name,)) for name in ("custom_metadata", "output"))
    yield from ((record.setdefault("actions", {}), ("actions", name)) for name in ("state_delta", "agent_state"))
    for at, part in enumerate(_parts(record)):
        place: Place = ("content", "parts", at)
        yield part, (*place, "text")
        for name, field in (("function_call", "args"), ("function_response", "response")):
            if to_camel(name) in part:
                yield part[to_camel(name)], (*place, name, field)


def _found(event: Event, place: Place) -> Any:
    return reduce(lambda one, step: one[step] if isinstance(step, int) else getattr(one, step), place, event)  # type: ignore[index]


def _parts(record: dict[str, Any]) -> list[dict[str, Any]]:
    return list(objects_of(object_of(record.get("content")).get("parts")))


class AdkMapping:
    """The mapping of events; a rewind is a rollback of the feed."""

    format = "google-adk"

    def read(self, record: Any, to: RecordBuilder) -> None:
        """Tell what an event means: what the user says, an answer, or results of calls."""
        content, name = record.get("content"), text_of(record.get("id"))
        for found in parts.responses(content):
            said, held = parts.response_of(found, [])
            to.result(text_of(found.get("id")), said.output, failed=said.failed, held=held)
        shown = [part for part in parts.parts_of(content) if "functionResponse" not in part]
        if shown and record.get("author") == "user":
            to.user(parts.user_parts(shown, to), id=name)
        elif shown:
            model = text_of(record.get("modelVersion"))
            to.answer(id=name, model=Model(parts.PROVIDER, model) if model else None, agent=text_of(record["author"]))
            parts.answer_parts(shown, to)
            if usage := object_of(record.get("usageMetadata")):
                to.usage(gemini_usage(usage))
            to.end(text_of(record.get("finishReason")) or None)


class AdkFeed(FrameworkFeed):
    """The events of a session."""

    def __init__(self, session: Session) -> None:
        super().__init__(session, Showing(AdkMapping()))
