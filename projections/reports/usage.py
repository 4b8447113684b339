"""Usage of sessions by model: tokens and cost, as the providers reported them.

A cost that was not recorded stays unknown; where the store's catalogue knows the model, the sums
have an estimate beside it. Usage counts everything that was spent, on every
branch: a rollback subtracts nothing, and a fork's parent spent what the fork inherits. So a
session has three sums: its own, the inherited one, and that of the whole tree. Money is decimal.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Context, Decimal

import msgspec

from eventlog.codec.decoded import Span
from eventlog.events import AssistantMessageStarted, StepStarted, UsageRecorded
from eventlog.models.catalogue import ModelCatalogue
from eventlog.session.session import Session
from eventlog.validation import require, require_or_none
from eventlog.values import Tokens
from projections.reports.session_tree import whole_tree
from projections.reports.wording import counted

__all__ = ["SessionUsage", "UsageTotals", "cost_words", "own_total", "session_usage", "total", "usage_by_model"]

_EXACT = Context(prec=200)
"""Context for sums of money: the current context could round a long sum."""


class UsageTotals(msgspec.Struct):
    """A sum of usage records; `model` is "" if none was recorded."""

    model: str = ""
    calls: int = 0
    failed: int = 0
    """How many of the calls failed; their tokens count, too."""
    input: int = 0
    output: int = 0
    reasoning: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost: Decimal = Decimal(0)
    """US dollars, of the calls with a recorded cost."""
    unpriced: int = 0
    """How many calls have no recorded cost."""
    total: int = 0
    """All tokens as the provider counts them, else the sum of input, output and cache."""
    catalogues: tuple[str, ...] = ()
    """Dates of the price catalogues that gave costs; the other costs were reported."""
    estimated: int = 0
    """How many of the calls without a recorded cost have an estimate."""
    estimate: Decimal = Decimal(0)
    """US dollars of these, at the prices of the catalogue that is asked now; stored nowhere."""
    untold: int = 0
    """Replies whose newest step has no usage: what it took and cost is in no sum."""

    @property
    def unknown(self) -> int:
        """How many calls have neither a recorded cost nor an estimate."""
        return self.unpriced - self.estimated

    @property
    def known(self) -> Decimal:
        """US dollars, recorded and estimated."""
        return _EXACT.add(self.cost, self.estimate)

    def add(self, event: UsageRecorded, models: ModelCatalogue | None = None) -> None:
        """Add one record; `models` estimate the cost of one that has none."""
        tokens: Tokens = event.usage.tokens
        self.calls += not event.more
        self.failed += event.failed and not event.more
        self.input += tokens.input
        self.output += tokens.output
        self.reasoning += tokens.reasoning
        self.cache_read += tokens.cache_read
        self.cache_write += tokens.cache_write
        if event.usage.cost is None:
            self.unpriced += not event.more
            price = None if models is None else models.price(event.model, tokens)
            if price is not None:
                self.estimated += not event.more
                self.estimate = _EXACT.add(self.estimate, price.cost)
        else:
            self.cost = _EXACT.add(self.cost, event.usage.cost)
            self._name((event.catalogue,))
        counted = tokens.input + tokens.output + tokens.cache_read + tokens.cache_write
        self.total += counted if tokens.total is None else tokens.total

    def include(self, other: UsageTotals) -> None:
        """Add another sum."""
        tokens = ("input", "output", "reasoning", "cache_read", "cache_write", "total")
        for field in ("calls", "failed", *tokens, "unpriced", "estimated", "untold"):
            setattr(self, field, getattr(self, field) + getattr(other, field))
        self.cost = _EXACT.add(self.cost, other.cost)
        self.estimate = _EXACT.add(self.estimate, other.estimate)
        self._name(other.catalogues)

    def _name(self, catalogues: tuple[str, ...]) -> None:
        self.catalogues = tuple(sorted({*self.catalogues, *filter(None, catalogues)}))

    @property
    def tokens(self) -> Tokens:
        """Return the tokens as one value."""
        return Tokens(self.input, self.output, self.reasoning, self.cache_read, self.cache_write, self.total)


class SessionUsage(msgspec.Struct, frozen=True):
    """Usage of a session, one sum for each model; `total` adds them up."""

    own: list[UsageTotals]
    """Usage in the session's own events, on every branch."""
    inherited: list[UsageTotals]
    """Usage of the sessions it was forked from, before the forks."""
    tree: list[UsageTotals]
    """Usage of every session of its tree, each event once."""


