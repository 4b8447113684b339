"""Recall: what the view no longer shows is read again, whole or in pieces, by its id."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eventlog
from eventlog import events as ev
from eventlog.errors import CallError, NotFoundError
from projections.transcript.transcript import Transcript
from projections.view.model_view import ModelView
from projections.view.neutral import Result
from projections.window.policy.policy import TruncationPolicy
from projections.window.retrieval.excerpts import bytes_of, lines_of, matches_in
from projections.window.retrieval.part_text import read_message, read_part
from projections.window.retrieval.recall import RecallResult, recall
from projections.window.retrieval.truncation import count_lines, truncate
from tests.support.compactions import compacted
from tests.support.history_strategies import Command, Grower, commands

texts = st.text(st.sampled_from("ab \n中é𝄞\ud800"), max_size=40)


def utf8(text: str) -> bytes:
    """The UTF-8 bytes of a text, in which sizes are given."""
    return text.encode("utf-8", "surrogatepass")


def worked(session: eventlog.Session, output: str, **options: Any) -> str:
    """A turn with one call of this output; return the tool part."""
    session.user("Look")
    with session.assistant("p/m") as reply:
        call = reply.tool("bash", call_id="c1", input={"command": "cat log"})
        call.succeed(output, **options)
        reply.finish("tool-calls")
    return call.id


def shown(session: eventlog.Session) -> list[str]:
    """The results in the view."""
    return [
        part.output for message in ModelView.of(session).messages for part in message.parts if isinstance(part, Result)
    ]


@given(texts, st.integers(1, 12), st.integers(0, 12))
def test_lines_are_the_lines(text: str, first: int, more: int) -> None:
    """A range of lines is those lines with their ends, told as the range that there is."""
    lines = text.splitlines(keepends=True) if text.isascii() else re.findall(r"[^\n]*\n|[^\n]+", text)
    if first > max(len(lines), 1):
        with pytest.raises(CallError):
            lines_of(text, first, first + more)
        return
    found = lines_of(text, first, first + more)
    assert found.text == "".join(lines[first - 1 : first + more])
    if lines:
        assert (found.first, found.last) == (first, min(first + more, len(lines)))


@given(texts, st.integers(0, 50), st.integers(1, 50))
def test_bytes_are_whole_characters(text: str, start: int, more: int) -> None:
    """A range of bytes is widened to whole characters and no further, and says so."""
    data = utf8(text)
    if start >= len(data) and start > 0:
        with pytest.raises(CallError):
            bytes_of(text, start, start + more)
        return
    found = bytes_of(text, start, start + more)
    assert utf8(found.text) == data[found.first : found.last]
    assert start - 4 < found.first <= start
    assert min(start + more, len(data)) <= found.last < start + more + 4
    if text.isascii():
        assert (found.first, found.last) == (start, min(start + more, len(data)))


@given(texts, st.sampled_from(["a", "ab", "中", " ", "\n", "b\n"]), st.integers(0, 3), st.integers(0, 5))
def test_a_search_finds_every_line(text: str, wanted: str, context: int, most: int) -> None:
    """The lines in which the text begins, with their numbers, bytes and neighbours."""
    lines = text.split("\n")
    starts = [sum(len(line) + 1 for line in lines[:index]) for index in range(len(lines))]
    places = [
        next((at for at in range(start, start + len(line) + 1) if text.startswith(wanted, at)), None)
        for start, line in zip(starts, lines, strict=True)
    ]
    expected = [(index, at) for index, at in enumerate(places) if at is not None]
    found = matches_in(text, wanted, context=context, most=most)
    assert found.more is (len(expected) > most)
    whole = lines[:-1] if lines[-1] == "" else lines
    for match, (index, at) in zip(found.found, expected[:most], strict=True):
        assert (match.line, match.at, match.text) == (index + 1, len(utf8(text[:at])), lines[index])
        assert list(match.before) == lines[max(index - context, 0) : index]
        assert list(match.after) == whole[index + 1 : index + 1 + context]


def test_a_search_takes_expressions() -> None:
    """A search by regular expression sees lines, may ignore case, and cuts very long lines."""
    text = "one\nTwo\n" + "x" * 5_000 + "needle" + "y" * 5_000 + "\n"
    assert [match.line for match in matches_in(text, "^t.o$", regex=True, ignore_case=True).found] == [2]
    assert matches_in(text, "^t.o$").found == ()
    (match,) = matches_in(text, "needle").found
    assert (match.line, match.at, len(match.text)) == (3, 5_008, 400)
    assert "needle" in match.text
    assert [match.line for match in matches_in("a\n\nb\n", "^", regex=True).found] == [1, 2, 3]
    assert matches_in("", "^", regex=True).found == ()


@pytest.mark.parametrize(
    "options", [{"wanted": "("}, {"wanted": ""}, {"wanted": "a", "context": -1}, {"wanted": "a", "most": -1}]
)
def test_a_search_that_cannot_be_understood_is_refused(options: dict[str, Any]) -> None:
    """A broken or empty expression and negative bounds are `CallError`s."""
    with pytest.raises(CallError):
        matches_in("a", regex=True, **options)


@pytest.mark.parametrize("ranges", [(0, 1), (2, 1), (-1, 3)])
def test_ranges_that_are_none_are_refused(ranges: tuple[int, int]) -> None:
    """Lines count from 1, bytes from 0, and a range must not end before it begins."""
    with pytest.raises(CallError):
        lines_of("a\nb\n", *ranges)
    with pytest.raises(CallError):
        bytes_of("abcdef", *((ranges[0] - 1, ranges[1]) if ranges[0] == 0 else ranges))


def test_a_truncated_output_is_read_again_by_its_marker(store: eventlog.Store) -> None:
    """A preview's references give exactly what was left out, also after prune and compaction."""
    session = store.create_session()
    output = "".join(f"Zeile {number} 中\n" for number in range(9_000))
    truncation = truncate(output, TruncationPolicy(), None, part="prt_log")
    session.user("Look")
    with session.assistant("p/m") as reply:
        call = reply.tool("bash", call_id="c1", input={}, id="prt_log")
        call.succeed(output, truncation=truncation)
        reply.finish("tool-calls")
    (preview,) = shown(session)
    told = re.search(r"recall prt_log lines (\d+)-(\d+), or bytes (\d+)-(\d+)", preview)
    assert told is not None
    first, last, start, end = map(int, told.groups())
    head, _, tail = preview.partition(next(line for line in preview.splitlines(keepends=True) if "left out" in line))
    for state in ("shown", "pruned", "covered"):
        if state == "pruned":
            session.context.prune(["prt_log"])
        elif state == "covered":
            compacted(session)
        found = recall(session, "prt_log", bytes=(start, end))
        assert head + found.text + tail == output
        assert found.byte_range == (start, end)
        assert recall(session, "prt_log", lines=(first, last)).text == found.text
        assert recall(session, "prt_log") == RecallResult("prt_log", "tool", 9_000, len(utf8(output)), output)
    assert shown(session) == []
    assert recall(session, "prt_log", lines=(8_999, 10_000)).line_range == (8_999, 9_000)
    matches = recall(session, "prt_log", search="Zeile 8999 ", context=1)
    assert [(match.line, match.before) for match in matches.matches] == [(9_000, ("Zeile 8998 中",))]
    assert (matches.lines, matches.text, matches.more) == (9_000, "", False)


