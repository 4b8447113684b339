"""`undo`: undo the newest prune, compaction or rollback."""

from __future__ import annotations

from projections.cli import output
from projections.cli.options import JSON, SESSION
from projections.cli.store_option import writing_session
from projections.cli.window_options import window_of
from projections.cli.words import Context, command
from projections.reports.wording import counted


@command
@SESSION
@JSON
def run(context: Context, session: str, *, json: bool) -> None:
    """Undo the newest prune, compaction or rollback in force.

    A loop that finds the window full may prune or compact again, unless EVENTLOG_PRUNE=0 and
    EVENTLOG_AUTO_COMPACT=0 are set.
    """
    with writing_session(context, session) as handle:
        window = window_of(handle)
        undone = window.undo()
        window.state.catch_up()
        tokens = window.tokens
        document = {
            "session": handle.id,
            "version": handle.version,
            "undone": undone,
            "messages": len(window.view().messages),
            "tokens": tokens,
        }
    request = counted(tokens, "token")
    output.answer(document, f"the newest {undone} is undone: the next request has {request}", json=json)
