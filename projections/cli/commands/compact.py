"""`prune`, `compact` and `undo`: making the view smaller by hand, and taking that back.  All of it is events; nothing is lost."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any

import typer

from projections.cli import output
from projections.cli.exits import CompactionFault, UsageFault
from projections.cli.options import JSON, SESSION
from projections.cli.store_option import reading, session_of, writing
from projections.cli.summarizers import DIGEST, choose, watched
from projections.cli.window_options import (
    CONTEXT,
    INPUT,
    INSIDE,
    MODEL,
    OUTPUT,
    POLICY,
    PRESET,
    UNKNOWN,
    Given,
    window_of,
)
from projections.reports.wording import counted

if TYPE_CHECKING:
    from eventlog.values import Model
    from projections.window import CompactionResult, ContextWindow
    from projections.window.report import PrunePreview

__all__ = ["register"]

NOTHING = "there is nothing to compact: no message is older than those that stay in any case"


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("prune")(_prune)
    app.command("compact")(_compact)
    app.command("undo")(_undo)


# -- prune -------------------------------------------------------------------------------------


def _prune(
    context: typer.Context,
    session: SESSION,
    *,
    policy: POLICY = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be cleared.")] = False,
    inside: INSIDE = False,
    preset: PRESET = None,
    limit: CONTEXT = None,
    limit_output: OUTPUT = None,
    limit_input: INPUT = None,
    model: MODEL = None,
    json: JSON = False,
) -> None:
    """Clear old tool results from the view, if the policy finds that worth it.

    Their full outputs stay: `eventlog recall` reads them, `eventlog undo` brings them back into the view.
    """
    from projections.window.report import preview_prune

    with ExitStack() as stack:
        store = stack.enter_context(reading(context) if dry_run else writing(context))
        handle = session_of(store, session)
        found = window_of(handle, Given(preset, limit, limit_output, limit_input, model))
        before = found.tokens
        plan = preview_prune(found, policy=policy, inside=inside)
        if plan.parts and not dry_run:
            stack.enter_context(handle.lease())
            found.state.catch_up()  # what a dead owner left open is settled by now
            plan = preview_prune(found, policy=policy, inside=inside)
            found.prune(inside=inside, policy=policy)
            found.state.catch_up()
        if json:
            output.document(_pruned(found, plan, before, dry_run=dry_run))
        else:
            _print_pruned(found, plan, dry_run=dry_run)


def _pruned(window: ContextWindow, plan: PrunePreview, before: int, *, dry_run: bool) -> dict[str, Any]:
    names = ("id", "message", "tool", "title", "tokens")
    return {
        "session": window.session.id,
        "version": window.session.version,
        "dry_run": dry_run,
        "enabled": plan.enabled,
        "policy": plan.policy,
        "inside": plan.inside,
        "usable": window.state.usable,
        "freed": plan.freed,
        "tokens_before": before,
        "tokens_after": None if dry_run else window.tokens,
        "parts": [{name: getattr(part, name) for name in names} for part in plan.parts],
    }


def _print_pruned(window: ContextWindow, plan: PrunePreview, *, dry_run: bool) -> None:
    from projections.cli.commands.window import print_parts

    if not plan.enabled:
        output.line("pruning is switched off, by the context policy or by EVENTLOG_PRUNE")
        return
    if not plan.parts:
        because = f"; {UNKNOWN}" if window.state.limits is None else ""
        output.line(f"nothing is worth pruning by the policy {plan.policy}{because}")
        return
    print_parts(plan.parts)
    verb = "would be cleared" if dry_run else "cleared"
    after = "" if dry_run else f"; the next request has {counted(window.tokens, 'token')}"
    output.line(
        f"{counted(len(plan.parts), 'result')} of {counted(plan.freed, 'token')} {verb} by the policy {plan.policy}{after}"
    )


# -- compact -----------------------------------------------------------------------------------


def _compact(
    context: typer.Context,
    session: SESSION,
    *,
    summarizer: Annotated[
        str,
        typer.Option(
            "--summarizer",
            metavar="digest|URL",
            help="Who writes the summary: digest, which works offline, or the base address of an OpenAI-compatible "
            "endpoint, such as https://api.openai.com/v1.",
        ),
    ] = DIGEST,
    summary_model: Annotated[
        str | None,
        typer.Option("--summary-model", metavar="NAME", help="The endpoint's model [default: the session's]."),
    ] = None,
    api_key_env: Annotated[
        str | None,
        typer.Option(
            "--api-key-env",
            metavar="NAME",
            help="Environment variable with the endpoint's API key [default: OPENAI_API_KEY, if it is set].",
        ),
    ] = None,
    preset: PRESET = None,
    limit: CONTEXT = None,
    limit_output: OUTPUT = None,
    limit_input: INPUT = None,
    model: MODEL = None,
    json: JSON = False,
) -> None:
    """Let a summary stand for the older messages in the view, whatever the window holds.

    They stay in the session: `eventlog recall` reads them, `eventlog undo` brings them back into the view.  A compaction
    that fails changes nothing that the model sees, and ends with exit code 7 and its reason.
    """
    given = Given(preset, limit, limit_output, limit_input, model)
    with writing(context) as store:
        handle = session_of(store, session)
        looked = window_of(handle, given)
        chosen = choose(summarizer, summary_model, api_key_env, _model_of(looked))
        with output.progress(f"summarising {handle.id}", unit="characters") as told:
            writer = watched(chosen.summarizer, told)
            found = window_of(handle, given, summarizer=writer, summary_model=chosen.model)
            result = _compacted(found)
        if json:
            output.document(_outcome(found, result, "digest" if summarizer == DIGEST else "http"))
        elif result.completed:
            output.line(
                f"{counted(result.covered, 'message')} of {handle.id} covered by the summary {result.summary}: "
                f"{counted(result.tokens_before, 'token')} before, {result.tokens_after} after"
            )
    if not result.completed:
        raise CompactionFault(_failure(result.reason))


def _model_of(window: ContextWindow) -> Model | None:
    """The model of the session: as recorded or given, else the one of its newest message that has one."""
    messages = reversed(window.state.situation().state.messages.values())
    return window.state.model or next((message.model for message in messages if message.model is not None), None)


def _compacted(window: ContextWindow) -> CompactionResult:
    """Compact, unless there is nothing to compact: then nothing is written."""
    from projections.window.report import preview_compaction

    state = window.state.situation().state
    is_open = any(not message.user and message.finished is None for message in state.messages.values())
    if not is_open and preview_compaction(window) is None:
        raise UsageFault(NOTHING)
    with window.session.lease():
        window.state.catch_up()  # what a dead owner left open is settled by now
        if preview_compaction(window) is None:
            raise UsageFault(NOTHING)
        return window.compact()


def _outcome(window: ContextWindow, result: CompactionResult, summarizer: str) -> dict[str, Any]:
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
    "SummarizerError": "see that the endpoint answers, and run the command again",
    "SummarizerRefusedError": "check the address, the model and the API key",
    "RequestTooLargeError": "take a summary model with a larger window",
    "MessageTooLargeError": "take a summary model with a larger window, and give --context or --input",
    "view-too-large": "give a larger --context, or prune first",
    "sections-missing": "run the command again, or take another summary model",
    "empty": "run the command again, or take another summary model",
    "tool-called": "take another summary model",
    "aborted": "run the command again",
}


def _failure(reason: str) -> str:
    name = reason.partition(":")[0]
    advice = _ADVICE.get(name, "run the command again, or take --summarizer digest")
    return f"the compaction failed ({reason}), and what the model sees is as it was; {advice}"


# -- undo --------------------------------------------------------------------------------------


def _undo(context: typer.Context, session: SESSION, *, json: JSON = False) -> None:
    """Take back the newest prune, compaction or rollback that is in force.

    A loop that finds the window full may prune or compact again; EVENTLOG_PRUNE=0 and EVENTLOG_AUTO_COMPACT=0 keep it from that.
    """
    with writing(context) as store:
        window = window_of(session_of(store, session))
        undone = window.undo()
        window.state.catch_up()
        if json:
            found = {
                "session": window.session.id,
                "version": window.session.version,
                "undone": undone,
                "messages": len(window.view().messages),
                "tokens": window.tokens,
            }
            output.document(found)
        else:
            output.line(f"the newest {undone} is undone: the next request has {counted(window.tokens, 'token')}")