def test_a_covered_message_is_recalled_with_all_it_said(store: eventlog.Store) -> None:
    """A covered message gives its texts, calls and outputs in order, and names its parts."""
    session = store.create_session()
    question = session.user("What is in the log?")
    with session.assistant("p/m") as reply:
        reply.add_text("I look.")
        call = reply.tool("bash", call_id="c1", input={"command": "cat log"})
        call.succeed("all is well")
        reply.finish("tool-calls")
    compacted(session)
    found = recall(session, reply.id)
    text, tool = found.parts
    assert found.text == f'[text {text}]\nI look.\n[tool bash {tool}]\n{{"command":"cat log"}}\nall is well'
    assert (found.kind, tool) == ("message", call.id)
    assert recall(session, tool).text == "all is well"
    assert recall(session, tool, field="input").text == '{"command":"cat log"}'
    assert recall(session, question).text.endswith("]\nWhat is in the log?")


def test_what_a_failed_and_what_a_running_tool_said(store: eventlog.Store) -> None:
    """A failed call recalls its error, a running one its output so far."""
    session = store.create_session()
    session.user("Go")
    with session.assistant("p/m") as reply:
        failed = reply.tool("bash", call_id="c1", input={})
        failed.fail("no such file")
        running = reply.tool("bash", call_id="c2", input={})
        running.stream_output("line 1\n")
        running.stream_output("line 2\n")
        assert recall(session, failed.id).text == "no such file"
        so_far = recall(session, running.id)
        assert (so_far.text, so_far.open) == ("line 1\nline 2\n", True)
        running.succeed("done")
        reply.finish("tool-calls")
    assert recall(session, running.id).text == "done"


