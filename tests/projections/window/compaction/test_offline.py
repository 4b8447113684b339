"""The offline summariser: deterministic, bounded, in any language, merged without growing."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.values import Todo
from projections.loop.context.summary_run import check_summary
from projections.tokens.counter import TokenCounter
from projections.view.neutral import Call, NeutralMessage, Result, Text
from projections.window.compaction.offline import ROOM, summarize_offline
from projections.window.compaction.request import SummaryFacts, SummaryRequest
from projections.window.compaction.template import missing_sections, sections_of

PLAIN = SummaryFacts()
MOST_BYTES = sum(ROOM.values()) + 400


def user(text: str, source: str = "u") -> NeutralMessage:
    """Return a user's message."""
    return NeutralMessage("user", (Text(text),), source)


def said(text: str) -> NeutralMessage:
    """Return an assistant's message."""
    return NeutralMessage("assistant", (Text(text),), "a")


def called(tool: str, input: str, output: str, *, error: bool = False) -> list[NeutralMessage]:
    """A call and its result."""
    call = NeutralMessage("assistant", (Call("c", tool, input),), "a")
    return [call, NeutralMessage("tool", (Result("c", tool, output, error),), "a")]


def summary(*messages: NeutralMessage, previous: str | None = None, facts: SummaryFacts = PLAIN) -> str:
    """The digest of some messages."""
    return summarize_offline(SummaryRequest("", messages, "", previous=previous, facts=facts))


TALK = (
    user("Fix the failing test in the parser"),
    *called("read", '{"filePath":"src/parser.py"}', "def parse(): ..."),
    *called("bash", '{"command":"pytest -q"}', "1 failed: test_empty", error=True),
    *called("edit", '{"filePath":"src/parser.py","oldString":"a","newString":"b"}', "edited"),
    said("The parser now accepts empty input."),
    user("Never touch the public API"),
    user("Now write a test for it"),
)


def test_fills_the_template() -> None:
    """Goal, wishes, calls, errors, answers and files stand in sections; empty ones say so."""
    found = sections_of(summary(*TALK))
    assert found["Goal"] == "- Fix the failing test in the parser\n- Newest request: Now write a test for it"
    assert found["Constraints & Preferences"] == "- Never touch the public API"
    assert "- `bash`: 1 call, 1 failed; last `pytest -q`" in found["Done"]
    assert found["Blocked"] == "- `bash` `pytest -q`: 1 failed: test_empty"
    assert found["In Progress"] == "- Not answered yet: Now write a test for it"
    assert found["Critical Context"] == "- Last answer: The parser now accepts empty input."
    assert found["Relevant Files"] == "- `src/parser.py`: read, written"
    assert found["Key Decisions"] == "- (none)"


def test_passes_the_guard() -> None:
    """The digest of any or no messages passes the guard."""
    for text in (summary(), summary(*TALK), summary(user(""), said(""))):
        assert check_summary(text) is None


def test_a_question_stays_pending_until_it_is_answered() -> None:
    """Over compactions, and behind a reply with calls, the summary names the open question."""
    pending = "- Not answered yet: Count the tests"
    text = summary(user("Count the tests"))
    for later in ((), called("bash", "{}", "80"), [user("go on", "synthetic")]):
        text = summary(*later, previous=text, facts=SummaryFacts(synthetic=frozenset({"synthetic"})))
        assert sections_of(text)["In Progress"] == pending, later
    calling = NeutralMessage("assistant", (Text("I look."), Call("c", "bash", "{}")), "a")
    text = summary(calling, previous=text)
    assert sections_of(text)["In Progress"] == pending
    assert sections_of(summary(said("80 tests."), previous=text))["In Progress"] == "- (none)"
    assert sections_of(summary(user("And now?"), previous=text))["In Progress"] == "- Not answered yet: And now?"


def test_error_that_was_overcome_is_no_obstacle() -> None:
    """A call that failed and then succeeded is not listed as blocked, also later."""
    failed = called("bash", '{"command":"make"}', "no rule", error=True)
    good = called("bash", '{"command":"make"}', "ok")
    assert sections_of(summary(*failed, *good))["Blocked"] == "- (none)"
    assert sections_of(summary(*good, previous=summary(*failed)))["Blocked"] == "- (none)"


def test_todos_are_the_plan() -> None:
    """Todos stand under Done, In Progress and Next Steps by their status."""
    todos = (Todo("a", "completed"), Todo("b", "in_progress"), Todo("c"), Todo("d", "cancelled"))
    found = sections_of(summary(said("x"), facts=SummaryFacts(todos=todos)))
    assert (found["Done"], found["In Progress"], found["Next Steps"]) == ("- a", "- b", "- c")


def test_what_the_program_wrote_is_no_wish() -> None:
    """Synthetic user messages are neither goal nor constraint."""
    found = sections_of(
        summary(user("Continue", "m1"), user("你好", "m2"), facts=SummaryFacts(frozenset({"m1"}), ("a b.py",)))
    )
    assert (found["Goal"], found["Relevant Files"]) == ("- 你好", "- `a b.py`: written")
    assert "Continue" not in summary(user("Continue", "m1"), facts=SummaryFacts(frozenset({"m1"})))


