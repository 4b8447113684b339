"""The guard: which summaries may replace what they cover."""

from __future__ import annotations

import pytest

from projections.window.compaction.guard import check_summary
from projections.window.compaction.template import SECTIONS, TEMPLATE
from projections.window.policy import DEFAULT_POLICY, OPENCODE_POLICY

POLICY = DEFAULT_POLICY.compaction


def test_whole_summary_may_stand() -> None:
    """A summary with all sections, no tool call, and room left is accepted."""
    assert check_summary(TEMPLATE, POLICY, view_tokens_after=999, usable=1000) is None


@pytest.mark.parametrize("text", ["", " \n\t"])
def test_empty_summary(text: str) -> None:
    """An empty summary fails in every preset."""
    for policy in (POLICY, OPENCODE_POLICY.compaction):
        assert check_summary(text, policy) == "empty"


@pytest.mark.parametrize("name", [name for _, name, _ in SECTIONS])
def test_summary_without_a_section(name: str) -> None:
    """A summary that lacks a section fails by its name, unless sections are not required."""
    text = TEMPLATE.replace(f"# {name}\n", "# Something else\n")
    assert check_summary(text, POLICY) == f"sections-missing: {name}"
    assert check_summary(text, OPENCODE_POLICY.compaction) is None


def test_tool_call() -> None:
    """A summary with a tool call fails, also with text or without a name."""
    assert check_summary(TEMPLATE, POLICY, tool_called="bash") == "tool-called: bash"
    assert check_summary(TEMPLATE, POLICY, tool_called="") == "tool-called"


def test_view_still_too_large() -> None:
    """A summary that leaves the view at or over usable fails; unlimited windows never do."""
    assert check_summary(TEMPLATE, POLICY, view_tokens_after=1000, usable=1000) == (
        "view-too-large: 1000 tokens, 1000 usable"
    )
    assert check_summary(TEMPLATE, POLICY, view_tokens_after=10**9, usable=None) is None
