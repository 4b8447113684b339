"""`answer`: say whether a call that waits for a person may run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from click import argument, option

from projections.cli import output
from projections.cli.exits import UsageFault
from projections.cli.options import JSON, SESSION
from projections.cli.short_ids import LEAST
from projections.cli.store_option import writing_session
from projections.cli.words import Context, command, flag

if TYPE_CHECKING:
    from eventlog import AskedCall, Session


@command
@SESSION
@argument("call", help="Part of the call, as `eventlog asked` lists it, or its unique end; or its id.")
@flag("--allow", help="Let the call run as it is.")
@flag("--deny", help="Let the call not run; --reason tells the model why.")
@option("--edit", metavar="JSON", help="Let the call run with these arguments instead.")
@option("--reason", default="", help="Why the call is denied.")
@option("--by", default="", metavar="NAME", help="Who answers; recorded.")
@JSON
def run(
    context: Context,
    session: str,
    call: str,
    *,
    allow: bool,
    deny: bool,
    edit: str | None,
    reason: str,
    by: str,
    json: bool,
) -> None:
    """Say whether a call that waits for a person may run.

    The first answer counts: the same again is harmless, another is refused. Programs may run the
    session meanwhile. An allowed call runs when a loop goes on with the session.
    """
    from eventlog import Allow, Deny, Edit

    if allow + deny + (edit is not None) != 1:
        raise UsageFault("answer needs --allow, --deny or --edit JSON, one of them")
    if reason and not deny:
        raise UsageFault("--reason says why a call is denied; give it with --deny")
    answer = Deny(reason) if deny else Allow() if edit is None else Edit(edit)
    with writing_session(context, session) as handle:
        message, name = _called(handle, call)
        version = handle.answer_call(message, name, answer, by=by)
        document = {"session": handle.id, "message": message, "call": name, "version": version, "by": by}
    said = "denied" if deny else "allowed" if edit is None else "allowed with other arguments"
    output.answer(document, f"call {name} is {said} (version {version})", json=json)


def _called(session: Session, word: str) -> tuple[str, str]:
    """Return message and id of the call that a word names; one that waits goes before others."""
    from eventlog import NotFoundError

    waiting = session.asked_calls()
    found = [call for call in waiting if _is_named(call, word)]
    if len(found) > 1:
        listed = ", ".join(call.part for call in found)
        raise UsageFault(f"more than one call is named {word}: {listed}; give the part")
    if found:
        return found[0].message, found[0].call
    try:
        with session.reader.deciding() as state:  # answered before, or unknown
            facts = state.part(word)
    except NotFoundError:
        raise NotFoundError("call that waits", word, known=[call.part for call in waiting]) from None
    return facts.message, facts.call


def _is_named(call: AskedCall, word: str) -> bool:
    return word in {call.part, call.call} or (len(word) >= LEAST and call.part.endswith(word))