def test_merges_a_summary_that_a_model_wrote() -> None:
    """Another program's sections are carried on: decisions, steps, files and goal."""
    previous = (
        "## Goal\n- Ship it\n## Key Decisions\n1. Use LMDB\n   because it is fast\n## Next Steps\n- release\n"
        "## Relevant Files\n- src/parser.py: the parser, handle with care\n## Progress\n### Done\n- designed"
    )
    found = sections_of(summary(*TALK, previous=previous))
    assert found["Goal"].startswith("- Ship it\n- Newest request: ")
    assert found["Key Decisions"] == "- Use LMDB because it is fast"
    assert found["Next Steps"] == "- release"
    assert found["Relevant Files"] == "- src/parser.py: the parser, handle with care"
    assert found["Done"].startswith("- designed\n")
    assert sections_of(summary(previous="free text\nof two lines"))["Critical Context"] == "- free text\n- of two lines"


def test_counts_add_up_over_compactions() -> None:
    """Calls are summed by tool: ten compactions have a line per tool and the true number."""
    text: str | None = None
    for number in range(10):
        text = summary(*called("bash", f'{{"command":"run {number}"}}', "x", error=number == 3), previous=text)
    assert sections_of(text or "")["Done"] == "- `bash`: 10 calls, 1 failed; last `run 9`"


@pytest.mark.parametrize("word", ["word ", "测试中文内容", "🙂👍", "données été "], ids=["en", "zh", "emoji", "fr"])
def test_stays_small_over_ten_compactions(word: str) -> None:
    """Ten compactions of long talk stay within the room, some 1,500 tokens, with the goal."""
    text: str | None = None
    for number in range(10):
        talk = [user(f"{word * 3}{number}-{index} {word * 200}") for index in range(20)]
        for index in range(20):
            talk += called(f"tool{number}{index}", f'{{"path":"src/{word}{number}{index}.py"}}', word * 90, error=True)
            talk.append(said(word * 300))
        text = summary(*talk, previous=text)
        assert len(text.encode()) <= MOST_BYTES
        assert TokenCounter().count(text) <= 1_600
        assert missing_sections(text) == ()
        assert sections_of(text)["Goal"].startswith(f"- {word * 3}0-0")


parts = st.sampled_from(
    ["## Goal", "- a", "(none)", "1. x", "`t`: 2 calls", "中 文", "\ud800", "`f`: read", "# Done\n", "", " \n"]
)
talks = st.lists(
    st.one_of(
        parts.map(lambda text: [user(text)]),
        parts.map(lambda text: [said(text)]),
        st.tuples(parts, parts, st.booleans()).map(
            lambda found: called(
                found[0].strip() or "t",
                msgspec.json.encode({"path": found[1].replace("\ud800", "?")}).decode(),
                found[1],
                error=found[2],
            )
        ),
    ),
    max_size=8,
).map(lambda found: [message for messages in found for message in messages])


@given(talks, talks)
def test_merging_nothing_changes_nothing(first: list[NeutralMessage], second: list[NeutralMessage]) -> None:
    """An offline summary is a fixed point: updating it with nothing new gives the same bytes."""
    text = summary(*second, previous=summary(*first))
    assert missing_sections(text) == ()
    assert all(body for name, body in sections_of(text).items() if name != "Progress")
    assert summary(previous=text) == text
    assert summary(*second, previous=summary(*first)) == text


def test_merges_a_summary_of_another_program() -> None:
    """An imported session keeps goal, wishes, steps and files of the summary it came with."""
    previous = (
        "This session is being continued.\n\nSummary:\n1. Primary Request and Intent:\n   Port the parser\n\n"
        "2. **Key Technical Concepts:**\n   - recursive descent\n3. Files and Code Sections:\n   - `src/a.py`: the lexer\n"
        "```py\n6. All user messages:\n```\n6. All user messages:\n   - keep it small\n"
        "7. Pending Tasks:\n   - write tests\n9. Optional Next Step: release it"
    )
    found = sections_of(summary(user("go on"), previous=previous))
    assert found["Goal"] == "- Port the parser\n- Newest request: go on"
    assert found["Constraints & Preferences"] == "- keep it small"
    assert found["Critical Context"] == "- recursive descent"
    assert found["Relevant Files"] == "- `src/a.py`: the lexer"
    assert found["Next Steps"] == "- write tests\n- release it"


def test_a_long_text_without_headings_keeps_both_ends() -> None:
    """Of a previous summary in no known form the first and the last points stay."""
    points = [f"point {number} " + "x" * 80 for number in range(60)]
    found = sections_of(summary(previous="\n".join(points)))["Critical Context"]
    assert points[0] in found
    assert points[-1] in found
    assert points[30] not in found


def test_a_file_that_could_not_be_written_was_not() -> None:
    """A file whose write failed is not relevant, and its error is listed."""
    found = sections_of(summary(*called("edit", '{"filePath":"src/a.py"}', "rejected", error=True)))
    assert found["Relevant Files"] == "- (none)"
    assert found["Blocked"] == "- `edit` `src/a.py`: rejected"
