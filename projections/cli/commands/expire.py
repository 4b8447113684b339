"""`expire`: erase the least recently used sessions."""

from __future__ import annotations

import re

from click import option

from projections.cli import output, times
from projections.cli.confirm import confirm
from projections.cli.exits import UsageFault
from projections.cli.options import DRY_RUN, JSON, YES
from projections.cli.store_option import reading, writing
from projections.cli.words import Context, command, integer
from projections.reports.wording import counted

_LISTED = 20
"""How many sessions the question lists."""
_FACTORS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


@command
@option("--age", metavar="TIME", help=f"Keep sessions with an event in this time: {times.DURATION}.")
@integer("--count", help="Keep N sessions; sub-sessions do not count.")
@option("--size", metavar="BYTES", help="Keep so many bytes of events and texts, as in 500M (or K, G).")
@option("--scope", metavar="SCOPE", help="Consider only the sessions of this scope.")
@DRY_RUN
@YES
@JSON
def run(
    context: Context,
    *,
    age: str | None,
    count: int | None,
    size: str | None,
    scope: str | None,
    dry_run: bool,
    yes: bool,
    json: bool,
) -> None:
    """Erase the least recently used sessions, down to given limits.

    Whole sessions are erased until the store is within all limits given. Sub-sessions are erased
    with their session; forks are kept with their history; a session that a program is running
    stays. Lists them and asks, before it erases any.
    """
    oldest, largest = times.milliseconds("--age", age), _bytes(size)
    with reading(context) if dry_run else writing(context) as store:
        result = store.expire(age=oldest, count=count, size=largest, scope=scope, dry_run=True)
        if result.erased and not dry_run:
            listed = [f"  {name}  {store.info(name).title}" for name in result.erased[:_LISTED]]
            more = [f"  and {len(result.erased) - _LISTED} more"] if len(result.erased) > _LISTED else []
            confirm(f"{counted(len(result.erased), 'session')} will be erased", *listed, *more, yes=yes)
            result = store.expire(age=oldest, count=count, size=largest, scope=scope)
    output.answer(
        {"erased": list(result.erased), "running": list(result.running), "dry_run": dry_run},
        *(f"{name} would be erased" if dry_run else f"{name} is erased" for name in result.erased),
        f"{counted(len(result.erased), 'session')} {'would be erased' if dry_run else 'erased'}",
        *(f"{name} is being run, and {'would stay' if dry_run else 'stays'}" for name in result.running),
        json=json,
    )


def _bytes(text: str | None) -> int | None:
    if text is None:
        return None
    matched = re.fullmatch(r"(\d{1,15})([kmg]?)b?", text.lower())
    if matched is None:
        from eventlog.errors.base import brief

        raise UsageFault(f"--size {brief(text)} is no size; give a number, and K, M or G, as in 500M")
    return int(matched[1]) * _FACTORS[matched[2]]
