"""Timeline of a session: messages, steps, prunes, compactions, rollbacks, forks and cost.

One pass over the history, rolled back events included. Messages and failed calls come with their
first words, and steps with what they read from their provider's cache (`cache_uses.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from decimal import Decimal

import msgspec

from eventlog import events as ev
from eventlog.codec.deltas import DeltaRun
from eventlog.history.ranges import covers
from eventlog.models.catalogue import ModelCatalogue
from eventlog.session.session import Session
from eventlog.values import Limits, Opaque
from projections.reports.cache_uses import CacheUse, cache_uses
from projections.reports.first_words import FirstWords
from projections.reports.usage import Untold, UsageTotals
from projections.reports.wording import counted, pruned_words
from projections.window.policy.limits import step_total, usable
from projections.window.policy.policy import decode_policy

__all__ = ["Timeline", "TimelineBuilder", "TimelineEntry", "timeline"]


_OTHER_TOKENS = frozenset(("pruned", "compacted"))
"""Kinds of entries whose tokens are not those of a call."""
_MORE = "more"
"""A usage that adds to that of a call before."""


class TimelineEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One occurrence; the time is in UTC milliseconds."""

    version: int
    time: int
    kind: str
    what: str = ""
    """Ids, numbers and names."""
    tokens: int | None = None
    """Tokens in the window at a step, freed by a prune, or left after a compaction."""
    fill: float | None = None
    """Share of the usable tokens that a step has so far, by recorded or catalogue limits."""
    cost: Decimal | None = None
    """US dollars that this call of a model cost, where that is known."""
    estimate: Decimal | None = None
    """US dollars of this call by list prices, where no cost was recorded; no part of `spent`."""
    spent: Decimal | None = None
    """US dollars spent so far, this call included, once a cost is known."""
    hidden: bool = False
    """Whether a rollback hides it, or it was forgotten."""
    words: str = ""
    """The first words of a message, of a new title, or of the error of a failed call."""
    number: int | None = None
    """The number of a prune, compaction or rollback among those of its kind, from 1."""
    step: int | None = None
    """The number of the step that a call belongs to, from 1; usage told in pieces shares it."""
    cache: CacheUse | None = None
    """The step's use of the cache; of usage told in pieces the last entry has it."""


class Timeline(msgspec.Struct, frozen=True):
    """The entries in order, and the number of events of each kind."""

    session: str
    version: int
    kinds: dict[str, int]
    forks: tuple[str, ...]
    """Sessions that were forked from this session."""
    entries: tuple[TimelineEntry, ...]
    untold: int = 0
    """Replies without usage, which no sum has."""

    @property
    def calls(self) -> list[TimelineEntry]:
        """The calls of models, with those hidden by a rollback."""
        return [entry for entry in self.entries if entry.tokens is not None and entry.kind not in _OTHER_TOKENS]

    def usage(self) -> UsageTotals:
        """Return the calls, their tokens and costs in sum."""
        calls = self.calls
        estimates = [entry.estimate for entry in calls if entry.estimate is not None]
        return UsageTotals(
            calls=sum(entry.what != _MORE for entry in calls),
            total=sum(entry.tokens or 0 for entry in calls),
            cost=sum((entry.cost for entry in calls if entry.cost is not None), Decimal(0)),
            unpriced=sum(entry.cost is None and entry.what != _MORE for entry in calls),
            estimated=sum(entry.estimate is not None and entry.what != _MORE for entry in calls),
            estimate=sum(estimates, Decimal(0)),
            untold=self.untold,
        )


def timeline(session: Session) -> Timeline:
    """Return the timeline of a session; reads every event, and rebuilds the requests of steps."""
    version = session.version
    accumulator = TimelineBuilder(session.store.host.models)
    entries: list[TimelineEntry] = []
    untold = Untold()
    ranges = session.reader.effective_ranges(version)
    for span in session.reader.spans(upto=version):
        item = span.item
        if isinstance(item, DeltaRun):
            accumulator.kinds["PartDelta"] += item.count
            accumulator.words.deltas(item)
            continue
        accumulator.kinds[type(item).__name__] += 1
        untold.note(item)
        hidden = not (isinstance(item, ev.LASTING) or covers(ranges, span.first))
        new = accumulator.entries(item, span.first, span.time)
        entries.extend(msgspec.structs.replace(entry, hidden=True) if hidden else entry for entry in new)
    forks = sorted(info.id for info in session.store.sessions() if info.fork_of == session.id)
    said = accumulator.words.by_version(session)
    entries = [
        msgspec.structs.replace(entry, words=said[entry.version]) if entry.version in said else entry
        for entry in entries
    ]
    places = {entry.step: place for place, entry in enumerate(entries) if entry.step is not None}
    for use in cache_uses(session):
        if use.step is not None and (place := places.get(use.step)) is not None:
            entries[place] = msgspec.structs.replace(entries[place], cache=use)
    return Timeline(
        session.id, version, dict(accumulator.kinds.most_common()), tuple(forks), tuple(entries), len(untold.models)
    )


