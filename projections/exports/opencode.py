"""A session as OpenCode's export JSON, which `opencode import` takes: the document of version 1.18.

A session that was imported from such an export, and not touched since, comes back JSON-equal.  What was added or changed natively is told
in OpenCode's words, with defaults for what OpenCode needs and we do not have (project, slug, paths); what OpenCode has no
word for (settings, pins, digests, the deltas one by one) is not in it.  The effective history counts: what was rolled back is left out.

Ids that are not OpenCode's, and those of a fork (OpenCode copies messages into one), are made anew (`opencode_ids.py`).  Holds
the document in memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from copy import deepcopy
from math import copysign, isfinite, isnan
from sys import float_info
from typing import Any, NamedTuple

from eventlog import events as ev
from eventlog.codec.decoded import Span
from eventlog.codec.deltas import DeltaRun
from eventlog.importers.common.json_lines import is_array, is_object
from eventlog.importers.opencode.importer import restore
from eventlog.importers.opencode.messages import oddity
from eventlog.session.session import Session
from eventlog.values import Origin
from projections.exports.opencode_ids import renamed, session_id
from projections.exports.opencode_messages import CHANGES, Known, Record, Timed, change, record_of, tokens_record
from projections.reports.usage import total, usage_by_model
from projections.view.part_rendering import Resolver

__all__ = ["VERSION", "opencode_export", "opencode_json", "opencode_pieces"]

_ENCODER = json.JSONEncoder(ensure_ascii=False, indent=2)
VERSION = "1.18.33"
"""The version of OpenCode whose export this is."""


class _Told(NamedTuple):
    """An event in its place; a run of deltas is one for each text that it adds to."""

    version: int
    time: int
    event: ev.Event


def opencode_json(session: Session) -> bytes:
    """The document as UTF-8 text; lone surrogates as escapes."""
    return b"".join(opencode_pieces(session))


def opencode_pieces(session: Session) -> Iterator[bytes]:
    """The document as pieces of UTF-8 text; lone surrogates as escapes."""
    document = opencode_export(session)
    _make_finite(document)
    for piece in _ENCODER.iterencode(document):
        yield piece.encode(errors="backslashreplace")
    yield b"\n"


def _make_finite(value: Any) -> None:
    """Put the nearest number that JSON has in the place of an infinite one, and null where there is none."""
    holder: Any = value
    places: Iterable[Any] = holder if is_object(value) else range(len(holder)) if is_array(value) else ()
    for place in places:
        item: Any = holder[place]
        if isinstance(item, float) and not isfinite(item):
            holder[place] = None if isnan(item) else copysign(float_info.max, item)
        else:
            _make_finite(item)


def opencode_export(session: Session) -> Record:
    """The document."""
    told = [*_told(session.reader.spans())]
    bound = _imported(told)
    exact: Record | None = None
    if bound:
        exact = restore([(found.time, found.event) for found in told if found.version <= bound], session.text)
        if bound == session.version and session.info.fork_of is None:
            return exact
    document = _document(session, told, bound, exact)
    renamed(document, fresh=session.info.fork_of is not None)
    return document


def _told(spans: Iterable[Span]) -> Iterator[_Told]:
    for span in spans:
        if not isinstance(span.item, DeltaRun):
            yield _Told(span.first, span.time, span.item)
            continue
        for (part, field), text in span.item.joined().items():
            yield _Told(span.last, span.time, ev.PartDelta(part, field, text))


def _imported(told: list[_Told]) -> int:
    """The version up to which the events are those of an import from OpenCode, 0 if none are."""
    origin: Origin | None = getattr(told[0].event, "origin", None)
    if origin is None or origin.format != "opencode":
        return 0
    kept = (found.version for found in told if isinstance(found.event, ev.ForeignKept))
    return max(kept, default=0)


class _Messages:
    """The events of each message, in order, by its id."""

    def __init__(self, told: Iterable[_Told], text: Resolver) -> None:
        self.text = text
        self.of: dict[str, list[_Told]] = {}
        self.removed: dict[str, int] = {}
        """Removed messages, and at which version."""
        self._owner: dict[str, str] = {}
        for found in told:
            self._take(found)

    def _take(self, found: _Told) -> None:
        event = found.event
        if isinstance(event, ev.MessageRemoved):
            self.removed[event.message] = found.version
        elif isinstance(event, (ev.UserMessageAdded, ev.AssistantMessageStarted)):
            self.of[event.message] = [found]
        elif isinstance(event, (ev.Pruned, ev.Restored)):
            for part in event.parts:
                owner = self._owner.get(part)
                if owner is not None:
                    self.of[owner].append(found._replace(event=type(event)((part,))))
        else:
            name: str | None = getattr(event, "part", None)
            message: str | None = getattr(event, "message", None)
            message = message if message is not None else self._owner.get(name or "")
            if message in self.of:
                self.of[message].append(found)
                if name is not None:
                    self._owner[name] = message


def _document(session: Session, told: list[_Told], bound: int, exact: Record | None) -> Record:
    text = session.text
    whole = _Messages((found for found in told if found.version <= bound), text)
    hidden = [_Told(session.version, 0, ev.PartRedacted(part)) for part in session.reader.inherited_redactions()]
    effective = _Messages([*_told(session.history()), *hidden], text)
    known = _known(session, told)
    records: dict[str, Record] = {}
    if exact is not None:
        imported: list[Any] = exact["messages"]
        records = {record["info"]["id"]: record for record in imported if oddity(record, ()) is None}
    messages: list[Record] = []
    said = any(found.version > bound and isinstance(found.event, ev.UserMessageAdded) for found in told)
    for name, events in effective.of.items():
        if effective.removed.get(name, 0) > (bound if not said else 0):
            continue
        late = [
            found for found in events if found.version > bound
        ]  # a revert is final once somebody says something new
        record = records.get(name) if len(events) - len(late) == len(whole.of.get(name, ())) else None
        if said:
            late = [found for found in events if found.version > bound or isinstance(found.event, ev.PartRemoved)]
        messages.append(_record(record, events, late, known, text))
    info = _info(session, told, known, {} if exact is None else exact["info"])
    if said:
        info.pop("revert", None)
    return {**(exact or {}), "info": info, "messages": messages}


def _record(exact: Record | None, events: list[_Told], late: list[_Told], known: Known, text: Resolver) -> Record:
    """The record of a message: the imported one with what came later, or one made of its events."""
    changes = [(found.time, found.event) for found in (events if exact is None else late)]
    if exact is None or not all(isinstance(event, CHANGES) for _, event in changes):
        items: list[Timed] = [(found.time, found.event) for found in events]
        record = record_of(items, known, text)
        if exact is not None:
            record = _merged(exact, record)
    else:
        record = deepcopy(exact)
        known.saw(record["info"])
    for time, event in changes:
        if isinstance(event, CHANGES):
            change(record, time, event, text)
    return record


def _merged(exact: Record, record: Record) -> Record:
    """The newer record with what only the imported one has."""
    imported: list[Any] = exact["parts"]
    parts: dict[object, Record] = {part.get("id"): part for part in imported if is_object(part)}
    return {
        **exact,
        "info": {**exact["info"], **record["info"]},
        "parts": [{**parts.get(part["id"], {}), **part} for part in record["parts"]],
    }


def _known(session: Session, told: list[_Told]) -> Known:
    first = next((found.event for found in told if isinstance(found.event, ev.SessionStarted)), None)
    directory, agent, model = ("", "", None) if first is None else (first.directory, first.agent, first.model)
    named = (getattr(found.event, "model", None) for found in told)
    return Known(session_id(session.id), directory, agent, model or next((found for found in named if found), None))


def _info(session: Session, told: list[_Told], known: Known, exact: Record) -> Record:
    """The session's own record: the imported one as far as there is one, and what is true now."""
    info, shown = deepcopy(exact), session.info
    spent = total(usage_by_model(session.reader.spans()))
    info.update(
        id=session_id(session.id),
        title=shown.title,
        cost=float(spent.cost),
        tokens=tokens_record(spent.tokens),
    )
    info.setdefault("slug", session_id(session.id).removeprefix("ses_").lower())
    info.setdefault("projectID", "global")
    info.setdefault("directory", known.directory)
    info.setdefault("version", VERSION)
    info.setdefault("agent", known.agent)
    info.setdefault("model", {"id": known.model.name, "providerID": known.model.provider})
    info.pop("parentID", None)
    if shown.parent is not None:
        info["parentID"] = session_id(shown.parent)
    info["time"] = {**info.get("time", {}), "created": shown.created, "updated": shown.updated}
    info["time"].pop("archived", None)
    if shown.archived:
        archived = (found.time for found in told if isinstance(found.event, ev.SessionArchived))
        info["time"]["archived"] = max(archived, default=shown.updated)
    return info