def test_what_is_gone_is_not_recalled(store: eventlog.Store) -> None:
    """A redacted part shows as redacted, edited text as it was edited."""
    session = store.create_session()
    first = worked(session, "the password is 1234")
    second = worked(session, "as it was")
    version = session.version
    third = worked(session, "later")
    session.edit_part(second, "as it should be")
    session.executor.run([ev.PartRedacted(first)])
    assert recall(session, first).text == "[Redacted]"
    assert recall(session, first, field="input").text == "[Redacted]"
    assert recall(session, first, search="password").matches == ()
    assert recall(session, second).text == "as it should be"
    session.rollback(version)
    assert recall(session, first).text == "[Redacted]"
    assert recall(session, second).text == "as it was"
    session.remove_part(second)
    for name in (second, third, "nobody"):
        with pytest.raises(NotFoundError):
            recall(session, name)


def test_one_kind_of_excerpt_at_a_time(store: eventlog.Store) -> None:
    """Two kinds of excerpt, a missing input, or a range behind the end are caller errors."""
    session = store.create_session()
    part = worked(session, "a\nb\n")
    question = session.user("x")
    wrong: list[tuple[str, dict[str, Any]]] = [
        (part, {"lines": (1, 1), "bytes": (0, 1)}),
        (part, {"lines": (3, 4)}),
        (part, {"bytes": (4, 5)}),
        (question, {"field": "input"}),
        (recall(session, question).parts[0], {"field": "input"}),
    ]
    for name, options in wrong:
        with pytest.raises(CallError) as caught:
            recall(session, name, **options)
        assert not isinstance(caught.value, NotFoundError)


@settings(max_examples=60, deadline=None)
@given(st.lists(commands(), min_size=8, max_size=60))
def test_a_recalled_message_is_that_of_the_transcript(steps: list[Command]) -> None:
    """In any history, reading one id equals reading everything, rollbacks and edits included."""
    grower = Grower()
    for step in steps:
        grower.do(step)
    with eventlog.open("memory:") as store:
        session = store.create_session(time=1_000)
        if grower.items[1:]:
            session.append(grower.items[1:])
        for message in Transcript(session).oldest_first():
            if message.removed:
                with pytest.raises(NotFoundError):
                    read_message(session, message.id)
                continue
            kept = [part for part in message.parts if not part.removed]
            assert list(read_message(session, message.id).parts) == kept
            for part in message.parts:
                if part.removed:
                    with pytest.raises(NotFoundError):
                        read_part(session, part.id)
                else:
                    assert read_part(session, part.id) == part
                    told = part.text or part.error
                    found = recall(session, part.id)
                    if part.kind == "file" and not told:
                        assert not found.text or found.text.startswith("data:")
                    else:
                        assert found.lines == count_lines(told)
