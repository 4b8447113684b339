"""Cache use of each model step: tokens read, tokens missed, the cause, and the money.

A step is compared with the newest one before it of the same purpose and target: what both requests
have could have come from the cache. That is *expected*. It is at most what the cache held then: all
of that request by the rules of the provider's cache (`cache_rules.py`), or what the provider said
that it read and wrote. What was *reported* beside it is the provider's own number. The difference
was *missed*, because the beginning broke (`prefix_breaks.py`), or had *expired*, or for reasons
that are *not known*: the provider let it go, or does not report its cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec.structs import replace

from eventlog import events as ev
from eventlog.errors import DamagedError, NotFoundError
from eventlog.session.session import Session
from eventlog.validation import require, require_or_none
from eventlog.values import Model, Tokens, target_of
from projections.replay.checkpoints import Checkpoints
from projections.reports.cache_rules import CacheRules, cache_rules
from projections.reports.prefix_breaks import HEAD, Cause, ChangeLog, PrefixBreak, sequence
from projections.reports.step_requests import RecordedStep, StepHistory, StepRequest, StepRequests, render_record
from projections.tokens.calibration import Calibration
from projections.view.neutral import NeutralPart
from projections.view.token_count import ViewCounter, counter_of

if TYPE_CHECKING:
    from eventlog.codec.decoded import Span

_NOISE = 0.02
"""Share of the expected tokens whose absence is no miss: they are an estimate."""
_TAIL = (512, 8_192)
"""Newest events in which the newest step is looked for, few at first."""


class CacheUse(msgspec.Struct, frozen=True):
    """The use that one step made of its provider's cache. The provider counts the tokens."""

    step: int | None
    """Number of the step, from 1; None if the steps before it were not read."""
    version: int
    """Version at which the step began."""
    model: str
    tokens: int
    """Tokens of the request, cached ones included."""
    expected: int
    """Tokens of it that the request before had, too, as far as the cache held them."""
    reported: int
    """Tokens that were read from the cache."""
    missed: int = 0
    """Expected tokens that were not read from it; 0 if they are too few to tell."""
    cause: Cause = ""
    """Why they were missed; "not known" also if the provider seems to report no cache."""
    event: int | None = None
    """Version of the event that broke the beginning of the request."""
    lost: Decimal | None = None
    """US dollars that the missed tokens cost more than from the cache; None without prices."""


class _Call(NamedTuple):
    """The usage of a step, as its provider reported it."""

    tokens: Tokens
    model: Model | None

    @property
    def provider(self) -> str:
        """The provider of the model, "" if it is not known."""
        return "" if self.model is None else self.model.provider

    @property
    def read(self) -> int:
        """Tokens of the request."""
        return self.tokens.input + self.tokens.cache_read + self.tokens.cache_write

    @property
    def cached(self) -> int:
        """Tokens that were in the cache when the request had been read, as far as it is told."""
        return self.tokens.cache_read + self.tokens.cache_write


def cache_uses(
    session: Session, first: int = 1, last: int | None = None, *, rules: Mapping[str, CacheRules] | None = None
) -> Iterator[CacheUse]:
    """Yield what each step with reported usage read from the cache, in order.

    Only steps numbered `first` to `last`, if these are given. `rules` are those of caches that
    `RULES` does not have, by a word of the model's name. Reads the whole history, and rebuilds the
    requests one after the other.
    """
    require(Session, session, "cache uses are those of a Session")
    require(int, first, "a step has a number")
    require_or_none(int, last, "a step has a number")
    require_or_none(Mapping, rules, "rules are a mapping of words to CacheRules")
    history = _CallHistory(session)
    return _Comparison(session, history, rules or {}).uses(first, last or len(history.steps))


def newest_cache_use(session: Session) -> CacheUse | None:
    """Return what the newest turn's step with reported usage read from the cache.

    None unless it, and one before it, are among the newest 8,192 events.
    """
    version = session.version
    for width in _TAIL:
        history = _CallHistory(session, max(0, version - width))
        turns = [place + 1 for place in sorted(history.calls) if history.steps[place].event.purpose == "turn"]
        if len(turns) > 1 or (turns and width >= version):
            newest = next(_Comparison(session, history, {}).uses(turns[-1], turns[-1]))
            return replace(newest, step=None)
        if history.others and not turns:  # this program records no steps
            break
    return None


