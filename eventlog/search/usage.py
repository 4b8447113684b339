"""Usage by day, scope and model, summed up from the rows of an index that stands still."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable
from decimal import Context, Decimal, localcontext
from operator import attrgetter

import msgspec

from eventlog.history.catalog import entry_of
from eventlog.log.contract import Log
from eventlog.models.catalogue import KnownModel, ModelCatalogue
from eventlog.search.asked import label_of
from eventlog.values import Tokens

DAY = 86_400_000
"""Milliseconds of a day."""
COUNTS = ("replies", "errors", "calls", "failed", "unpriced", "estimated")
TOKENS = ("input", "output", "reasoning", "cache_read", "cache_write")
_counts_of = attrgetter(*COUNTS, *(f"tokens.{name}" for name in TOKENS))
_EXACT = Context(prec=200)
_READ = "s.input + s.cache_read + s.cache_write"
_UNPRICED = "(s.call AND s.cost IS NULL)"
_COUNTED = "(s.{0} > 0 OR s.{0} < 0 AND (s.stream, s.version) IN (SELECT stream, version FROM counted))"
_SUMS = (_COUNTED.format("reply"), _COUNTED.format("error"), "call", "failed", _UNPRICED, *TOKENS)
_RETOLD = (
    "WITH erased AS (SELECT value FROM json_each(?)), again AS ("
    "SELECT r.stream, r.version, row_number() OVER (PARTITION BY r.name ORDER BY r.stream, r.version) AS place"
    " FROM retold r JOIN told t USING (name) WHERE t.stream IN erased AND r.stream NOT IN erased)"
    ", counted AS (SELECT stream, version FROM again WHERE place = 1)"
)
"""Events that count because the sessions that told the same before are erased."""


class DayUsage(msgspec.Struct, frozen=True):
    """Usage of a model on a day of UTC by the sessions of a scope; each event counts once."""

    day: int = 0
    """The beginning of the day in UTC milliseconds; 0 if no time was recorded."""
    scope: str = ""
    model: str = ""
    """The model's name, "" if none was recorded."""
    sessions: frozenset[str] = frozenset()
    """Their ids."""
    replies: int = 0
    """Answers that began."""
    errors: int = 0
    """Answers that ended with an error but no stop, and failed calls that no answer shows."""
    calls: int = 0
    """Model calls with recorded usage."""
    failed: int = 0
    """How many of them failed; their tokens count, too."""
    tokens: Tokens = Tokens()
    cost: Decimal = Decimal(0)
    """US dollars, of the calls with a recorded cost."""
    unpriced: int = 0
    """Calls without a recorded cost."""
    estimated: int = 0
    """How many of these have an estimate."""
    estimate: Decimal = Decimal(0)
    """US dollars of these, at the prices of the store's catalogue of now."""


class UsageByDay(msgspec.Struct, frozen=True):
    """Usage by day, the first day first, then by scope and model."""

    days: tuple[DayUsage, ...]
    behind: int = 0
    """Committed events that the index had not yet taken in when the wait ended."""
    damaged: tuple[str, ...] = ()
    """Sessions whose damaged events are in no sum."""


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
    streams = {str(stream): str(name) for stream, name in connection.execute("SELECT id, name FROM streams")}
    erased = json.dumps([int(stream) for stream, name in streams.items() if _erased(log, name)])
    conditions = ["s.stream NOT IN erased", "s.day >= ?", "s.day < ?"]
    values: list[object] = [erased, -(-(since or 0) // DAY), 1 << 40 if until is None else -(-until // DAY)]
    for column, name in (("t.scope", scope), ("s.model", model)):
        if name is not None:
            conditions.append(f"{column} = ?")
            values.append(label_of(connection, name))
    labels = {
        number: bytes(name).decode("utf-8", "surrogatepass")
        for number, name in connection.execute("SELECT id, name FROM labels")
    }
    known = {label: rated for label, name in labels.items() if (rated := models.get(name)) is not None}
    question = (
        f"{_RETOLD} SELECT s.day, t.scope, s.model, {_tier(known)}, group_concat(s.cost), group_concat(DISTINCT s.stream),"  # noqa: S608 - numbers only
        f" {', '.join(f'sum({name})' for name in _SUMS)}"
        f" FROM spent s JOIN streams t ON t.id = s.stream WHERE {' AND '.join(conditions)} GROUP BY 1, 2, 3, 4"
    )
    found: defaultdict[tuple[int, str, str], list[DayUsage]] = defaultdict(list)
    with localcontext(_EXACT):
        for day, of, by, tier, costs, by_session, *counts in connection.execute(question, values):
            replies, errors, calls, failed, unpriced, *tokens = counts
            rates = known[by].rates if costs is None and tier >= 0 and by in known else ()
            row = DayUsage(
                sessions=frozenset(map(streams.__getitem__, by_session.split(","))),
                replies=replies,
                errors=errors,
                calls=calls,
                failed=failed,
                tokens=Tokens(*tokens),
                cost=sum(map(Decimal, () if costs is None else costs.split(",")), Decimal(0)),
                unpriced=unpriced,
                estimated=unpriced if rates else 0,
                estimate=rates[int(tier)].cost(Tokens(*tokens)) if rates else Decimal(0),
            )
            found[day * DAY, labels[of], labels[by]].append(row)
    return tuple(total(found[place], *place) for place in sorted(found))


def total(parts: Iterable[DayUsage], day: int = 0, scope: str = "", model: str = "") -> DayUsage:
    """Return the sum of all parts as that of a day, scope and model; a session counts once."""
    added = [DayUsage(), *parts]
    counts = [sum(column) for column in zip(*map(_counts_of, added), strict=True)]
    with localcontext(_EXACT):
        return DayUsage(
            day=day,
            scope=scope,
            model=model,
            sessions=frozenset[str]().union(*(each.sessions for each in added)),
            tokens=Tokens(*counts[len(COUNTS) :]),
            cost=sum((each.cost for each in added), Decimal(0)),
            estimate=sum((each.estimate for each in added), Decimal(0)),
            **dict(zip(COUNTS, counts, strict=False)),
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
