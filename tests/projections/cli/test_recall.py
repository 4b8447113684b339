"""`recall` prints what the view no longer shows, and lists what a compaction covers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import eventlog
from projections import ModelView
from projections.cli.exits import Exit
from projections.loop import ContextWindow
from projections.view.neutral import Result
from projections.window.retrieval.recall import recall
from projections.window.retrieval.recall_calls import with_recall
from tests.support.cli_runner import Cli, on_terminal, valid
from tests.support.cli_sessions import LIMITS, talk

OUTPUT = "".join(f"line {number}: {'naïve ' if number % 7 == 0 else ''}output\n" for number in range(1, 3001))


@pytest.fixture
def long(tmp_path: Path) -> Path:
    """A store with the session `s` whose result `p1` is too long for the view."""
    with eventlog.open(tmp_path / "store") as store:
        session = store.create_session(id="s")
        session.set_settings(limits=LIMITS)
        session.user("Run it", id="u1")
        with session.assistant(model="acme/one", id="a1") as reply:
            call = reply.tool("bash", call_id="c1", input={"command": "run"}, id="p1")
            session.set_tools(with_recall(None))
            ContextWindow(session, environment={}).succeed(call, OUTPUT)
            reply.add_text("Done")
            reply.finish("stop")
    return tmp_path / "store"


def test_what_the_marker_says_can_be_recalled(cli: Cli, long: Path) -> None:
    """The lines and bytes of the view's marker are exactly those that the preview omits."""
    with eventlog.open(long, read_only=True) as store:
        view = ModelView.of(store.session("s"))
    (shown,) = [part.output for message in view.messages for part in message.parts if isinstance(part, Result)]
    found = re.search(r"recall (\S+) lines (\d+-\d+), or bytes (\d+-\d+)", shown)
    assert found is not None
    head, _, tail = shown.partition(shown[shown.rindex("[", 0, found.start()) : shown.index("]", found.end()) + 1])
    missing = cli("recall", "s", found[1], "--bytes", found[3], "--json").json
    valid("recall", missing)
    assert head + missing["text"] + tail.removeprefix("\n") == OUTPUT
    lines = cli("recall", "s", found[1], "--lines", found[2], "--json").json
    valid("recall", lines)
    assert missing["text"] in lines["text"]
    assert (lines["lines"], lines["bytes"]) == (3000, len(OUTPUT.encode()))
    assert "-".join(map(str, lines["line_range"])) == found[2]


def test_recall_whole_and_by_range(cli: Cli, long: Path) -> None:
    """The whole, lines, bytes, and a call's arguments are printed, as text and as JSON."""
    del long
    assert cli("recall", "s", "p1").out == OUTPUT
    whole = cli("recall", "s", "p1", "--json").json
    valid("recall", whole)
    assert (whole["text"], whole["kind"], whole["line_range"]) == (OUTPUT, "tool", None)
    assert cli("recall", "s", "p1", "--lines", "2-3").out == "line 2: output\nline 3: output\n"
    assert cli("recall", "s", "p1", "--lines", "5").out == "line 5: output\n"
    assert cli("recall", "s", "p1", "--bytes", "0-6").out == "line 1\n"
    assert cli("recall", "s", "p1", "--bytes", "5").out == "1\n"
    assert cli("recall", "s", "p1", "--input").out == '{"command":"run"}\n'
    message = cli("recall", "s", "a1", "--json").json
    valid("recall", message)
    assert message["kind"] == "message"
    assert "p1" in message["parts"]
    assert "Done" in message["text"]


def test_recall_by_search(cli: Cli, long: Path) -> None:
    """A search prints matching lines with their numbers and neighbours."""
    del long
    found = cli("recall", "s", "p1", "--search", "line 1000", "--json").json
    valid("recall", found)
    assert [(match["line"], match["text"]) for match in found["matches"]] == [(1000, "line 1000: output")]
    assert (found["text"], found["more"]) == ("", False)
    some = cli("recall", "s", "p1", "--search", "^LINE 1[12]:", "--regex", "--ignore-case", "--around", 1)
    assert some.out.splitlines() == [
        "10-line 10: output",
        "11:line 11: output",
        "12:line 12: output",
        "13-line 13: output",
    ]
    few = cli("recall", "s", "p1", "--search", "naïve", "--most", 2)
    assert few.out.splitlines() == ["7:line 7: naïve output", "14:line 14: naïve output"]
    assert "--most" in few.err
    apart = cli("recall", "s", "p1", "--search", "naïve", "--most", 2, "--around", 1).out.splitlines()
    assert apart[3] == "--"
    none = cli("recall", "s", "p1", "--search", "nowhere")
    assert (none.code, none.out) == (Exit.OK, "")
    assert "no match in 3,000 lines" in none.err


