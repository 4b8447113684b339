"""`stats`: count what a session or the store holds."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from click import Choice, UsageError, option

from projections.cli import output
from projections.cli.amounts import dollars, money, number, sign
from projections.cli.output import Cell
from projections.cli.screen import is_terminal
from projections.cli.short_ids import ShortIds, session_of
from projections.cli.store_option import Context, reading, store_path
from projections.cli.tables import print_session_stats
from projections.cli.words import OPTIONAL_SESSION, command
from projections.reports.wording import DAMAGE_ADVICE, counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from eventlog import SessionInfo, Store
    from projections.reports.usage import UsageTotals

_By: TypeAlias = Literal["day", "model", "scope"]


@command(pages=True)
@OPTIONAL_SESSION
@option("--by", type=Choice(get_args(_By)), help="List the usage of the store by day of UTC, model or scope.")
def stats(context: Context, session: str | None, by: _By | None, *, json: bool) -> None:
    """Count what a session or the store holds, and what it cost.

    Of the store it also lists the sessions that cost most, and those with most tokens. A call
    without a recorded cost is estimated by list prices, where the catalogue knows its model. The
    messages of a session are those of its view, of a fork the inherited ones, too; the store has
    each message once.
    """
    if by is not None and session is not None:
        raise UsageError("--by is for the store: leave the session out")
    with reading(context) as store:
        if by is not None:
            from projections.reports.usage_days import sums_by

            found = store.usage_by_day(wait=None)
            sums = sums_by(found.days, by)
            for name in found.damaged:
                output.note(f"session {name}: what is damaged is in no sum; {DAMAGE_ADVICE}")
            if json:
                output.document({f"{by}s": sums})
            else:
                _print_sums(sums, by)
            return
        if session is None:
            totals = _store_stats(store, store_path(context))
            if json:
                output.document({"store": totals})
            else:
                _print_store(totals, (head.session for head in store.log.heads()), store.host.models.date)
            return
        print_session_stats(session_of(store, session), json=json)


def _store_stats(store: Store, path: Path | str) -> dict[str, Any]:
    """Return the totals of a store, from its catalog; of unpriced calls the events are read."""
    from eventlog.log.embedded.directory import bytes_on_disk
    from eventlog.open_log import server_log, shown
    from projections.reports.usage import total

    server = server_log(store.log)
    sessions = list(store.sessions())
    spent = {info.id: _spent(store, info) for info in sessions}
    return {
        "path": shown(path),
        "sessions": len(sessions),
        "archived": sum(info.archived for info in sessions),
        "forks": sum(info.fork_of is not None for info in sessions),
        "subsessions": sum(info.parent is not None for info in sessions),
        "events": sum(info.events for info in sessions),
        "messages": _messages(store, sessions),
        "bytes": bytes_on_disk(Path(path)) if server is None else server.bytes_stored(),
        "tokens": sum(info.tokens for info in sessions),
        "locked": sum(info.locked for info in sessions),
        **_money(total(spent.values())),
        "dearest": [_spender(info, spent) for info in _most(sessions, lambda info: spent[info.id].known)],
        "largest": [_spender(info, spent) for info in _most(sessions, lambda info: info.tokens)],
    }


_TOP = 5
"""Sessions that are listed by what they cost, and by tokens."""


def _messages(store: Store, sessions: list[SessionInfo]) -> int:
    """Return the number of all messages, each once: a fork may tell some again."""
    from eventlog.errors import DataError, NotFoundError
    from eventlog.history.ancestry import forked_from
    from projections.reports.stats import own_messages

    forked = {info.fork_of for info in sessions}
    seen: set[tuple[str, str]] = set()
    others = 0
    for info in sessions:
        try:
            if info.locked or (info.fork_of is None and info.id not in forked):
                others += info.messages
            else:
                *_, (eldest, _) = forked_from(store.log, info.id)
                seen.update((eldest.session, message) for message in own_messages(store.session(info.id)))
        except (DataError, NotFoundError):  # damaged, erased, or its key gone, meanwhile
            others += info.messages
    return len(seen) + others


def _spent(store: Store, info: SessionInfo) -> UsageTotals:
    """Return the usage of a session; its events are read where a call has no recorded cost."""
    from eventlog.errors import DataError, KeyMissingError, NotFoundError
    from projections.reports.usage import UsageTotals, own_total

    if info.unpriced and not info.locked:
        try:
            return own_total(store.session(info.id))
        except (KeyMissingError, NotFoundError):  # erased, or its key gone, meanwhile
            pass
        except DataError as error:
            output.note(f"session {info.id}: no cost of it is estimated: {error}; {DAMAGE_ADVICE}")
    return UsageTotals(calls=info.calls, cost=info.cost, unpriced=info.unpriced)


def _money(sums: UsageTotals) -> dict[str, Any]:
    return {**output.fields(sums, "calls", "unpriced", "estimated"), **money(sums)}


def _most(sessions: list[SessionInfo], size: Callable[[SessionInfo], Decimal | int]) -> list[SessionInfo]:
    """Return the sessions with the most of something, none without any."""
    return [info for info in sorted(sessions, key=size, reverse=True)[:_TOP] if size(info)]


def _spender(info: SessionInfo, spent: dict[str, UsageTotals]) -> dict[str, Any]:
    return {"id": info.id, "title": info.title, "tokens": info.tokens, **_money(spent[info.id])}


def _cost(of: dict[str, Any]) -> Cell | None:
    """Return what a session cost."""
    if of["cost"] is None and of["estimate"] is None:
        return None
    known = Decimal(of["cost"] or 0) + Decimal(of["estimate"] or 0)
    about = sign(of["unpriced"], of["estimated"])
    return Cell(f"{about.strip()}{known}", about + dollars(known))


def _print_store(totals: dict[str, Any], ids: Iterable[str], prices: str) -> None:
    """Print the totals, then the sessions that cost most and that have most tokens."""
    path = totals.pop("path")
    lists = {"most expensive": totals.pop("dearest"), "most tokens": totals.pop("largest")}
    spent = {name: totals.pop(name) for name in ("unpriced", "estimated", "cost", "estimate")}
    locked = totals.pop("locked")
    rows: list[tuple[str, object]] = [(name, number(count)) for name, count in totals.items()]
    rows.append(("cost", "unknown" if spent["cost"] is None else Cell(spent["cost"], dollars(spent["cost"]))))
    if spent["unpriced"]:
        rows.append(("calls of unknown cost", number(spent["unpriced"])))
        rows.append(("of these by list prices", number(spent["estimated"])))
    if spent["estimate"] is not None:
        rows.append((f"estimate, prices of {prices}", Cell(spent["estimate"], f"≈ {dollars(spent['estimate'])}")))
    output.table(["store", path], rows, numbers=[path])
    if locked:
        output.note(
            f"the tokens, calls and cost of {counted(locked, 'session')} without a key are in no sum; "
            "messages that a fork without a key inherited count again"
        )
    short = ShortIds(ids)
    for title, found in lists.items():
        if found and is_terminal():
            output.gap()
            output.table(
                [title, "title", "tokens", "cost"],
                [(short.cell(each["id"]), each["title"], number(each["tokens"]), _cost(each)) for each in found],
                numbers=["tokens", "cost"],
                flexible=["title"],
            )


def _print_sums(sums: list[dict[str, Any]], by: _By) -> None:
    """Print a row for each day, model or scope; 0 is the day of what has no time."""
    numbers = ["sessions", "replies", "errors", "calls", "input", "cache read", "cache write", "output", "cost"]
    output.table(
        [by, *numbers],
        [
            (
                _name(each[by], by),
                *(number(each[name.replace(" ", "_")]) for name in numbers[:-1]),
                _cost(each) or ("unknown" if each["calls"] else None),
            )
            for each in sums
        ],
        numbers=numbers,
        optional=["errors", "replies", "calls", "cache write"],
        flexible=[] if by == "day" else [by],
    )


def _name(key: int | str, by: _By) -> str:
    """Return the name of a row."""
    if isinstance(key, int) and key:
        return datetime.fromtimestamp(key / 1000, UTC).date().isoformat()
    return str(key or f"no {'date' if by == 'day' else by}")