class TimelineBuilder:
    """A pass over the history, event by event: limits, policy, tools and spending so far."""

    def __init__(self, models: ModelCatalogue | None = None) -> None:
        """`models` estimate the cost of calls that have none."""
        self._models = models
        self.kinds: Counter[str] = Counter()
        self._limits: Limits | None = None
        self._policy: str | None = None
        self._spent: Decimal | None = None
        self._tools: dict[str, str] = {}
        self._numbers: Counter[str] = Counter()
        self._steps: dict[str, tuple[int, int]] = {}
        """By message the number of its newest step, and the tokens that are told of it so far."""
        self.words: FirstWords = FirstWords()

    def entries(self, event: ev.Event, version: int, time: int) -> Iterator[TimelineEntry]:
        """Yield the entries that an event adds to the timeline."""
        self.words.event(event, version)
        match event:
            case ev.SettingsSet():
                self._limits = event.limits or self._limits
                self._policy = event.policy or self._policy
                yield TimelineEntry(version, time, "settings", "" if event.model is None else str(event.model))
            case ev.StepStarted():
                self._steps[event.message] = self._next("step"), 0
            case ev.UsageRecorded():
                yield self._usage(event, version, time)
            case ev.PartStarted(kind=Opaque() as kind):
                reads = f"{event.part}, for {kind.target if kind.text is None else 'all targets'}"
                number = self._next("provider-compaction")
                yield TimelineEntry(version, time, "provider-compaction", reads, number=number)
            case ev.PartStarted():
                self._tools[event.part] = getattr(event.kind, "tool", "")
            case ev.Pruned():
                parts = pruned_words(len(event.parts), len(event.arguments), event.policy)
                yield TimelineEntry(version, time, "pruned", parts, event.freed, number=self._next("pruned"))
            case ev.CompactionCompleted():
                number = self._next("compacted")
                yield TimelineEntry(version, time, "compacted", event.part, event.tokens_after, number=number)
            case ev.RolledBack():
                yield TimelineEntry(version, time, "rolled-back", f"to {event.to}", number=self._next("rolled-back"))
            case ev.CallAsked():
                yield TimelineEntry(version, time, "asked", self._tools.get(event.part, ""))
            case ev.CallAnswered():
                told = filter(None, (event.verdict, self._tools.get(event.part, ""), event.by and f"by {event.by}"))
                yield TimelineEntry(version, time, "answered", " ".join(told))
            case ev.ToolFailed():
                how = "interrupted" if event.interrupted else "failed"
                yield TimelineEntry(version, time, f"tool-{how}", self._tools.get(event.part, ""))
            case _:
                description = _describe(event)
                if description is not None:
                    yield TimelineEntry(version, time, *description)

    def _next(self, kind: str) -> int:
        self._numbers[kind] += 1
        return self._numbers[kind]

    def _usage(self, event: ev.UsageRecorded, version: int, time: int) -> TimelineEntry:
        cost = event.usage.cost
        if cost is not None:
            self._spent = (self._spent or Decimal(0)) + cost
        price = (
            None if cost is not None or self._models is None else self._models.price(event.model, event.usage.tokens)
        )
        estimate = None if price is None else price.cost
        tokens = step_total(event.usage.tokens)
        step, before = self._steps.get(event.message or "", (None, 0))
        if step is not None and not event.failed:  # some programs record the usage of a step in pieces
            self._steps[event.message or ""] = step, before + tokens
        limits = self._limits
        if limits is None and self._models is not None and event.model is not None and event.model in self._models:
            limits = self._models.limits(event.model)
        room = usable(limits, decode_policy(self._policy).overflow)
        kind = "step" if event.purpose == "turn" or event.more else event.purpose
        fill = round((before + tokens) / room, 4) if room and kind == "step" else None
        what = "failed" if event.failed else "overflow" if fill is not None and fill >= 1 else ""
        what = _MORE if event.more else what
        return TimelineEntry(version, time, kind, what, tokens, fill, cost, estimate, self._spent, step=step)


def _describe(event: ev.Event) -> tuple[str, str] | None:
    """Return kind and words of an event by itself; None for one that is not shown."""
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
            return "restored", pruned_words(len(event.parts), len(event.arguments))
        case ev.MediaReplaced():
            return "media-replaced", f"{event.part}: {event.mime} {event.name}".rstrip()
        case ev.MediaRestored():
            return "media-restored", event.part
        case ev.CompactionRequested():
            return "compaction-requested", _request(event)
        case ev.CompactionFailed():
            return "compaction-failed", event.reason
        case ev.CompactionUndone():
            return "compaction-undone", event.part
        case ev.InterruptRequested():
            return "interrupt", ""
        case ev.Settled():
            return "settled", event.reason
        case ev.PartRedacted():
            return "redacted", event.part
        case ev.RecordForgotten():
            return "forgotten", counted(sum(last - first + 1 for first, last in event.ranges), "event")
        case ev.SessionErased():
            return "erased", ""
        case ev.SessionRenamed() | ev.SessionArchived() | ev.SessionUnarchived():
            return type(event).__name__.removeprefix("Session").lower(), ""
        case _:
            return None


def _request(event: ev.CompactionRequested) -> str:
    """Return who requested a compaction, and why."""
    if event.overflow:
        return "automatic: a request was too large for the model"
    return "automatic: the window is full" if event.auto else "by hand"
