"""Removal of redacted and freed content from events, leaving ids and shape.  Pure.

Versions, times, kinds and the state machine stay as they were. A step's digests are removed, too,
if they cover redacted content: with the rest of the view, a short secret could be guessed from one.
`maintenance/scrub.py` applies this to a store.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import chain
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from eventlog import events as ev
from eventlog.codec.batch import Batch, Entry
from eventlog.codec.deltas import DeltaRun
from eventlog.values import (
    Agent,
    Body,
    Content,
    File,
    MessageError,
    Opaque,
    Patch,
    Reasoning,
    Retry,
    Snapshot,
    Subtask,
    Text,
    Tool,
)

S = TypeVar("S", bound=msgspec.Struct)
LOST = "[a large text was here; it was damaged, and a repair left it out]"
"""Stands in a repaired store for a text that is lost."""
TITLED = (ev.SessionStarted, ev.SessionForked, ev.SessionRenamed)
"""The events that give a session a title."""
NO_DIGEST = b""
"""Replaces the digest of a view, or of a request's body, that had redacted content."""


def part_of(event: ev.Event) -> str | None:
    """Return the part that an event belongs to, if the event may hold content of it."""
    if isinstance(event, ev.ForeignKept):
        return event.of
    return getattr(event, "part", None) if type(event) in _OF_PARTS else None


def blank(item: ev.Event | DeltaRun, parts: Collection[str], *, digests: bool) -> ev.Event | DeltaRun:
    """Return the item without the content of these parts; the item itself if it has none.

    `digests` removes the digests of views, too.
    """
    if isinstance(item, DeltaRun):
        return _blank_run(item, parts)
    if digests and isinstance(item, ev.StepStarted) and (item.view_digest or item.patch or item.body_digest):
        body = None if item.body_digest is None else NO_DIGEST
        return replace(item, view_digest=NO_DIGEST, patch=None, body_digest=body)
    if digests and isinstance(item, ev.CompactionStarted) and item.prompt_digest:
        return replace(item, prompt_digest=NO_DIGEST)
    if part_of(item) not in parts:
        return item
    if isinstance(item, ev.PartStarted):
        kind = _blanked(item.kind)
        return replace(item, kind=replace(kind, error=_blanked(kind.error)) if isinstance(kind, Retry) else kind)
    if isinstance(item, ev.CallAnswered) and item.edit is not None:
        item = replace(item, edit="{}")
    return _blanked(item)


def untitled(item: ev.Event | DeltaRun) -> ev.Event | DeltaRun:
    """Return the item without the title that it gives a session; itself if it gives none."""
    return replace(item, title="") if isinstance(item, TITLED) and item.title else item


def free(item: ev.Event | DeltaRun) -> ev.Event | DeltaRun:
    """Return the item without content that no session has any more; itself if it has none."""
    return replace(item, text=None, data=None) if isinstance(item, ev.ValuePut) and not is_freed(item) else item


def is_freed(event: ev.Event) -> bool:
    """Return whether an event has lost its content, which no session has any more."""
    return isinstance(event, ev.ValuePut) and event.text is None and event.data is None


_OF_PARTS: dict[type, dict[str, Any]] = {
    ev.PartStarted: {},
    ev.PartDelta: {"text": ""},
    ev.PartEnded: {"metadata": None},
    ev.PartEdited: {"text": ""},
    ev.ToolRunning: {"input": "{}", "title": "", "metadata": None},
    ev.ToolProgress: {"title": None, "metadata": None},
    ev.ToolCompleted: {"output": "", "truncation": None, "title": "", "metadata": None, "attachments": ()},
    ev.ToolFailed: {"error": "", "output": None, "metadata": None},
    ev.CallAsked: {"input": "{}", "reason": "", "salt": b"", "schema": b"", "digest": b""},
    ev.CallAnswered: {"reason": "", "digest": b""},
    ev.MediaReplaced: {"name": "", "reason": ""},
    ev.SessionRenamed: {"title": ""},
}
"""The fields with content of the events of a part, and what they are without it."""
_BLANKS: dict[type, dict[str, Any]] = _OF_PARTS | {
    Text: {"text": "", "metadata": None},
    Reasoning: {"text": "", "metadata": None},
    Tool: {"metadata": None},
    File: {"url": "", "filename": None, "source": None, "metadata": None},
    Subtask: {"prompt": "", "description": "", "command": None},
    Opaque: {"data": "", "text": None},
    Agent: {"name": "", "source": None},
    Snapshot: {"snapshot": ""},
    Patch: {"hash": "", "files": ()},
    Retry: {},
    MessageError: {"message": "", "data": None},
    ev.UserMessageAdded: {"agent": "", "variant": None, "system": None, "tools": None, "format": None},
    ev.AssistantMessageStarted: {"agent": "", "mode": "", "variant": None, "cwd": None, "root": None},
    ev.SystemPromptSet: {"header": "", "rest": ""},
    ev.ToolsSet: {"schemas": "[]"},
    ev.TodosSet: {"todos": ()},
    ev.ForeignKept: {"data": ""},
    ev.Custom: {"data": "null"},
    ev.RecordKept: {"rest": "", "moved": ""},
}
"""Those of kinds of parts, of errors and of all events as well."""


