"""`prove`: prove that an event is in the store's history."""

from __future__ import annotations

from projections.cli import output
from projections.cli.options import AGAINST, JSON, SESSION
from projections.cli.saved_head import saved_head
from projections.cli.short_ids import session_of
from projections.cli.store_option import reading
from projections.cli.words import Context, command, integer


@command
@SESSION
@integer("--version", least=1, required=True, metavar="V", help="The version to prove.")
@AGAINST
@JSON
def run(context: Context, session: str, *, version: int, against: str | None, json: bool) -> None:
    """Prove that an event is in the store's history.

    The proof (--json) convinces a reader who has only the head of the store: the file
    projections/verify/check_proof.py checks it and needs nothing but Python. With --against it also
    proves that the session's history at that head is the beginning of its history now.
    """
    from projections.verify.prove import prove

    saved = saved_head(against)
    with reading(context) as store:
        proof = prove(store, session_of(store, session), version, saved)
    lines = [
        f"version {version} is in append {proof['index'] + 1} of {proof['size']} of session {proof['session']}",
        f"root of the session {proof['root']}",
        f"head of the store   {proof['store']['root']}",
    ]
    if saved is not None:
        lines.append(f"continues the head  {saved.digest}")
    output.answer(proof, *lines, json=json)
