"""Which summaries may stand for what they cover, and which are asked for once more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import eventlog
from eventlog.session.session import Session
from projections import ModelView
from projections.loop import ContextWindow
from projections.loop.context.summary_run import check_summary, is_thin
from projections.reports.audit import audit
from projections.window import Hooks, SummaryRequest
from projections.window.compaction.template import SECTIONS, TEMPLATE, missing_sections, sections_of
from tests.support.window_loop import LIMITS, MODEL, SMALL, sections, talk, texts

NAMES = [name for _, name, _ in SECTIONS]
CHINESE = (
    "# 目标\n- 修好解析器\n# 约束\n- 用中文回答\n# 进展\n- 已完成词法分析\n# 下一步\n- 测试语法分析和错误信息\n" * 3
)
OPENCODE = "## Objective\n- g\n\n## Requirements\n- (none)\n\n## Work State\n### Completed\n- d\n\n## Next Move\n1. n\n"


@pytest.fixture
def session() -> Iterator[Session]:
    """A session with some turns in it."""
    with eventlog.open("memory:") as store:
        found = store.create_session()
        talk(found, 6)
        yield found


def compacted(session: Session, answers: list[str], **options: Any) -> tuple[str, list[SummaryRequest]]:
    """Compact with a summariser that gives these answers; returns the reason and the requests."""
    asked: list[SummaryRequest] = []

    def summarizer(request: SummaryRequest) -> str:
        asked.append(request)
        return answers[len(asked) - 1]

    policy = options.pop("policy", SMALL)
    window = ContextWindow(
        session, policy, model=MODEL, limits=LIMITS, summarizer=summarizer, environment={}, **options
    )
    return window.compact().reason, asked


def summary_of(session: Session) -> str:
    """The summary in the view."""
    return texts(ModelView.of(session).messages, "assistant")[0]


def test_whole_summary_may_stand() -> None:
    """A summary with all sections, no tool call, and room left is accepted."""
    assert check_summary(TEMPLATE, view_tokens_after=999, limit=1000) is None


@pytest.mark.parametrize("text", ["", " \n\t"])
def test_empty_summary(text: str) -> None:
    """An empty summary fails, and is not asked for again."""
    assert check_summary(text) == "empty"
    assert not is_thin(text, 0, 10_000)


def test_tool_call() -> None:
    """A tool call is a failure, with or without text, also one without a name."""
    assert check_summary(TEMPLATE, tool_called="bash") == "tool-called: bash"
    assert check_summary(TEMPLATE, tool_called="") == "tool-called"


def test_view_still_too_large() -> None:
    """A summary that leaves the view too large to go on is a failure."""
    assert (
        check_summary(TEMPLATE, view_tokens_after=1000, limit=1000)
        == "view-too-large: 1000 tokens, and a request has fewer than 1000"
    )
    assert check_summary(TEMPLATE, view_tokens_after=10**9, limit=None) is None


@pytest.mark.parametrize(
    "text",
    [
        *(sections().replace(f"# {name}\n", "# Something else\n") for name in NAMES),
        "**Goal**\n- g",
        "__Goal:__\ng",
        "## goal ##\ng",
        CHINESE,
        OPENCODE,
        "The user asked to fix the parser. " * 27,
    ],
)
def test_headings_are_no_reason_to_refuse_a_summary(session: Session, text: str) -> None:
    """One known heading, or a length that fits what is covered, is enough in any language."""
    reason, asked = compacted(session, [text])
    assert (reason, len(asked)) == ("", 1)
    assert summary_of(session).startswith(text.strip())


def test_a_section_that_was_left_out_is_there_as_none(session: Session) -> None:
    """A summary with some of the headings gets the others, so that the next one finds them."""
    assert compacted(session, ["## Goal\n- g\n\n## Next Steps\n- n\n"])[0] == ""
    found = sections_of(summary_of(session))
    assert missing_sections(summary_of(session)) == ()
    assert (found["Goal"], found["Next Steps"], found["Key Decisions"]) == ("- g", "- n", "- (none)")


@pytest.mark.parametrize("second", ["ok", sections("said in full")])
def test_a_summary_that_is_too_thin_is_asked_for_once_more_and_taken(session: Session, second: str) -> None:
    """The second request names what is missing and is recorded; its answer is taken."""
    reason, asked = compacted(session, ["ok", second])
    assert (reason, len(asked)) == ("", 2)
    assert asked[1].messages == asked[0].messages
    assert asked[1].prompt.startswith(asked[0].prompt)
    assert all(name in asked[1].prompt.removeprefix(asked[0].prompt) for name in NAMES)
    assert summary_of(session).strip() == second.strip()
    steps = [step for step in audit(session) if step.purpose == "summary"]
    assert [step.verdict for step in steps] == ["match", "match"]


def test_a_second_answer_is_judged_like_any_other(session: Session) -> None:
    """An empty second answer is a failed compaction."""
    assert compacted(session, ["ok", ""])[0] == "empty"


@pytest.mark.parametrize("case", ["policy", "prompt"])
def test_a_word_is_taken_where_no_sections_are_wanted(session: Session, case: str) -> None:
    """With sections switched off, or a prompt of its own, a word is taken as it is."""
    options: dict[str, Any] = {"hooks": Hooks(prompt=lambda _template: "Be brief.")}
    if case == "policy":
        options = {"policy": "opencode-1.18"}
    reason, asked = compacted(session, ["ok"], **options)
    assert (reason, len(asked)) == ("", 1)
    assert summary_of(session).strip() == "ok"
