"""Removal of redacted and freed content from events, leaving ids and shape.  Pure.

Versions, times, kinds and the state machine stay as they were. A step's digests are removed, too,
if they cover redacted content: with the rest of the view, a short secret could be guessed from one.
`maintenance/scrub.py` applies this to a store.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import chain
from typing import Any

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
    PartKind,
    Patch,
    Reasoning,
    Retry,
    Snapshot,
    Subtask,
    Text,
    Tool,
)

NO_DIGEST = b""
"""Replaces the digest of a view, or of a request's body, that had redacted content."""


def part_of(event: ev.Event) -> str | None:
    """Return the part that an event belongs to, if the event may hold content of it."""
    if isinstance(event, ev.ForeignKept):
        return event.of
    return event.part if isinstance(event, _BLANKS) else None


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
    match item:
        case ev.PartStarted():
            return replace(item, kind=_blank_kind(item.kind))
        case ev.PartDelta():
            return replace(item, text="")
        case ev.PartEnded():
            return replace(item, metadata=None)
        case ev.PartEdited():
            return replace(item, text="")
        case ev.ToolRunning():
            return replace(item, input="{}", title="", metadata=None)
        case ev.ToolProgress():
            return replace(item, title=None, metadata=None)
        case ev.ToolCompleted():
            return replace(item, output="", truncation=None, title="", metadata=None, attachments=())
        case ev.ToolFailed():
            return replace(item, error="", output=None, metadata=None)
        case ev.CallAsked():
            return replace(item, input="{}", reason="", salt=b"", schema=b"", digest=b"")
        case ev.CallAnswered():
            return replace(item, reason="", edit=None if item.edit is None else "{}", digest=b"")
        case ev.MediaReplaced():
            return replace(item, name="", reason="")
        case ev.ForeignKept():
            return replace(item, data="")
        case _:
            return item


def free(item: ev.Event | DeltaRun) -> ev.Event | DeltaRun:
    """Return the item without content that no session has any more; itself if it has none."""
    return replace(item, text=None, data=None) if isinstance(item, ev.ValuePut) and not is_freed(item) else item


def is_freed(event: ev.Event) -> bool:
    """Return whether an event has lost its content, which no session has any more."""
    return isinstance(event, ev.ValuePut) and event.text is None and event.data is None


_BLANKS = (
    ev.PartStarted,
    ev.PartDelta,
    ev.PartEnded,
    ev.PartEdited,
    ev.ToolRunning,
    ev.ToolProgress,
    ev.ToolCompleted,
    ev.ToolFailed,
    ev.CallAsked,
    ev.CallAnswered,
    ev.MediaReplaced,
)


def _blank_kind(kind: PartKind) -> PartKind:
    match kind:
        case Text() | Reasoning():
            return replace(kind, text="", metadata=None)
        case Tool():
            return replace(kind, metadata=None)
        case File():
            return replace(kind, url="", filename=None, source=None, metadata=None)
        case Subtask():
            return replace(kind, prompt="", description="", command=None)
        case Opaque():
            return replace(kind, data="", text=None)
        case Agent():
            return Agent("")
        case Snapshot():
            return Snapshot("")
        case Patch():
            return Patch("")
        case Retry():
            return replace(kind, error=replace(kind.error, message="", data=None))


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
        case ev.UserMessageAdded():
            changed = replace(changed, agent="", variant=None, system=None, tools=None, format=None)
        case ev.AssistantMessageStarted():
            changed = replace(changed, agent="", mode="", variant=None, cwd=None, root=None)
        case ev.MessageFinished(error=MessageError() as error):
            changed = replace(changed, error=replace(error, message="", data=None))
        case ev.StepStarted() | ev.CompactionStarted():
            changed = blank(changed, (), digests=True)
        case ev.SystemPromptSet():
            changed = ev.SystemPromptSet("")
        case ev.ToolsSet():
            changed = ev.ToolsSet("[]")
        case ev.TodosSet():
            changed = ev.TodosSet(())
        case ev.Pinned(text=str() | Body()):
            changed = replace(changed, text="")
        case ev.ForeignKept():
            changed = replace(changed, data="")
        case ev.Custom():
            changed = replace(changed, data="null")
        case ev.RecordKept():
            changed = replace(changed, rest="", moved="")
        case _:
            pass
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
