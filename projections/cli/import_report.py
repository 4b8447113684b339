"""The report of an import, as lines for people; `import` and `demo` print it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from projections.reports.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from eventlog.importers import Report, Skipped

_NUMBERS = 8
"""How many line numbers are shown of records that were skipped for one reason."""


_NAMES = 2
"""How many names are shown of files that were refused for one reason."""


def refusal_lines(refused: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield a line for each reason for which files were refused, the most frequent first."""
    for reason, paths in sorted(refused.items(), key=lambda item: -len(item[1])):
        if len(paths) == 1:
            yield f"{paths[0]}: {reason}"
        else:
            names = [path.rpartition("/")[2] for path in paths[:_NAMES]]
            more = ", …" if len(paths) > _NAMES else ""
            yield f"{counted(len(paths), 'file')}: {reason} ({', '.join(names)}{more})"


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