def usage_by_model(spans: Iterable[Span], models: ModelCatalogue | None = None) -> list[UsageTotals]:
    """Return the usage in these events, one sum for each model, sorted by name.

    `models` estimate the cost of calls that have none; it is no part of `cost`.
    """
    require_or_none(ModelCatalogue, models, "models are a ModelCatalogue")
    by_model: dict[str, UsageTotals] = {}
    untold = Untold()
    require(Iterable, spans, "spans are those of a session")
    for span in spans:
        require(Span, span, "a span is a Span")
        untold.note(span.item)
        if isinstance(span.item, UsageRecorded):
            model = "" if span.item.model is None else str(span.item.model)
            by_model.setdefault(model, UsageTotals(model)).add(span.item, models)
    for model in untold.models:
        by_model.setdefault(model, UsageTotals(model)).untold += 1
    return [by_model[model] for model in sorted(by_model)]


class Untold:
    """The replies without usage among events that are noted, and their models."""

    def __init__(self) -> None:
        self._models: dict[str, str] = {}
        self._replies: set[str] = set()

    def note(self, item: object) -> None:
        """Note an event; of a reply of many steps the newest tells its usage, or does not."""
        if isinstance(item, AssistantMessageStarted) and not item.summary:
            self._models[item.message] = "" if item.model is None else str(item.model)
            self._replies.add(item.message)
        elif isinstance(item, StepStarted) and item.message in self._models:
            self._replies.add(item.message)
        elif isinstance(item, UsageRecorded):
            self._replies.discard(item.message or "")

    @property
    def models(self) -> list[str]:
        """The model of each."""
        return [self._models[reply] for reply in self._replies]


def total(sums: Iterable[UsageTotals]) -> UsageTotals:
    """Return the sum of all, without a model."""
    whole = UsageTotals()
    for totals in sums:
        whole.include(totals)
    return whole


def own_total(session: Session) -> UsageTotals:
    """Return the sum of a session's own usage; reads its events."""
    models = session.store.host.models
    return total(usage_by_model(session.reader.spans(session.version - session.info.events), models))


def cost_words(sums: UsageTotals, prices: str) -> str:
    """Return the cost in words: ≈ where list prices stand in for a part, "" without a call.

    `prices` is the date of the catalogue. The words say how many calls have no known cost, and how
    many replies have no usage.
    """
    more = f", + {counted(sums.untold, 'reply')} without usage" if sums.untold else ""
    if sums.unknown == sums.calls:
        return f"not known{more}" if sums.calls or more else ""
    known = f", not known for {counted(sums.unknown, 'call')}" if sums.unknown else ""
    if sums.estimated:
        return f"≈ ${sums.cost + sums.estimate:,.4f}, by list prices of {prices}{known}{more}"
    return f"${sums.cost}{known}{more}"


def session_usage(session: Session) -> SessionUsage:
    """Return the three sums of a session; reads the events of its whole tree."""
    base = session.version - session.info.events
    models = session.store.host.models
    tree = [session.store.session(info.id) for info in whole_tree(session.store, session.id)]
    return SessionUsage(
        usage_by_model(session.reader.spans(base), models),
        usage_by_model(session.reader.spans(upto=base), models),
        usage_by_model(
            (span for member in tree for span in member.reader.spans(member.version - member.info.events)), models
        ),
    )
