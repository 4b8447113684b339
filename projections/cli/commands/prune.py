"""`prune`: clear old results, arguments, thoughts and media from the view."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from projections.cli import output
from projections.cli.options import DRY_RUN, JSON, SESSION
from projections.cli.part_table import print_parts
from projections.cli.store_option import reading_session, writing_session
from projections.cli.window_options import (
    INSIDE,
    POLICY,
    UNKNOWN,
    WINDOW,
    WindowOptions,
    window_of,
)
from projections.cli.words import Context, command
from projections.reports.wording import counted, policy_named, pruned_words

if TYPE_CHECKING:
    from projections.loop import ContextWindow
    from projections.loop.context.report import PrunePreview


@command
@SESSION
@POLICY
@DRY_RUN
@INSIDE
@WINDOW
@JSON
def run(
    context: Context, /, session: str, *, policy: str | None, dry_run: bool, inside: bool, json: bool, **window: Any
) -> None:
    """Clear old content from the view where that is worth it.

    Old results, large arguments, thoughts and media stay in the session: `eventlog recall` prints
    them, `eventlog undo` returns them to the view.
    """
    from projections.loop.context.report import preview_prune

    with ExitStack() as stack:
        handle = stack.enter_context((reading_session if dry_run else writing_session)(context, session))
        pruning = window_of(handle, WindowOptions(**window))
        before = pruning.tokens
        plan = preview_prune(pruning, policy=policy, inside=inside, words=True)
        if plan.parts and not dry_run:
            stack.enter_context(handle.lease())
            pruning.state.catch_up()  # the lease has settled what a dead owner left open
            plan = preview_prune(pruning, policy=policy, inside=inside, words=True)
            pruning.prune(inside=inside, policy=policy)
            pruning.state.catch_up()
        if json:
            output.document(_document(pruning, plan, before, dry_run=dry_run))
        else:
            _print(pruning, plan, dry_run=dry_run)


def _document(window: ContextWindow, plan: PrunePreview, before: int, *, dry_run: bool) -> dict[str, Any]:
    names = ("id", "message", "kind", "tool", "title", "tokens")
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


def _print(window: ContextWindow, plan: PrunePreview, *, dry_run: bool) -> None:
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
