"""`stats` and `verify`: how much there is, and whether it is sound."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from projections.cli import output
from projections.cli.commands.head import HEAD, kept_head
from projections.cli.exits import Exit
from projections.cli.options import JSON
from projections.cli.store_option import reading, session_of, store_path
from projections.reports.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from eventlog import Session, Store
    from projections.reports.stats import SessionStats
    from projections.reports.usage import UsageTotals
    from projections.verify.verify import SessionReport, StoreReport

__all__ = ["print_session_stats", "register"]

ONE_OR_ALL = Annotated[
    str | None,
    typer.Argument(metavar="[SESSION]", help="Id of a session, or its beginning; without one: the whole store."),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("stats")(_stats)
    app.command("verify")(_verify)


# -- stats -------------------------------------------------------------------------------------


def _stats(context: typer.Context, session: ONE_OR_ALL = None, *, json: JSON = False) -> None:
    """Count what a session holds and what it spent, or what the store holds."""
    with reading(context) as store:
        if session is None:
            found = _store_stats(store, store_path(context))
            if json:
                output.document({"store": found})
            else:
                path = found.pop("path")
                output.table(["store", path], found.items(), numbers=[path])
            return
        handle = session_of(store, session)
        if json:
            output.document({"session": _session_stats(handle)})
        else:
            print_session_stats(handle)


def _store_stats(store: Store, path: Path) -> dict[str, Any]:
    """The totals of a store, from what a list of sessions shows; no event is read."""
    from eventlog.log.embedded.directory import bytes_on_disk

    sessions = list(store.sessions())
    return {
        "path": str(path),
        "sessions": len(sessions),
        "archived": sum(info.archived for info in sessions),
        "forks": sum(info.fork_of is not None for info in sessions),
        "subsessions": sum(info.parent is not None for info in sessions),
        "events": sum(info.events for info in sessions),
        "messages": sum(info.messages for info in sessions),
        "bytes": bytes_on_disk(path),
    }


def _session_stats(session: Session) -> dict[str, Any]:
    from projections.reports.event_json import kind_named
    from projections.reports.stats import session_stats
    from projections.reports.usage import session_usage
    from projections.view.model_view import ModelView

    found = session_stats(session)
    view = ModelView.of(session)
    return {
        "id": session.id,
        "version": found.version,
        "events": {
            "own": found.events,
            "inherited": found.inherited,
            "hidden": found.hidden,
            "kinds": {kind_named(name): count for name, count in found.kinds.items()},
        },
        "deltas": {"count": found.deltas, "characters": found.delta_characters},
        "messages": {"user": found.user_messages, "assistant": found.assistant_messages},
        "parts": found.parts,
        "tools": [{name: getattr(tool, name) for name in tool.__struct_fields__} for tool in found.tools],
        "usage": {
            "own": _spending(found.usage),
            "inherited": _spending(found.inherited_usage),
            "tree": _spending(session_usage(session).tree),
        },
        "view": {"messages": len(view.messages), "tokens": view.tokens},
    }


def _spending(sums: list[UsageTotals]) -> list[dict[str, Any]]:
    return [
        {
            **{name: getattr(spent, name) for name in spent.__struct_fields__},
            "cost": str(spent.cost) if spent.calls > spent.unpriced else None,
        }
        for spent in sums
    ]


def print_session_stats(session: Session) -> None:
    """Print a session's numbers for people."""
    from projections.reports.stats import session_stats
    from projections.reports.usage import session_usage
    from projections.view.model_view import ModelView

    found = session_stats(session)
    view = ModelView.of(session)
    output.table(["session", session.id], _session_rows(found, view), numbers=[session.id])
    if found.tools:
        columns = ["tool", "calls", "completed", "failed", "interrupted", "unfinished"]
        rows = [[getattr(tool, name) for name in ["tool", *columns[1:]]] for tool in found.tools]
        output.table(columns, rows, numbers=columns[1:])
    tree = session_usage(session).tree
    whole = {"own": found.usage, "inherited": found.inherited_usage, "tree": tree if tree != found.usage else []}
    if any(whole.values()):
        columns = ["model", "calls", "input", "output", "reasoning", "cache_read", "cache_write", "cost"]
        rows = [
            [whose, *(getattr(spent, name) for name in columns[:-1]), _price(spent)]
            for whose, sums in whole.items()
            for spent in sums
        ]
        names = [name.replace("_", " ") for name in columns]
        output.table(["spent", *names], rows, numbers=names[1:])


