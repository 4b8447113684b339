"""`compact`: replace older messages by a summary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from projections.cli import output
from projections.cli.exits import CompactionFault, UsageFault
from projections.cli.options import JSON, SESSION
from projections.cli.store_option import writing_session
from projections.cli.window_options import WINDOW, WindowOptions, window_of
from projections.cli.words import Context, command
from projections.reports.wording import counted

if TYPE_CHECKING:
    from projections.loop import CompactionResult, ContextWindow

NOTHING = "there is nothing to compact: no message is older than those that always stay"


@command
@SESSION
@WINDOW
@JSON
def run(
    context: Context,
    /,
    session: str,
    *,
    json: bool,
    **window: Any,
) -> None:
    """Replace the older messages in the view by a summary.

    This is done however full the window is, and without a model: the summary is a digest. The
    messages stay in the session: `eventlog recall` prints them, `eventlog undo` returns them to the
    view. A compaction that fails leaves the view as it was, and ends with exit code 7 and the
    reason.
    """
    with writing_session(context, session) as handle:
        compacting = window_of(handle, WindowOptions(**window))
        result = _compact(compacting)
        if json or result.completed:
            output.answer(
                _document(compacting, result),
                f"{counted(result.covered, 'message')} of {handle.id} covered by the summary {result.summary}: "
                f"{counted(result.tokens_before, 'token')} before, {result.tokens_after} after",
                json=json,
            )
    if not result.completed:
        raise CompactionFault(_failure(result.reason))


def _compact(window: ContextWindow) -> CompactionResult:
    """Compact; writes nothing if there is nothing to compact."""
    from projections.loop.context.report import preview_compaction

    state = window.state.situation().state
    is_open = any(not message.user and message.finished is None for message in state.messages.values())
    if not is_open and preview_compaction(window) is None:
        raise UsageFault(NOTHING)
    with window.session.lease():
        window.state.catch_up()  # the lease has settled what a dead owner left open
        if preview_compaction(window) is None:
            raise UsageFault(NOTHING)
        return window.compact()


def _document(window: ContextWindow, result: CompactionResult) -> dict[str, Any]:
    return {
        "session": window.session.id,
        "version": window.session.version,
        "completed": result.completed,
        "reason": result.reason,
        "compaction": result.part,
        "summary": result.summary,
        "covered": result.covered,
        "requests": result.requests,
        "usable": window.state.usable,
        "tokens_before": result.tokens_before,
        "tokens_after": result.tokens_after if result.completed else None,
    }


_ADVICE = {
    "MessageTooLargeError": "give --context or --input",
    "view-too-large": "give a larger --context, or prune first",
}


def _failure(reason: str) -> str:
    advice = _ADVICE.get(reason.partition(":")[0], "run the command again")
    return f"the compaction failed ({reason}), and what the model sees is as it was; {advice}"
