"""Sections of summaries by other programs, found by the headings of coding agents.

The offline summariser looks for the template's own sections first, then for these, so that an
imported session that was summarised before keeps its goal, its files and its next steps.  Pure.
"""

from __future__ import annotations

import re

__all__ = ["foreign_sections"]

_OURS = {
    "accomplished": "Done",
    "active": "In Progress",
    "all user messages": "Constraints & Preferences",
    "completed": "Done",
    "current work": "In Progress",
    "decisions": "Key Decisions",
    "discoveries": "Critical Context",
    "errors and fixes": "Critical Context",
    "files and code sections": "Relevant Files",
    "instructions": "Constraints & Preferences",
    "key technical concepts": "Critical Context",
    "next move": "Next Steps",
    "objective": "Goal",
    "optional next step": "Next Steps",
    "pending tasks": "Next Steps",
    "primary request and intent": "Goal",
    "problem solving": "Critical Context",
    "relevant files / directories": "Relevant Files",
    "requirements": "Constraints & Preferences",
}
"""Other names of a section, and where it belongs in the template."""

_MARK = re.compile(r"\s*(?:#{1,6}\s+)?(?:\d{1,2}[.)]\s+)?")
_FENCE = "```"


def foreign_sections(text: str) -> dict[str, str]:
    """Return the text below each known heading, under the template's name for it.

    Text before the first heading, and code, are left out.

    A heading may be numbered, bold, or followed by its text on the same line. Two that belong to
    one section follow one another.
    """
    found: dict[str, list[str]] = {}
    body: list[str] | None = None
    fenced = False
    for line in text.splitlines():
        if line.lstrip().startswith(_FENCE):
            fenced = not fenced
        elif not fenced:
            name, rest = _section(line)
            if name:
                body = found.setdefault(name, [])
            if body is not None:
                body.append(rest)
    return {name: "\n".join(lines).strip() for name, lines in found.items()}


def _section(line: str) -> tuple[str, str]:
    """The section that a line begins, "" if it begins none, and what else it says."""
    words, _, rest = _MARK.sub("", line, count=1).partition(":")
    name = _OURS.get(words.strip("* ").casefold(), "")
    return (name, rest.strip("* ")) if name else ("", line)
