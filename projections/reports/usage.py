"""What a session spent: tokens and money, by model, as the providers reported them.

Not counting tokens (`tokens/`), and not prices: a cost that nobody recorded stays unknown.  Usage counts what was really
spent, on every branch (spec §7): a rollback takes nothing away, and what a fork inherited was spent once, by its parent.  So a
session has three numbers: its own, what it inherited, and the whole tree's.  Money is decimal.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Context, Decimal

import msgspec

from eventlog.codec.decoded import Span
from eventlog.events import UsageRecorded
from eventlog.session.session import Session
from eventlog.validation import require
from eventlog.values import Tokens
from projections.reports.session_tree import whole_tree

__all__ = ["SessionUsage", "UsageTotals", "session_usage", "total", "usage_by_model"]

_EXACT = Context(prec=200)
"""For sums of money: the precision of the current context could round a long sum."""


class UsageTotals(msgspec.Struct):
    """A sum of usage records.  `model` is "" when none was recorded."""

    model: str = ""
    calls: int = 0
    failed: int = 0
    """How many of the calls failed; their tokens count all the same."""
    input: int = 0
    output: int = 0
    reasoning: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost: Decimal = Decimal(0)
    """US dollars, as far as costs were recorded."""
    unpriced: int = 0
    """How many calls have no recorded cost."""
    total: int = 0
    """Tokens in all as the provider counts them; where it does not say, input, output and cache."""

    def add(self, event: UsageRecorded) -> None:
        """Take in one record."""
        tokens: Tokens = event.usage.tokens
        self.calls += 1
        self.failed += event.failed
        self.input += tokens.input
        self.output += tokens.output
        self.reasoning += tokens.reasoning
        self.cache_read += tokens.cache_read
        self.cache_write += tokens.cache_write
        if event.usage.cost is None:
            self.unpriced += 1
        else:
            self.cost = _EXACT.add(self.cost, event.usage.cost)
        counted = tokens.input + tokens.output + tokens.cache_read + tokens.cache_write
        self.total += counted if tokens.total is None else tokens.total

    @property
    def tokens(self) -> Tokens:
        """The tokens as a value of their own."""
        return Tokens(self.input, self.output, self.reasoning, self.cache_read, self.cache_write, self.total)


class SessionUsage(msgspec.Struct, frozen=True):
    """What a session spent, one sum a model (`total` makes one of them)."""

    own: list[UsageTotals]
    """In its own events, on every branch of them."""
    inherited: list[UsageTotals]
    """By the sessions it was forked from, before the forks: what stands behind its history, and is not its own."""
    tree: list[UsageTotals]
    """By every session of its tree: the first one, its forks, their sub-sessions and so on, each event once."""


def usage_by_model(spans: Iterable[Span]) -> list[UsageTotals]:
    """The usage in these events, one sum a model, by the model's name."""
    found: dict[str, UsageTotals] = {}
    require(Iterable, spans, "spans are those of a session")
    for span in spans:
        require(Span, span, "a span is a Span")
        if isinstance(span.item, UsageRecorded):
            model = "" if span.item.model is None else str(span.item.model)
            found.setdefault(model, UsageTotals(model)).add(span.item)
    return [found[model] for model in sorted(found)]


def total(sums: Iterable[UsageTotals]) -> UsageTotals:
    """All of them as one, with no model."""
    whole = UsageTotals()
    for spent in sums:
        for field in UsageTotals.__struct_fields__[1:]:
            if field != "cost":
                setattr(whole, field, getattr(whole, field) + getattr(spent, field))
        whole.cost = _EXACT.add(whole.cost, spent.cost)
    return whole


def session_usage(session: Session) -> SessionUsage:
    """The three numbers of a session; reads the events of its whole tree once."""
    base = session.version - session.info.events
    tree = [session.store.session(info.id) for info in whole_tree(session.store, session.id)]
    return SessionUsage(
        usage_by_model(session.reader.spans(base)),
        usage_by_model(session.reader.spans(upto=base)),
        usage_by_model(span for member in tree for span in member.reader.spans(member.version - member.info.events)),
    )