def _price(spent: UsageTotals) -> str:
    if spent.unpriced == spent.calls:
        return "unknown"
    return f"${spent.cost}" + (f" and {counted(spent.unpriced, 'call')} of unknown cost" if spent.unpriced else "")


def _session_rows(found: SessionStats, view: Any) -> list[tuple[str, object]]:
    parts = ", ".join(f"{count} {kind}" for kind, count in found.parts.items())
    return [
        ("version", found.version),
        ("events", f"{found.events} own, {found.inherited} inherited, {found.hidden} hidden by rollback"),
        ("deltas", f"{found.deltas} of {counted(found.delta_characters, 'character')}"),
        ("messages", f"{found.user_messages} user, {found.assistant_messages} assistant"),
        ("parts", parts or "none"),
        ("view", f"{counted(len(view.messages), 'message')}, {counted(view.tokens, 'token')}"),
    ]


# -- verify ------------------------------------------------------------------------------------


def _verify(
    context: typer.Context,
    session: ONE_OR_ALL = None,
    *,
    deep: Annotated[
        bool, typer.Option("--deep", help="Also compare live views and every checkpoint with a replay.")
    ] = False,
    against: HEAD = None,
    json: JSON = False,
) -> None:
    """Check that everything can be read, and that every event is the one that was committed.

    Exit code 1 if anything is wrong.  Without SESSION also checks what no session leads to.
    """
    from eventlog.errors import DamagedError
    from projections.verify.verify import StoreReport, verify

    kept = None if against is None else kept_head(against)
    try:
        with reading(context) as store:
            if session is not None and not (kept is not None and session in kept.by_session):
                session = _name_of(store, session)
            with ExitStack() as bar:

                def on_session(name: str) -> Callable[[int, int], None]:
                    bar.close()
                    return bar.enter_context(output.progress(name))

                report = verify(store, session=session, against=kept, deep=deep, on_session=on_session)
    except DamagedError as error:
        report = StoreReport([str(error)])
    if json:
        found = [_plain(one) for one in report.sessions]
        output.document({"sound": report.sound, "store": report.problems, "sessions": found})
    else:
        _print_reports(report)
    if not report.sound:
        raise typer.Exit(Exit.FAULTS)


def _name_of(store: Store, session: str) -> str:
    """The id of the session that is meant; of one that is erased, or no conversation, it is to be given whole."""
    from eventlog.errors import NotFoundError

    try:
        return session_of(store, session).id
    except NotFoundError:
        if store.log.head(session) is None:
            raise
        return session


def _plain(report: SessionReport) -> dict[str, Any]:
    return {
        "id": report.session,
        "sound": report.sound,
        "version": report.version,
        "events": report.events,
        "bodies": report.bodies,
        "first_bad": report.first_bad,
        "problems": [{"version": found.version, "problem": found.problem} for found in report.problems],
        "locked": report.locked,
    }


def _print_reports(found: StoreReport) -> None:
    reports = found.sessions
    for problem in found.problems:
        output.line(f"store: {problem}")
    for report in reports:
        for one in report.problems:
            place = "" if one.version is None else f" at version {one.version}"
            output.line(f"{report.session}{place}: {one.problem}")
    for report in reports:
        if report.locked and report.sound:
            output.line(f"{report.session}: its key is not there: the hashes are right, and nothing was read")
    bad = sum(not report.sound for report in reports)
    events = sum(report.events for report in reports)
    bodies = sum(report.bodies for report in reports)
    verdict = "all sound" if found.sound else f"{bad} with faults"
    output.line(
        f"{counted(len(reports), 'session')}, {counted(events, 'event')}, {counted(bodies, 'body')} read: {verdict}"
    )
