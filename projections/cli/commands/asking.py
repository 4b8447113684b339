"""`asked` and `answer`: the calls that wait for a person."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from click import argument, option

from projections.cli import output, times
from projections.cli.exits import Fault
from projections.cli.screen import is_terminal
from projections.cli.short_ids import LEAST, ShortIds, session_of
from projections.cli.store_option import reading, writing_session
from projections.cli.words import OPTIONAL_SESSION, command, flag

if TYPE_CHECKING:
    from eventlog import Session, Store

_KEYS = ("message", "call", "part", "tool", "arguments", "reason", "time")


@command(reading, pages=True)
@OPTIONAL_SESSION
def asked(store: Store, session: str | None, *, json: bool) -> None:
    """List the calls that wait for a person, the oldest first.

    `eventlog answer` says whether one may run. A `task` call waits for the calls of the session
    that the last column names.
    """
    handles = _waiting(store) if session is None else [session_of(store, session)]
    found = [(handle.id, call) for handle in handles for call in handle.asked_calls()]
    found.sort(key=lambda entry: entry[1].time)
    if json:
        calls = [{"session": name, **output.fields(call, *_KEYS), "waits_for": call.session} for name, call in found]
        output.document({"calls": calls})
        return
    if not found and is_terminal():
        output.note("no call waits for a person")
        return
    short, parts = ShortIds(name for name, _ in found), ShortIds(call.part for _, call in found)
    output.table(
        ["session", "call", "asked", "tool", "arguments", "reason", "waits for"],
        (
            (
                short.cell(name),
                parts.cell(call.part),
                times.cell(call.time),
                call.tool,
                call.arguments,
                call.reason,
                call.session,
            )
            for name, call in found
        ),
        flexible=["arguments", "reason", "waits for"],
        optional=["waits for", "asked"],
    )


def _waiting(store: Store) -> Iterator[Session]:
    """Yield the sessions of a store in which a person's answers are due."""
    store.unfinished()  # so that a list knows which have open work, and reads no other
    cursor = None
    while True:
        page = store.newest_sessions(cursor=cursor, limit=200)
        for info in page.sessions:
            if info.state != "waiting" and not info.locked:
                yield store.session(info.id)
        cursor = page.next
        if cursor is None:
            return


@command(writing_session)
@argument("call", help="Part of the call, as `eventlog asked` lists it, or its unique end; or its id.")
@flag("--allow", help="Let the call run as it is.")
@flag("--deny", help="Let the call not run; --reason tells the model why.")
@option("--edit", metavar="JSON", help="Let the call run with these arguments instead.")
@option("--reason", default="", help="Why the call is denied.")
@option("--by", default="", metavar="NAME", help="Who answers; recorded.")
def answer(
    session: Session, call: str, *, allow: bool, deny: bool, edit: str | None, reason: str, by: str, json: bool
) -> None:
    """Say whether a call that waits for a person may run.

    The first answer counts: the same again is harmless, another is refused. Programs may run the
    session meanwhile. An allowed call runs when a loop goes on with the session.
    """
    from eventlog import Allow, Deny, Edit

    if allow + deny + (edit is not None) != 1:
        raise Fault("answer needs --allow, --deny or --edit JSON, one of them")
    if reason and not deny:
        raise Fault("--reason says why a call is denied; give it with --deny")
    given = Deny(reason) if deny else Allow() if edit is None else Edit(edit)
    message, name = _called(session, call)
    version = session.answer_call(message, name, given, by=by)
    document = {"session": session.id, "message": message, "call": name, "version": version, "by": by}
    said = "denied" if deny else "allowed" if edit is None else "allowed with other arguments"
    output.answer(document, f"call {name} is {said} (version {version})", json=json)


def _called(session: Session, word: str) -> tuple[str, str]:
    """Return message and id of the named call: one that waits, else the one asked last."""
    from eventlog import NotFoundError
    from eventlog.events import CallAsked

    waiting = session.asked_calls()
    found = [call for call in waiting if _is_named(call.part, call.call, word)]
    if len(found) > 1:
        listed = ", ".join(call.part for call in found)
        raise Fault(f"more than one call is named {word}: {listed}; give the part")
    if found:
        return found[0].message, found[0].call
    asks = [known.event.part for known in session.events() if isinstance(known.event, CallAsked)]
    with session.reader.deciding() as state:  # answered before, or unknown
        for part in reversed(asks):
            facts = state.parts.get(part)
            if facts is not None and _is_named(part, facts.call, word):
                return state.part(part).message, facts.call
    raise NotFoundError("call that waits", word, known=[call.part for call in waiting])


def _is_named(part: str, call: str, word: str) -> bool:
    return word in {part, call} or (len(word) >= LEAST and part.endswith(word))
