"""`head`: print the digest of the store's history."""

from __future__ import annotations

from projections.cli import output
from projections.cli.options import JSON
from projections.cli.store_option import reading
from projections.cli.words import Context, command


@command
@JSON
def run(context: Context, *, json: bool) -> None:
    """Print the digest of the store's history, to keep elsewhere.

    Keep it where those who can write the store cannot write: later it shows whether the history was
    changed. With --json the heads of all sessions are printed, too, which `eventlog verify
    --against` needs to name the change.
    """
    with reading(context) as store:
        head = store.head()
    output.answer(head.document(), head.digest, json=json)
