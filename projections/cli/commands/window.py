"""`window`: show what fills the context window and what would leave it next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from projections.cli import output
from projections.cli.amounts import bar, number
from projections.cli.screen import is_terminal
from projections.cli.short_ids import ShortIds
from projections.cli.store_option import reading_session
from projections.cli.tables import print_parts
from projections.cli.window_options import INSIDE, POLICY, UNKNOWN, WINDOW, window_of
from projections.cli.words import command, integer
from projections.reports.wording import KIND_NAMES, cache_words, counted, pruned_words

if TYPE_CHECKING:
    from eventlog import Session
    from projections.loop.context.report import WindowReport


@command(reading_session, pages=True)
@WINDOW
@POLICY
@INSIDE
@integer("--top", default=10, help="List the N largest messages and parts.")
def window(session: Session, *, policy: str | None, inside: bool, top: int, json: bool, **options: Any) -> None:
    """Show what fills the context window and what would leave it next.

    Prints tokens by kind, tool, message and part, the next prune and compaction, and earlier ones;
    changes nothing. The sizes of the request and of what would leave it are corrected by what the
    provider reported for earlier requests; all other sizes are as counted.
    """
    from projections.loop.context.report import window_report

    report = window_report(window_of(session, **options), largest=top, policy=policy, inside=inside, words=True)
    if json:
        output.document(report.as_json())
    else:
        _print(report)


def _print(report: WindowReport) -> None:
    _print_size(report)
    _print_kinds(report)
    output.gap()
    if report.tools:
        columns = ["tool", "calls", "pruned", "input", "results", "attachments", "tokens"]
        rows = [[tool.tool, *(number(getattr(tool, name)) for name in columns[1:])] for tool in report.tools]
        output.table(columns, rows, numbers=columns[1:])
    if report.largest_messages:
        output.gap()
        short = ShortIds(message.id for message in report.largest_messages)
        largest = [
            (short.cell(message.id), message.role, message.words, number(message.tokens))
            for message in report.largest_messages
        ]
        output.table(
            ["message", "role", "words", "tokens"],
            largest,
            numbers=["tokens"],
            flexible=["words"],
        )
        output.gap()
        print_parts(report.largest_parts)
        output.gap()
    for line in (*_next(report), *_past(report), *_cache(report), *_calibrations(report)):
        output.line(line)


def _print_size(report: WindowReport) -> None:
    limits = report.limits
    if report.usable is None:
        of = "of an unlimited window" if limits is not None else f"({UNKNOWN})"
    else:
        share = f", {100 * report.tokens / report.usable:.1f} %" if report.usable else ""
        share += ", overflow" if report.tokens >= report.usable else ""
        of = f"of {report.usable:,} usable{share}"
    output.heading(f"{report.session}: {report.tokens:,} tokens {of}")
    model = report.model or "no model"
    output.line(
        f"{counted(report.messages, 'message')} of the view, version {report.version}, {model}, {report.preset}, {report.counter}"
    )


def _print_kinds(report: WindowReport) -> None:
    """Print the tokens by kind; on a terminal with bars, free room included."""
    kinds = {words: getattr(report.kinds, name) for name, words in KIND_NAMES.items()}
    kinds["not in the session, as the provider counts"] = max(0, report.tokens - report.counted)
    if not is_terminal():
        output.table(["kind", "tokens"], kinds.items())
        return
    kinds["free"] = max(0, (report.usable or 0) - max(report.tokens, report.counted))
    whole = sum(kinds.values())
    rows = [
        (name, number(tokens), f"{100 * tokens / whole:.1f} %", bar(tokens / whole, 24))
        for name, tokens in kinds.items()
        if tokens
    ]
    columns = ["kind", "tokens", "share", "bar"]
    output.table(columns, rows, numbers=["tokens", "share"], flexible=["kind"], optional=["bar"])


# -- next and past -----------------------------------------------------------------------------


def _next(report: WindowReport) -> list[str]:
    step = report.next_step
    return [
        f"next step: {step.step}" + (f" ({step.reason})" if step.reason else ""),
        _next_prune(report),
        _next_compaction(report),
    ]


def _next_prune(report: WindowReport) -> str:
    plan = report.prune
    if not plan.enabled:
        return "next prune: switched off"
    if not plan.parts:
        return f"next prune ({plan.policy}): nothing that is worth it"
    parts, calls = ([part for part in plan.parts if (part.kind == "arguments") == are] for are in (False, True))
    tools = sorted({part.tool or part.kind for part in plan.parts})
    words = pruned_words(len(parts), len(calls))
    return f"next prune ({plan.policy}): {words} ({', '.join(tools)}), frees {plan.freed:,} tokens"


def _next_compaction(report: WindowReport) -> str:
    plan = report.compaction
    auto = "" if report.auto else " (automatic compaction is switched off)"
    if plan is None:
        return f"next compaction: nothing to compact{auto}"
    requested = "requested: " if plan.pending is not None else ""
    tail = (
        f"{counted(plan.tail_messages, 'message')} of {plan.tail_tokens:,} tokens" if plan.tail is not None else "none"
    )
    pinned = f", kept before it {', '.join(plan.kept)}" if plan.kept else ""
    update = ", its earlier summary brought up to date" if plan.updates else ""
    covers = f"{counted(plan.messages, 'message')} of {plan.tokens:,} tokens"
    return f"next compaction: {requested}summary of {covers}{update}; {tail} stay{pinned}{auto}"


def _past(report: WindowReport) -> list[str]:
    lines: list[str] = []
    short = ShortIds(part for change in report.changes for part in change.parts)
    for change in report.changes:
        if change.kind == "prune":
            freed = f", {change.freed:,} tokens freed" if change.freed else ""
            words = pruned_words(len(change.parts), len(change.arguments), change.policy)
            lines.append(f"pruned at version {change.version}: {words}{freed}")
        else:
            after = f", {change.tokens_after:,} tokens after it" if change.tokens_after is not None else ""
            name = short.of(change.parts[0]) if is_terminal() else change.parts[0]
            lines.append(f"compacted at version {change.version}: compaction {name}{after}")
    for failure in report.failures:
        kind = "automatic compaction" if failure.auto else "compaction"
        lines.append(f"{kind} failed at version {failure.version} ({failure.reason})")
    return lines


def _cache(report: WindowReport) -> list[str]:
    return [] if report.cache is None else [f"newest step: {cache_words(report.cache)}"]


def _calibrations(report: WindowReport) -> list[str]:
    return [
        f"{entry.model or 'unnamed model'}: the last request counted {entry.counted}, reported {entry.reported}, "
        f"{entry.ratio} reported for one more"
        for entry in report.calibration
    ]
