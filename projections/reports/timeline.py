"""What happened in a session and when: messages, steps with the window's fill, prunes, compactions, rollbacks, forks and cost (spec §11).

Not the events one by one (`eventlog events`), nor their content.  One pass over the history; also what was rolled back is told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from decimal import Decimal

import msgspec

from eventlog import events as ev
from eventlog.codec.deltas import DeltaRun
from eventlog.session.session import Session
from eventlog.values import Limits
from projections.reports.wording import counted
from projections.window.limits import step_total, usable
from projections.window.policy import decode_policy

__all__ = ["Entry", "Timeline", "timeline"]


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that happened; the time in UTC milliseconds."""

    version: int
    time: int
    kind: str
    what: str = ""
    """Ids, numbers and names; no content."""
    tokens: int | None = None
    """Of a step: what the provider says was in the window.  Of a prune: freed.  Of a compaction: left after it."""
    fill: float | None = None
    """Of a step: tokens as a share of what is usable, where the limits are known."""
    cost: Decimal | None = None
    """US dollars spent so far, once any are known."""
    hidden: bool = False
    """Whether a rollback has taken it out of the effective history."""


class Timeline(msgspec.Struct, frozen=True):
    """The entries in order, and how many events there are of each kind."""

    session: str
    version: int
    kinds: dict[str, int]
    forks: tuple[str, ...]
    """Sessions that were forked from this one."""
    entries: tuple[Entry, ...]


def timeline(session: Session) -> Timeline:
    """The whole timeline; reads every event once."""
    version = session.version
    reading = _Reading()
    entries: list[Entry] = []
    ranges = session.reader.effective_ranges(version)
    for span in session.reader.spans(upto=version):
        item = span.item
        if isinstance(item, DeltaRun):
            reading.kinds["PartDelta"] += item.count
            continue
        reading.kinds[type(item).__name__] += 1
        hidden = not isinstance(item, ev.LASTING) and not any(first <= span.first <= last for first, last in ranges)
        found = reading.entries(item, span.first, span.time)
        entries.extend(msgspec.structs.replace(entry, hidden=True) if hidden else entry for entry in found)
    forks = sorted(info.id for info in session.store.sessions() if info.fork_of == session.id)
    return Timeline(session.id, version, dict(reading.kinds.most_common()), tuple(forks), tuple(entries))


class _Reading:
    """What must be remembered on the way."""

    def __init__(self) -> None:
        self.kinds: Counter[str] = Counter()
        self._limits: Limits | None = None
        self._policy: str | None = None
        self._cost: Decimal | None = None
        self._tools: dict[str, str] = {}

    def entries(self, event: ev.Event, version: int, time: int) -> Iterator[Entry]:
        """What an event adds to the timeline, if anything."""
        match event:
            case ev.SettingsSet():
                self._limits = event.limits or self._limits
                self._policy = event.policy or self._policy
                yield Entry(version, time, "settings", "" if event.model is None else str(event.model))
            case ev.UsageRecorded():
                yield self._spent(event, version, time)
            case ev.PartStarted():
                self._tools[event.part] = getattr(event.kind, "tool", "")
            case ev.Pruned():
                parts = counted(len(event.parts), "result") + (f" by {event.policy}" if event.policy else "")
                yield Entry(version, time, "pruned", parts, event.freed)
            case ev.CompactionCompleted():
                yield Entry(version, time, "compacted", event.part, event.tokens_after)
            case ev.ToolFailed():
                how = "interrupted" if event.interrupted else "failed"
                yield Entry(version, time, f"tool-{how}", self._tools.get(event.part, ""))
            case _:
                found = _plain(event)
                if found is not None:
                    yield Entry(version, time, *found)

    def _spent(self, event: ev.UsageRecorded, version: int, time: int) -> Entry:
        if event.usage.cost is not None:
            self._cost = (self._cost or Decimal(0)) + event.usage.cost
        tokens = step_total(event.usage.tokens)
        room = usable(self._limits, decode_policy(self._policy).overflow)
        fill = round(tokens / room, 4) if room and event.purpose == "turn" else None
        kind = "step" if event.purpose == "turn" else event.purpose
        return Entry(version, time, kind, "failed" if event.failed else "", tokens, fill, self._cost)


def _plain(event: ev.Event) -> tuple[str, str] | None:
    """The kind and the words of an event that needs no memory; None for one that is not told."""
    match event:
        case ev.SessionStarted():
            return "started", "" if event.origin is None else f"imported from {event.origin.format}"
        case ev.SessionForked():
            return "forked", f"from {event.parent} at {event.at}"
        case ev.UserMessageAdded():
            marks = [mark for mark, on in (("synthetic", event.synthetic), ("queued", event.delivery == "queue")) if on]
            return "user", " ".join((event.message, *marks))
        case ev.MessagePromoted():
            return "promoted", event.message
        case ev.AssistantMessageStarted():
            return ("summary" if event.summary else "assistant"), event.message
        case ev.MessageFinished(error=None):
            return None
        case ev.MessageFinished():
            return "broke-off", f"{event.message}: {event.error.name if event.error else ''}"
        case ev.MessageRemoved():
            return "removed", event.message
        case ev.Restored():
            return "restored", counted(len(event.parts), "result")
        case ev.CompactionRequested():
            return "compaction-requested", "automatic" if event.auto else "by hand"
        case ev.CompactionFailed():
            return "compaction-failed", event.reason
        case ev.CompactionUndone():
            return "compaction-undone", event.part
        case ev.RolledBack():
            return "rolled-back", f"to {event.to}"
        case ev.InterruptRequested():
            return "interrupt", ""
        case ev.Settled():
            return "settled", event.reason
        case ev.PartRedacted():
            return "redacted", event.part
        case ev.SessionErased():
            return "erased", ""
        case ev.SessionRenamed() | ev.SessionArchived() | ev.SessionUnarchived():
            return type(event).__name__.removeprefix("Session").lower(), ""
        case _:
            return None