def test_pruned_and_covered_is_recalled(cli: Cli, tmp_path: Path) -> None:
    """A compaction lists what it covers, and each part of it is recalled whole."""
    talk(tmp_path / "store")
    whole = {name: cli("recall", "talk", name).out for name in ("p00", "p51", "a0")}
    assert cli("prune", "talk").code == Exit.OK
    with eventlog.open(tmp_path / "store", read_only=True) as store:
        before = {message.source for message in ModelView.of(store.session("talk")).messages}
    done = cli("compact", "talk", "--json").json
    with eventlog.open(tmp_path / "store", read_only=True) as store:
        after = {message.source for message in ModelView.of(store.session("talk")).messages}
    for name in (done["compaction"], done["summary"]):
        found = cli("recall", "talk", "--covered", name, "--json").json
        valid("recall", found)
        assert (found["compaction"], found["status"], found["summary"]) == (
            done["compaction"],
            "completed",
            done["summary"],
        )
        covered = {message["id"] for message in found["messages"]}
        assert covered == before - after
        assert len(covered) == done["covered"]
    parts = {part["id"]: part for message in found["messages"] for part in message["parts"]}
    assert parts["p00"] == {"id": "p00", "kind": "tool", "tool": "read", "title": "a title", "pruned": True}
    with eventlog.open(tmp_path / "store", read_only=True) as store:
        assert all(recall(store.session("talk"), name).text for name in parts)
    assert {name: cli("recall", "talk", name).out for name in whole} == whole
    table = cli("recall", "talk", "--covered", done["compaction"]).out
    assert "p00\ttool\tread\ta title\tpruned" in table
    code, drawn = on_terminal("--store", tmp_path / "store", "recall", "talk", "--covered", done["compaction"])
    assert code == Exit.OK
    assert "p00" in drawn


def test_a_second_compaction_covers_the_first_ones_summary(cli: Cli, tmp_path: Path) -> None:
    """Each compaction lists what it newly covers; an undone one covers nothing."""
    talk(tmp_path / "store")
    first = cli("compact", "talk", "--json").json
    with eventlog.open(tmp_path / "store") as store:
        session = store.session("talk")
        for turn in range(6, 9):
            session.user(f"And number {turn}", id=f"u{turn}")
            with session.assistant(model="acme/one", id=f"a{turn}") as reply:
                reply.tool("read", call_id=f"c{turn}", input={}, id=f"p{turn}").succeed("word " * 900)
                reply.finish("stop")
    second = cli("compact", "talk", "--json").json
    listed = [cli("recall", "talk", "--covered", one["compaction"], "--json").json for one in (first, second)]
    earlier, later = ({message["id"]: message for message in one["messages"]} for one in listed)
    assert not set(earlier) & set(later)
    assert later[first["summary"]]["summary"]
    assert cli("undo", "talk").code == Exit.OK
    undone = cli("recall", "talk", "--covered", second["compaction"], "--json").json
    valid("recall", undone)
    assert (undone["status"], undone["messages"]) == ("undone", [])
    again = cli("recall", "talk", "--covered", first["compaction"], "--json").json
    assert set(earlier) == {message["id"] for message in again["messages"]}


def test_what_is_gone_says_how_and_what_to_do(cli: Cli, tmp_path: Path) -> None:
    """An id says how a rollback or removal took it out; the named command helps."""
    talk(tmp_path / "store")
    compaction = cli("compact", "talk", "--json").json["compaction"]
    with eventlog.open(tmp_path / "store") as store:
        store.session("talk").rollback(before="a4")
        store.session("talk").remove_message("u1")
    for names, how in ((["a4"], "rolled back"), (["p41"], "rolled back"), (["--covered", compaction], "rolled back"),
                       (["u1"], "removed")):  # fmt: skip
        answer = cli("recall", "talk", *names)
        assert answer.code == Exit.MISSING
        assert f"{names[-1]!r} in session talk was {how}; `eventlog explain talk {names[-1]}`" in answer.err
        told = cli("explain", "talk", names[-1])
        assert told.code == Exit.OK
        assert ("`eventlog rollback talk --to " in told.err) == (how == "rolled back")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], Exit.USAGE, "NAME"),
        (["p1", "--covered", "x"], Exit.USAGE, "NAME"),
        (["p1", "--lines", "1-2", "--search", "x"], Exit.USAGE, "ask for one of them"),
        (["--covered", "x", "--lines", "1-2"], Exit.USAGE, "--covered"),
        (["p1", "--regex"], Exit.USAGE, "--search TEXT"),
        (["p1", "--around", "2"], Exit.USAGE, "--search TEXT"),
        (["p1", "--lines", "a-b"], Exit.USAGE, "as in 10-20"),
        (["p1", "--lines", "9-3"], Exit.USAGE, "lines 9-3"),
        (["p1", "--lines", "9999"], Exit.USAGE, "behind the end"),
        (["p1", "--search", "(", "--regex"], Exit.USAGE, "regular expression"),
        (["u1", "--input"], Exit.USAGE, "no input"),
        (["nope"], Exit.MISSING, "eventlog show"),
        (["--covered", "nope"], Exit.MISSING, "eventlog window"),
    ],
)
def test_wrong_recalls(cli: Cli, long: Path, arguments: list[str], code: Exit, words: str) -> None:
    """A part that cannot be recalled is reported in one line that says what to do."""
    del long
    answer = cli("recall", "s", *arguments)
    assert answer.code == code
    assert answer.out == ""
    assert len(answer.err.splitlines()) == 1
    assert words in answer.err