def _blanked(value: S) -> S:
    return replace(value, **_BLANKS[type(value)])


def _blank_run(run: DeltaRun, parts: Collection[str]) -> DeltaRun:
    if not run.text or not any(part in parts for part, _ in run.keys):
        return run
    columns = zip(run.key_column(), run.texts(), run.times(), strict=True)
    blanked = ((key, "" if key[0] in parts else text, time) for key, text, time in columns)
    changed = DeltaRun.from_flat(list(chain.from_iterable(blanked)))
    return run if changed.text == run.text else changed


def blank_all(item: ev.Event | DeltaRun) -> ev.Event | DeltaRun:
    """Return the item without any content; the item itself if it has none."""
    if isinstance(item, DeltaRun):
        return _blank_run(item, {part for part, _ in item.keys})
    part = part_of(item)
    changed = item if part is None else blank(item, (part,), digests=True)
    match changed:
        case ev.MessageFinished(error=MessageError() as error):
            changed = replace(changed, error=_blanked(error))
        case ev.StepStarted() | ev.CompactionStarted():
            changed = blank(changed, (), digests=True)
        case ev.Pinned(text=str() | Body()):
            changed = replace(changed, text="")
        case _:
            changed = _blanked(changed) if type(changed) in _BLANKS else changed
    return item if changed == item else changed


def blank_batch(batch: Batch, first: int, is_blank: Callable[[int], bool]) -> Batch:
    """Return a batch, whose events have versions from `first` on, with some of them blanked."""
    entries: list[Entry | DeltaRun] = []
    version = first
    for entry in batch.entries:
        if isinstance(entry, DeltaRun):
            run = blank_all(entry) if is_blank(version) else entry
            assert isinstance(run, DeltaRun)
            entries.append(run)
            version += entry.count
            continue
        event = blank_all(entry.event) if is_blank(version) else entry.event
        assert not isinstance(event, DeltaRun)
        entries.append(entry if event is entry.event else Entry(entry.after, event))
        version += 1
    return Batch(batch.schema, batch.time, batch.escaped, entries)


_LOST: dict[str, dict[str, Any]] = {
    "url": {"url": "data:text/plain,lost", "mime": "text/plain"},
    "data": {"data": ""},
    "edit": {"edit": "{}"},
    "input": {"input": "{}"},
    "moved": {"moved": "", "rest": ""},
    "patch": {"patch": None, "view_digest": NO_DIGEST},
    "rest": {"rest": ""},
    "schemas": {"schemas": "[]"},
}
"""By field of a text that is no prose: the fields without it."""


def without_bodies(value: S, lost: Collection[bytes]) -> S:
    """Return an event, or a value of it, with `LOST` in place of the texts with these digests."""
    changes: dict[str, Any] = {}
    for name in value.__struct_fields__:
        field = getattr(value, name)
        if isinstance(field, Body):
            changes |= _LOST.get(name, {name: LOST}) if field.digest in lost else {}
        elif isinstance(field, msgspec.Struct) and (new := without_bodies(field, lost)) is not field:
            changes[name] = new
    if isinstance(value, ev.ToolCompleted) and value.attachments:
        changes["attachments"] = tuple(without_bodies(file, lost) for file in value.attachments)
    elif isinstance(value, ev.ValuePut) and changes:
        changes = {"text": None, "data": None}
    elif isinstance(value, Opaque) and "data" in changes:
        changes["target"] = ""  # no target can read it, so it covers nothing
    return replace(value, **changes) if changes else value


def contents(value: Any) -> Iterator[Content]:
    """Yield every text in an event, inline or by reference, ids included."""
    if isinstance(value, (str, Body)):
        yield value
    elif isinstance(value, DeltaRun):
        yield from value.joined().values()
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from contents(getattr(value, name))
    elif isinstance(value, (tuple, list)):
        for one in value:  # pyright: ignore[reportUnknownVariableType]  # elements of any type are searched
            yield from contents(one)


def bodies_of(event: ev.Event) -> Iterator[Body]:
    """Yield the bodies that an event refers to."""
    return (found for found in contents(event) if isinstance(found, Body))