class _CallHistory(StepHistory):
    """A history with the changes between its steps, and what was reported of each."""

    def __init__(self, session: Session, after: int = 0) -> None:
        self.changes = ChangeLog()
        self.calls: dict[int, _Call] = {}
        """By the place of a step."""
        self.reporting: set[str] = set()
        """Providers that reported a cache."""
        self.others = 0
        """Records of usage that belong to no step."""
        self._newest: dict[str, int] = {}
        """By message the place of its newest step."""
        super().__init__(session, after)

    def add(self, span: Span) -> None:
        """Take in the events of a span."""
        super().add(span)
        self.changes.add(span)
        item = span.item
        if isinstance(item, ev.StepStarted):
            self._newest[item.message] = len(self.steps) - 1
        elif isinstance(item, ev.UsageRecorded) and not item.failed:
            if item.message in self._newest:
                self._call(item, self._newest[item.message])
            else:
                self.others += item.purpose == "turn"

    def _call(self, event: ev.UsageRecorded, place: int) -> None:
        tokens, before = event.usage.tokens, self.calls.get(place)
        if before is not None:  # some programs record it in pieces
            sums = (getattr(before.tokens, name) + getattr(tokens, name) for name in Tokens.__struct_fields__[:5])
            tokens = Tokens(*sums)
        call = _Call(tokens, event.model)
        if call.read > 0:
            self.calls[place] = call
        if call.cached:
            self.reporting.add(call.provider)


