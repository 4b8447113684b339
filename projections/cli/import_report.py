"""The report of an import, as lines for people; `import` and `demo` print it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from projections.reports.wording import counted

if TYPE_CHECKING:
    from eventlog.importers import Report, Skipped

__all__ = ["report_lines"]

_NUMBERS = 8
"""How many line numbers are shown of records that were skipped for one reason."""


def report_lines(report: Report) -> list[str]:
    """Return what an import added and skipped, as lines."""
    ids = report.sessions
    sessions = f"session {ids[0]}" if len(ids) == 1 else counted(len(ids), "session")
    added = counted(report.events, "new event") if report.events else "nothing new"
    messages, parts = counted(report.messages, "message"), counted(report.parts, "part")
    lines = [f"{report.path}: {report.format}, {sessions}, {messages}, {parts}, {added}"]
    by_reason: dict[str, list[Skipped]] = {}
    for skipped in report.skipped:
        by_reason.setdefault(skipped.reason, []).append(skipped)
    for reason, records in by_reason.items():
        numbers = ", ".join(str(skipped.line) for skipped in records[:_NUMBERS])
        more = ", …" if len(records) > _NUMBERS else ""
        lines.append(f"  skipped {len(records)}: {reason} (line {numbers}{more})")
    return lines
