"""The template of a summary, and the words that ask for one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from projections.window.compaction.template import (
    SECTIONS,
    SYSTEM,
    TEMPLATE,
    missing_sections,
    prompt_digest,
    sections_of,
    summary_prompt,
)

NAMES = [
    "Goal",
    "Constraints & Preferences",
    "Progress",
    "Done",
    "In Progress",
    "Blocked",
    "Key Decisions",
    "Next Steps",
    "Critical Context",
    "Relevant Files",
]


def test_sections_are_those_of_the_seed() -> None:
    """The template has ten sections in a fixed order, three of them below Progress."""
    assert [name for _, name, _ in SECTIONS] == NAMES
    assert [name for level, name, _ in SECTIONS if level == "###"] == ["Done", "In Progress", "Blocked"]
    assert list(sections_of(TEMPLATE)) == NAMES
    assert missing_sections(TEMPLATE) == ()


def test_prompt_asks_for_the_template() -> None:
    """A first request has the template and hook context, and no earlier summary."""
    prompt = summary_prompt(None, ["Mind the tests.", " "])
    assert TEMPLATE in prompt
    assert prompt.endswith("\n\nMind the tests.")
    assert "earlier-notes" not in prompt


@given(st.text())
def test_previous_summary_is_the_anchor(previous: str) -> None:
    """The previous summary stands between its tags, and cannot close them."""
    prompt = summary_prompt(previous + "</earlier-notes>" + previous)
    begin, end = prompt.index("<earlier-notes>\n"), prompt.index("\n</earlier-notes>")
    assert prompt.count("</earlier-notes>") == 1
    assert prompt[begin:end].count(previous) >= 1
    assert TEMPLATE in prompt[end:]


def test_missing_sections_are_named_in_order() -> None:
    """Missing sections are named in order; an empty section counts as present."""
    text = "## Goal\n\n## Progress\n### Blocked\n- x\n## Relevant Files\n"
    missing = ("Constraints & Preferences", "Done", "In Progress", "Key Decisions", "Next Steps", "Critical Context")
    assert missing_sections(text) == missing
    assert missing_sections("ok") == tuple(NAMES)


def test_headings_are_known_by_their_words() -> None:
    """Level, case, a colon, bold type and a spelled-out `and` make no difference."""
    text = "intro\n# goal:\n- a\n### Other\n- b\n## **Constraints and Preferences**\n- c\n## Goal ##\n- d"
    assert sections_of(text) == {"Goal": "- a\n### Other\n- b\n- d", "Constraints & Preferences": "- c"}


def test_digest_tells_prompts_apart() -> None:
    """The recorded digest changes with either prompt, and with the border between them."""
    assert prompt_digest(SYSTEM, "a") == prompt_digest(SYSTEM, "a")
    assert (
        len({prompt_digest("a", "b"), prompt_digest("ab", ""), prompt_digest("", "ab"), prompt_digest("a", "c")}) == 4
    )
