"""`head` and `prove`: what to keep elsewhere, and what can be shown to others, so that the past cannot be changed unseen."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from projections.cli import output
from projections.cli.exits import FileFault, UsageFault
from projections.cli.options import JSON, SESSION
from projections.cli.store_option import reading, session_of

if TYPE_CHECKING:
    from eventlog import StoreHead

__all__ = ["HEAD", "kept_head", "register"]

HEAD: TypeAlias = Annotated[
    str | None,
    typer.Option("--against", metavar="HEAD", help="File with the output of `eventlog head --json` from earlier."),
]
DIGEST = re.compile("[0-9a-f]{64}")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("head")(_head)
    app.command("prove")(_prove)


def kept_head(name: str) -> StoreHead:
    """The head that was kept in this file."""
    from eventlog import StoreHead
    from eventlog.errors import CallError

    if DIGEST.fullmatch(name) and not Path(name).exists():
        raise UsageFault("a digest says only whether a head is the one that was kept: give the file with `head --json`")
    try:
        return StoreHead.parse(Path(name).read_bytes())
    except CallError as error:
        raise FileFault(name, error) from error


def _head(context: typer.Context, *, json: JSON = False) -> None:
    """Print the digest of the store's history, to be kept where nobody who can write the store can write.

    With --json: the heads of all sessions, too, which `verify --against` needs to name what was changed.
    """
    with reading(context) as store:
        head = store.head()
    if json:
        output.document(head.document())
    else:
        output.line(head.digest)


def _prove(
    context: typer.Context,
    session: SESSION,
    *,
    version: Annotated[int, typer.Option(min=1, metavar="V", help="The version to prove.")],
    against: HEAD = None,
    json: JSON = False,
) -> None:
    """Prove that an event is in the history of the store, for somebody who has only its head.

    With --against also that the session's history then is the beginning of today's.  The proof (--json) is checked by
    projections/verify/check_proof.py, which needs nothing but Python.
    """
    from projections.verify.prove import prove

    kept = None if against is None else kept_head(against)
    with reading(context) as store:
        proof = prove(store, session_of(store, session), version, kept)
    if json:
        output.document(proof)
        return
    output.line(f"version {version} is in append {proof['index'] + 1} of {proof['size']} of session {proof['session']}")
    output.line(f"root of the session {proof['root']}")
    output.line(f"head of the store   {proof['store']['root']}")
    if kept is not None:
        output.line(f"continues the head  {kept.digest}")
