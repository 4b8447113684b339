"""Usage by day, scope and model, summed up from the rows of an index that stands still."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from decimal import Context, Decimal, localcontext
from operator import add, itemgetter

import msgspec

from eventlog.history.catalog import entry_of
from eventlog.log.contract import Log
from eventlog.models.catalogue import KnownModel, ModelCatalogue
from eventlog.search.asked import label_of
from eventlog.values import Tokens

__all__ = ["DAY", "DayUsage", "UsageByDay", "usage_by_day"]

DAY = 86_400_000
"""Milliseconds of a day."""
_EXACT = Context(prec=200)
_READ = "s.input + s.cache_read + s.cache_write"
_UNPRICED = "(s.call AND s.cost IS NULL)"
_SUMS = ("reply", "error", "call", "failed", _UNPRICED, "input", "output", "reasoning", "cache_read", "cache_write")


class DayUsage(msgspec.Struct, frozen=True):
    """Usage of a model on a day of UTC by the sessions of a scope; each event counts once."""

    day: int
    """The beginning of the day in UTC milliseconds; 0 if no time was recorded."""
    scope: str
    model: str
    """The model's name, "" if none was recorded."""
    sessions: frozenset[str]
    """Their ids."""
    replies: int
    """Answers that began."""
    errors: int
    """Answers that ended with an error but no stop, and failed calls that no answer shows."""
    calls: int
    """Model calls with recorded usage."""
    failed: int
    """How many of them failed; their tokens count, too."""
    tokens: Tokens
    cost: Decimal
    """US dollars, of the calls with a recorded cost."""
    unpriced: int
    """Calls without a recorded cost."""
    estimated: int
    """How many of these have an estimate."""
    estimate: Decimal
    """US dollars of these, at the prices of the store's catalogue of now."""


class UsageByDay(msgspec.Struct, frozen=True):
    """Usage by day, the first day first, then by scope and model."""

    days: tuple[DayUsage, ...]
    behind: int = 0
    """Committed events that the index had not yet taken in when the wait ended."""


def usage_by_day(
    log: Log,
    connection: sqlite3.Connection,
    models: ModelCatalogue,
    *,
    since: int | None,
    until: int | None,
    scope: str | None,
    model: str | None,
) -> tuple[DayUsage, ...]:
    """Return the usage of the days that begin within a time, without that of erased sessions."""
    conditions = ["s.day >= ?", "s.day < ?"]
    values: list[object] = [-(-(since or 0) // DAY), 1 << 40 if until is None else -(-until // DAY)]
    for column, name in (("t.scope", scope), ("s.model", model)):
        if name is not None:
            conditions.append(f"{column} = ?")
            values.append(label_of(connection, name))
    streams = {str(stream): str(name) for stream, name in connection.execute("SELECT id, name FROM streams")}
    if erased := [stream for stream, name in streams.items() if _erased(log, name)]:
        conditions.append(f"s.stream NOT IN ({', '.join(erased)})")
    labels = {
        number: bytes(name).decode("utf-8", "surrogatepass")
        for number, name in connection.execute("SELECT id, name FROM labels")
    }
    known = {label: rated for label, name in labels.items() if (rated := models.get(name)) is not None}
    question = (
        f"SELECT s.day, t.scope, s.model, {_tier(known)}, group_concat(s.cost), group_concat(DISTINCT s.stream),"  # noqa: S608 - numbers only
        f" {', '.join(f'sum({name})' for name in _SUMS)}"
        f" FROM spent s JOIN streams t ON t.id = s.stream WHERE {' AND '.join(conditions)} GROUP BY 1, 2, 3, 4"
    )
    found: defaultdict[tuple[int, str, str], _Sums] = defaultdict(_Sums)
    with localcontext(_EXACT):
        for day, of, by, tier, costs, by_session, *counts in connection.execute(question, values):
            sums = found[day * DAY, labels[of], labels[by]]
            sums.counts = [*map(add, sums.counts, counts)]
            sums.sessions.update(map(streams.__getitem__, by_session.split(",")))
            if costs is not None:
                sums.cost += sum(map(Decimal, costs.split(",")))
            elif tier >= 0 and by in known and known[by].rates:
                sums.estimated += counts[4]
                sums.estimate += known[by].rates[int(tier)].cost(Tokens(*counts[5:]))
    return tuple(sums.of(*place) for place, sums in sorted(found.items(), key=itemgetter(0)))


class _Sums:
    """Sums of a day, a scope and a model."""

    def __init__(self) -> None:
        self.counts: list[int] = [0] * len(_SUMS)
        self.cost: Decimal = Decimal(0)
        self.estimate: Decimal = Decimal(0)
        self.estimated: int = 0
        self.sessions: set[str] = set()

    def of(self, day: int, scope: str, model: str) -> DayUsage:
        """Return the sums as those of a day, a scope and a model."""
        replies, errors, calls, failed, unpriced, *tokens = self.counts
        return DayUsage(
            day=day,
            scope=scope,
            model=model,
            sessions=frozenset(self.sessions),
            replies=replies,
            errors=errors,
            calls=calls,
            failed=failed,
            tokens=Tokens(*tokens),
            cost=self.cost,
            unpriced=unpriced,
            estimated=self.estimated,
            estimate=self.estimate,
        )


def _erased(log: Log, session: str) -> bool:
    head = log.head(session)
    return head is None or (bool(head.entry) and entry_of(head).erased)


def _tier(known: dict[int, KnownModel]) -> str:
    """Return an expression for which of its model's rates an unpriced call has, or -1.

    Rates are for requests of more than some tokens, and a cost is linear within one.
    """
    cases = "".join(
        f" WHEN {label} THEN {' + '.join(f'({_READ} > {rates.above})' for rates in model.rates[1:])}"
        for label, model in known.items()
        if model.rates[1:]
    )
    which = f"CASE s.model{cases} ELSE 0 END" if cases else "0"
    sound = f"min(s.input, s.output, s.cache_read, s.cache_write) >= 0 AND {_READ} + s.output > 0"
    return f"CASE WHEN s.cost IS NULL AND {sound} THEN {which} ELSE -1 END"
