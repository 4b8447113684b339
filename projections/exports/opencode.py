"""Export a session as OpenCode's export JSON of version 1.18, for `opencode import`.

A session that was imported from such an export, and not changed since, is exported JSON-equal.
Native messages and changes are in OpenCode's form, with defaults for what it requires (project,
slug, paths). What OpenCode has no form for (settings, pins, digests, single deltas) is omitted, and
so is what a rollback hides. An unknown cost is 0, since OpenCode demands a number; the import takes
0 for unknown. Reasoning is counted beside the output. A compaction that its provider made is a text
that is shown, and sent to no model: OpenCode gets its summary if that can be read, not its cipher.
A long tool result is written whole, for OpenCode cannot `recall`.

Ids that are not OpenCode's are replaced, and so are those of a fork, because OpenCode copies the
messages of the parent into it. The document is in memory as a whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from copy import deepcopy
from math import copysign, isfinite, isnan
from sys import float_info
from typing import Any

from eventlog import events as ev
from eventlog.codec.decoded import Span
from eventlog.codec.deltas import DeltaRun
from eventlog.history.ancestry import head_of
from eventlog.history.catalog import entry_of
from eventlog.importers.common.json_lines import is_array, is_object
from eventlog.importers.opencode.emit import Timed, export_of
from eventlog.importers.opencode.messages import problem_of
from eventlog.importers.opencode.values import Record, tokens_record
from eventlog.session.session import Session
from eventlog.values import Origin
from projections.exports.opencode_ids import rename, session_id
from projections.exports.opencode_messages import CHANGES, SessionDefaults, change, record_of
from projections.reports.usage import total, usage_by_model
from projections.transcript.coverage import PlacedEvent
from projections.view.part_rendering import Resolver

__all__ = ["VERSION", "opencode_export", "opencode_pieces"]

_ENCODER = json.JSONEncoder(ensure_ascii=False, indent=2)
VERSION = "1.18.33"
"""The version of OpenCode that the document names."""


def opencode_pieces(session: Session) -> Iterator[bytes]:
    """Yield the document as pieces of UTF-8 bytes, lone surrogates as escapes."""
    document = opencode_export(session)
    _make_finite(document)
    for piece in _ENCODER.iterencode(document):
        yield piece.encode(errors="backslashreplace")
    yield b"\n"


def _make_finite(value: Any) -> None:
    """Replace infinite numbers by the largest finite ones, and NaN by null."""
    holder: Any = value
    places: Iterable[Any] = holder if is_object(value) else range(len(holder)) if is_array(value) else ()
    for place in places:
        item: Any = holder[place]
        if isinstance(item, float) and not isfinite(item):
            holder[place] = None if isnan(item) else copysign(float_info.max, item)
        else:
            _make_finite(item)


def opencode_export(session: Session) -> Record:
    """Return the document."""
    events = [*_placed_events(session.reader.spans())]
    bound = _imported_version(events)
    exact: Record | None = None
    if bound:
        exact = export_of([(placed.time, placed.event) for placed in events if placed.version <= bound], session.text)
        if bound == session.version and session.info.fork_of is None:
            return exact
    document = _document(session, events, bound, exact)
    rename(document, fresh=session.info.fork_of is not None)
    return document


def _placed_events(spans: Iterable[Span]) -> Iterator[PlacedEvent]:
    for span in spans:
        if not isinstance(span.item, DeltaRun):
            yield PlacedEvent(span.item, span.first, span.time)
            continue
        for (part, field), text in span.item.joined().items():
            yield PlacedEvent(ev.PartDelta(part, field, text), span.last, span.time)


def _imported_version(events: list[PlacedEvent]) -> int:
    """Return the last version that an import from OpenCode added; 0 if there is none."""
    origin: Origin | None = getattr(events[0].event, "origin", None)
    if origin is None or origin.format != "opencode":
        return 0
    imported = (placed.version for placed in events if isinstance(placed.event, ev.ForeignKept))
    return max(imported, default=0)


class _Messages:
    """The events of each message, in order, by its id."""

    def __init__(self, events: Iterable[PlacedEvent]) -> None:
        self.of: dict[str, list[PlacedEvent]] = {}
        self.removed: dict[str, int] = {}
        """Version at which each removed message was removed."""
        self._owner: dict[str, str] = {}
        for placed in events:
            self._add(placed)

    def _add(self, placed: PlacedEvent) -> None:
        event = placed.event
        if isinstance(event, ev.MessageRemoved):
            self.removed[event.message] = placed.version
        elif isinstance(event, (ev.UserMessageAdded, ev.AssistantMessageStarted)):
            self.of[event.message] = [placed]
        elif isinstance(event, (ev.Pruned, ev.Restored)):
            for part in event.parts:
                owner = self._owner.get(part)
                if owner is not None:
                    self.of[owner].append(placed._replace(event=type(event)((part,))))
        else:
            name: str | None = getattr(event, "part", None)
            message: str | None = getattr(event, "message", None)
            message = message if message is not None else self._owner.get(name or "")
            if message in self.of:
                self.of[message].append(placed)
                if name is not None:
                    self._owner[name] = message


def _document(session: Session, events: list[PlacedEvent], bound: int, exact: Record | None) -> Record:
    text = session.text
    whole = _Messages(placed for placed in events if placed.version <= bound)
    hidden = [PlacedEvent(ev.PartRedacted(part), session.version, 0) for part in session.reader.inherited_redactions()]
    effective = _Messages([*_placed_events(session.history()), *hidden])
    defaults = _defaults(session, events)
    records: dict[str, Record] = {}
    if exact is not None:
        imported: list[Any] = exact["messages"]
        records = {record["info"]["id"]: record for record in imported if problem_of(record, ()) is None}
    messages: list[Record] = []
    # A new user message makes a revert final.
    continued = any(placed.version > bound and isinstance(placed.event, ev.UserMessageAdded) for placed in events)
    for name, own in effective.of.items():
        if effective.removed.get(name, 0) > (0 if continued else bound):
            continue
        late = [placed for placed in own if placed.version > bound]
        record = records.get(name) if len(own) - len(late) == len(whole.of.get(name, ())) else None
        if continued:
            late = [placed for placed in own if placed.version > bound or isinstance(placed.event, ev.PartRemoved)]
        messages.append(_record(record, own, late, defaults, text))
    info = _info(session, events, defaults, {} if exact is None else exact["info"])
    if continued:
        info.pop("revert", None)
    return {**(exact or {}), "info": info, "messages": messages}


def _record(
    exact: Record | None,
    events: list[PlacedEvent],
    late: list[PlacedEvent],
    defaults: SessionDefaults,
    text: Resolver,
) -> Record:
    """Return the imported record with later changes, or a record made from the events."""
    changes = [(placed.time, placed.event) for placed in (events if exact is None else late)]
    if exact is None or not all(isinstance(event, CHANGES) for _, event in changes):
        items: list[Timed] = [(placed.time, placed.event) for placed in events]
        record = record_of(items, defaults, text)
        if exact is not None:
            record = _merged(exact, record)
    else:
        record = deepcopy(exact)
        defaults.update(record["info"])
    for time, event in changes:
        if isinstance(event, CHANGES):
            change(record, time, event, text)
    return record


def _merged(exact: Record, record: Record) -> Record:
    """Return the newer record with what only the imported one has."""
    imported: list[Any] = exact["parts"]
    parts: dict[object, Record] = {part.get("id"): part for part in imported if is_object(part)}
    return {
        **exact,
        "info": {**exact["info"], **record["info"]},
        "parts": [{**parts.get(part["id"], {}), **part} for part in record["parts"]],
    }


def _defaults(session: Session, events: list[PlacedEvent]) -> SessionDefaults:
    first = next((placed.event for placed in events if isinstance(placed.event, ev.SessionStarted)), None)
    directory, agent, model = ("", "", None) if first is None else (first.directory, first.agent, first.model)
    named = (getattr(placed.event, "model", None) for placed in events)
    return SessionDefaults(
        session_id(session.id), directory, agent, model or next((placed for placed in named if placed), None)
    )


def _info(session: Session, events: list[PlacedEvent], defaults: SessionDefaults, exact: Record) -> Record:
    """Return the record of the session: the imported one, brought up to date."""
    info, shown = deepcopy(exact), session.info
    spent = total(usage_by_model(session.reader.spans()))
    info.update(
        id=session_id(session.id),
        title=entry_of(head_of(session.store.log, session.id)).title,
        cost=float(spent.cost),
        tokens=tokens_record(spent.tokens),
    )
    info.setdefault("slug", session_id(session.id).removeprefix("ses_").lower())
    info.setdefault("projectID", "global")
    info.setdefault("directory", defaults.directory)
    info.setdefault("version", VERSION)
    info.setdefault("agent", defaults.agent)
    info.setdefault("model", {"id": defaults.model.name, "providerID": defaults.model.provider})
    info.pop("parentID", None)
    if shown.parent is not None:
        info["parentID"] = session_id(shown.parent)
    info["time"] = {**info.get("time", {}), "created": shown.created, "updated": shown.updated}
    info["time"].pop("archived", None)
    if shown.archived:
        archived = (placed.time for placed in events if isinstance(placed.event, ev.SessionArchived))
        info["time"]["archived"] = max(archived, default=shown.updated)
    return info
