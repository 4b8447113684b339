"""`prune` and `compact`: take content out of the view, which `undo` returns."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from projections.cli import output
from projections.cli.exits import Exit, Fault
from projections.cli.store_option import writing_session
from projections.cli.tables import print_parts
from projections.cli.window_options import INSIDE, POLICY, UNKNOWN, WINDOW, window_of
from projections.cli.words import DRY_RUN, command
from projections.reports.wording import counted, policy_named, pruned_words

if TYPE_CHECKING:
    from eventlog import Session
    from projections.loop import CompactionResult, ContextWindow
    from projections.loop.context.report import PrunePreview

_NOTHING = "there is nothing to compact: no message is older than those that always stay"
_ADVICE = {
    "MessageTooLargeError": "give --context or --input",
    "view-too-large": "give a larger --context, or prune first",
}
"""Advice for a compaction that failed, by its reason."""


@command(writing_session)
@POLICY
@DRY_RUN
@INSIDE
@WINDOW
def prune(session: Session, *, policy: str | None, dry_run: bool, inside: bool, json: bool, **options: Any) -> None:
    """Clear old content from the view where that is worth it.

    Old results, large arguments, thoughts and media stay in the session: `eventlog recall` prints
    them, `eventlog undo` returns them to the view.
    """
    from projections.loop.context.report import preview_prune

    window = window_of(session, **options)
    before = window.tokens
    plan = preview_prune(window, policy=policy, inside=inside, words=True)
    changes = bool(plan.parts) and not dry_run
    with session.lease() if changes else nullcontext():
        if changes:
            window.state.catch_up()  # the lease has settled what a dead owner left open
            plan = preview_prune(window, policy=policy, inside=inside, words=True)
            window.prune(inside=inside, policy=policy)
            window.state.catch_up()
        if json:
            output.document(_pruned(window, plan, before, dry_run=dry_run))
        else:
            _print_plan(window, plan, dry_run=dry_run)


def _pruned(window: ContextWindow, plan: PrunePreview, before: int, *, dry_run: bool) -> dict[str, Any]:
    names = "id", "message", "kind", "tool", "title", "tokens"
    return {
        "session": window.session.id,
        "version": window.session.version,
        "dry_run": dry_run,
        **output.fields(plan, "enabled", "policy", "inside"),
        "usable": window.state.usable,
        "freed": plan.freed,
        "tokens_before": before,
        "tokens_after": None if dry_run else window.tokens,
        "parts": [output.fields(part, *names) for part in plan.parts],
    }


def _print_plan(window: ContextWindow, plan: PrunePreview, *, dry_run: bool) -> None:
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
    calls = sum(part.kind == "arguments" for part in plan.parts)
    words, tokens = pruned_words(len(plan.parts) - calls, calls), counted(plan.freed, "token")
    marker = "a marker takes the place of each"
    output.line(f"{words} {verb}, {policy_named(plan.policy)}: {tokens} freed, as {marker}{after}")


@command(writing_session)
@WINDOW
def compact(session: Session, *, json: bool, **options: Any) -> None:
    """Replace the older messages in the view by a summary.

    This is done however full the window is, and without a model: the summary is a digest. The
    messages stay in the session: `eventlog recall` prints them, `eventlog undo` returns them to the
    view. A compaction that fails leaves the view as it was, and ends with exit code 7 and the
    reason.
    """
    window = window_of(session, **options)
    result = _compact(window)
    document = {
        "session": session.id,
        "version": session.version,
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
    line = (
        f"{counted(result.covered, 'message')} of {session.id} covered by the summary {result.summary}: "
        f"{counted(result.tokens_before, 'token')} before, {result.tokens_after} after"
    )
    output.answer(document, *([line] if result.completed else []), json=json)
    if not result.completed:
        advice = _ADVICE.get(result.reason.partition(":")[0], "run the command again")
        raise Fault(
            f"the compaction failed ({result.reason}), and what the model sees is as it was; {advice}",
            Exit.COMPACTION,
        )


def _compact(window: ContextWindow) -> CompactionResult:
    """Compact; writes nothing if there is nothing to compact."""
    from projections.loop.context.report import preview_compaction

    state = window.state.situation().state
    is_open = any(not message.user and message.finished is None for message in state.messages.values())
    if not is_open and preview_compaction(window) is None:
        raise Fault(_NOTHING)
    with window.session.lease():
        window.state.catch_up()  # the lease has settled what a dead owner left open
        if preview_compaction(window) is None:
            raise Fault(_NOTHING)
        return window.compact()
