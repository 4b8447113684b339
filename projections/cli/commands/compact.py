"""`compact`: replace older messages by a summary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from click import option

from projections.cli import output
from projections.cli.exits import CompactionFault, UsageFault
from projections.cli.options import JSON, SESSION
from projections.cli.store_option import writing_session
from projections.cli.summarizers import DIGEST, choose_summarizer, with_progress
from projections.cli.window_options import WINDOW, WindowOptions, window_of
from projections.cli.words import Context, command
from projections.reports.wording import counted

if TYPE_CHECKING:
    from eventlog.values import Model
    from projections.loop import CompactionResult, ContextWindow

__all__ = ["run"]

NOTHING = "there is nothing to compact: no message is older than those that always stay"


@command
@SESSION
@option(
    "--summarizer",
    default=DIGEST,
    metavar="digest|URL",
    help="Who writes the summary: digest, which works offline, or the base address of an OpenAI-compatible "
    "endpoint, such as https://api.openai.com/v1.",
)
@option("--summary-model", metavar="NAME", help="The endpoint's model [default: the session's].")
@option(
    "--api-key-env",
    metavar="NAME",
    help="Environment variable with the endpoint's API key [default: OPENAI_API_KEY, if it is set].",
)
@WINDOW
@JSON
def run(
    context: Context,
    /,
    session: str,
    *,
    summarizer: str,
    summary_model: str | None,
    api_key_env: str | None,
    json: bool,
    **window: Any,
) -> None:
    """Replace the older messages in the view by a summary.

    This is done however full the window is. The messages stay in the session: `eventlog recall`
    prints them, `eventlog undo` returns them to the view. A compaction that fails leaves the view
    as it was, and ends with exit code 7 and the reason.
    """
    with writing_session(context, session) as handle:
        choice = choose_summarizer(
            summarizer, summary_model, api_key_env, _session_model(window_of(handle, WindowOptions(**window)))
        )
        with output.progress(f"summarising {handle.id}", unit="characters") as on_progress:
            writer = with_progress(choice.summarizer, on_progress)
            compacting = window_of(handle, WindowOptions(**window), summarizer=writer, summary_model=choice.model)
            result = _compact(compacting)
        if json or result.completed:
            output.answer(
                _document(compacting, result, "digest" if summarizer == DIGEST else "http"),
                f"{counted(result.covered, 'message')} of {handle.id} covered by the summary {result.summary}: "
                f"{counted(result.tokens_before, 'token')} before, {result.tokens_after} after",
                json=json,
            )
    if not result.completed:
        raise CompactionFault(_failure(result.reason))


def _session_model(window: ContextWindow) -> Model | None:
    """Return the model of the window, else that of the newest message that has one."""
    messages = reversed(window.state.situation().state.messages.values())
    return window.state.model or next((message.model for message in messages if message.model is not None), None)


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


def _document(window: ContextWindow, result: CompactionResult, summarizer: str) -> dict[str, Any]:
    return {
        "session": window.session.id,
        "version": window.session.version,
        "completed": result.completed,
        "reason": result.reason,
        "compaction": result.part,
        "summary": result.summary,
        "covered": result.covered,
        "requests": result.requests,
        "summarizer": summarizer,
        "usable": window.state.usable,
        "tokens_before": result.tokens_before,
        "tokens_after": result.tokens_after if result.completed else None,
    }


_ADVICE = {
    "SummarizerError": "check that the endpoint answers, and run the command again",
    "SummarizerRefusedError": "check the address, the model and the API key",
    "RequestTooLargeError": "take a summary model with a larger window",
    "MessageTooLargeError": "take a summary model with a larger window, and give --context or --input",
    "view-too-large": "give a larger --context, or prune first",
    "empty": "run the command again, or take another summary model",
    "tool-called": "take another summary model",
    "aborted": "run the command again",
}


def _failure(reason: str) -> str:
    name = reason.partition(":")[0]
    advice = _ADVICE.get(name, "run the command again, or take --summarizer digest")
    return f"the compaction failed ({reason}), and what the model sees is as it was; {advice}"