class _Comparison:
    """Compares each step with the one before it."""

    def __init__(self, session: Session, history: _CallHistory, rules: Mapping[str, CacheRules]) -> None:
        self._session = session
        self._history = history
        self._rules = rules
        self._requests = StepRequests(session, history, Checkpoints(session.store.log))
        self._calibration = Calibration()
        self._counters: dict[str, ViewCounter] = {}

    def uses(self, first: int, last: int) -> Iterator[CacheUse]:
        """Yield the uses of the steps numbered `first` to `last`."""
        history = self._history
        before = dict(_predecessors(history))
        wanted = {place for place in before if first <= place + 1 <= last}
        needed = wanted | {found for place in wanted if (found := before[place]) is not None}
        requests: dict[int, StepRequest | None] = {}
        last_use = {found: place for place in sorted(wanted) if (found := before[place]) is not None}
        for place in sorted(before):
            step, call = history.steps[place], history.calls[place]
            if place in needed:
                requests[place] = self._request(step)
            if place in wanted:
                yield self._use(place, before[place], requests)
            self._calibration = self._calibration.observe(str(call.model), step.event.counted or 0, call.read)
            for done in [known for known in requests if last_use.get(known, -1) <= place and known != place]:
                del requests[done]

    def _request(self, step: RecordedStep) -> StepRequest | None:
        """The request of a step; None if it cannot be rebuilt."""
        rendered, version = render_record(step.event.render), step.event.view_version or max(step.version - 1, 1)
        if rendered is None or version > step.version:
            return None
        try:
            self._requests.seek(version, rendered)
            return self._requests.rebuilt(step, rendered)
        except (DamagedError, NotFoundError):
            return None

    def _use(self, place: int, before: int | None, requests: Mapping[int, StepRequest | None]) -> CacheUse:
        history = self._history
        step, call = history.steps[place], history.calls[place]
        reported = call.tokens.cache_read
        use = CacheUse(place + 1, step.version, str(call.model or ""), call.read, 0, reported)
        if before is None:
            return use
        rules, earlier = cache_rules(call.model, self._rules), history.calls[before]
        held = earlier.cached if rules.marked or earlier.tokens.cache_write else rules.kept(earlier.read)
        if not held:
            return use
        one, two = requests[before], requests[place]
        if one is None or two is None:
            return replace(use, expected=min(held, call.read), cause="not known")
        steps = history.steps[before], step
        found = history.changes.first_break(one, two, steps)
        if _target(steps[0]) != _target(step):
            found = PrefixBreak("model", step.version, HEAD)
        shared, front = min(held, call.read), held
        if found is not None:
            shared, front = self._overlap(one, two, found, earlier, call)
            if step.event.purpose != "turn":  # another text each time: only its beginning is the same
                shared = front
        expected = min(held, rules.kept(shared))
        use = replace(use, expected=expected)
        if expected - reported <= max(2 * rules.block, _NOISE * expected):
            return use
        if call.provider not in history.reporting:
            return replace(use, cause="not known")
        missed = expected - reported
        use = replace(use, missed=missed, lost=self._lost(call, missed))
        is_late = rules.life is not None and step.time - steps[0].time > 1_000 * rules.life
        unbroken = rules.kept(min(held, front)) - reported
        if found is not None and not (is_late and 2 * unbroken > missed):  # that is the larger part
            return replace(use, cause=found.cause, event=found.event)
        return replace(use, cause="expired" if is_late else "not known")

    def _overlap(
        self, one: StepRequest, two: StepRequest, found: PrefixBreak, earlier: _Call, call: _Call
    ) -> tuple[int, int]:
        """Tokens that two requests share, and those in front of their first difference.

        By whichever of them has less that the other has not.
        """
        common = sequence(one.messages).common(sequence(two.messages))
        was, now = (sequence(request.messages).since(common) for request in (one, two))
        parts = [[part for message in messages for part in message.parts] for messages in (was, now)]
        heads = [[*filter(None, (request.tools, request.format, *request.system))] for request in (one, two)]
        shared: list[tuple[int, int]] = []
        front: list[tuple[int, int]] = []
        for side, whole in ((0, earlier), (1, call)):
            counter, ratio = self._counter(whole.model), self._calibration.ratio(str(whole.model))
            other, other_head = set(parts[1 - side]), set(heads[1 - side])
            alone, behind = _weights(counter, parts[side], other)
            alone += sum(counter.text(text) for text in heads[side] if text not in other_head)
            shared.append((alone, whole.read - round(ratio * alone)))
            front.append((behind, whole.read - round(ratio * behind)))
        in_front = 0 if found.place == HEAD else max(0, min(front)[1])
        return max(0, min(min(shared)[1], call.read)), in_front

    def _counter(self, model: Model | None) -> ViewCounter:
        name = "" if model is None else model.name
        if name not in self._counters:
            self._counters[name] = counter_of(self._session.id, self._session.store.log, model)
        return self._counters[name]

    def _lost(self, call: _Call, missed: int) -> Decimal | None:
        """US dollars that missed tokens cost more than from the cache."""
        models, tokens = self._session.store.host.models, call.tokens
        known = None if call.model is None else models.get(call.model)
        if known is None or any(rates.cache_read is None for rates in known.rates):
            return None
        written = min(missed, tokens.cache_write)
        from_cache = replace(
            tokens,
            cache_write=tokens.cache_write - written,
            input=tokens.input - min(tokens.input, missed - written),
            cache_read=tokens.cache_read + written + min(tokens.input, missed - written),
        )
        paid, least = models.price(call.model, tokens), models.price(call.model, from_cache)
        return None if paid is None or least is None else paid.cost - least.cost


def _weights(counter: ViewCounter, parts: Iterable[NeutralPart], others: set[NeutralPart]) -> tuple[int, int]:
    """Return the tokens of the parts that the others have not, and of all."""
    alone = whole = 0
    for part in parts:
        tokens = counter.part(part)
        whole += tokens
        alone += 0 if part in others else tokens
    return alone, whole


def _predecessors(history: _CallHistory) -> Iterator[tuple[int, int | None]]:
    """Yield each step with reported usage, and the one that it is compared with.

    That is the newest before it of its purpose and target, or else of its purpose.
    """
    newest: dict[tuple[str, str], int] = {}
    of_purpose: dict[str, int] = {}
    for place in sorted(history.calls):
        step = history.steps[place]
        purpose, key = step.event.purpose, (step.event.purpose, _target(step))
        yield place, newest.get(key, of_purpose.get(purpose))
        newest[key] = of_purpose[purpose] = place


def _target(step: RecordedStep) -> str:
    return step.event.target or target_of(step.model)
