from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from contextlib import closing
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

import eventlog
from benchmarks.__main__ import measure
from benchmarks.alone import alone, syncs_between_marks, tracer
from benchmarks.baseline import Run, compared, read_run
from benchmarks.cases import CASES, SHORT, chosen
from benchmarks.engine import WAITS, compacted, filled, loop_turn, session_turn, waiting_turn
from benchmarks.figures import Case, Figure, Measurement, Missing, Notes, Result, Setting, Target
from benchmarks.limits import decode_lines
from benchmarks.machine import describe, workplace
from benchmarks.measure import disk_bytes, in_turn
from benchmarks.page import PAGE, TABLES, markdown, with_numbers
from benchmarks.peers.base import Peer, missing
from benchmarks.peers.registry import PEERS, present
from benchmarks.report import show_cases, show_changes, show_missing, show_remarks, show_results, show_rows, write_json
from benchmarks.sqlite_turns import FourRows, SameFacts, TwoRows, items_of
from benchmarks.turn_sides import SIDES
from benchmarks.workloads import deltas, generated_session, turns
from eventlog.codec.deltas import DeltaRun
from eventlog.importers import import_file
from projections.transcript.transcript import Transcript
from projections.view.model_view import ModelView
from tests.support.missing import tool

ROOT = Path(__file__).resolve().parents[1]
TINY = SHORT._replace(
    rounds=1,
    deltas=40,
    turns=4,
    counted=4,
    lengths=(4, 8),
    peer_turns=1,
    callers=3,
    appends=2,
    generated=3,
    text=20_000,
    sessions=2,
)
MAY_BE_ZERO = ("window.",)
"""Figures of which there may be none: what a short session never needs."""


@pytest.fixture(scope="module")
def notes() -> Notes:
    """Notes that the cases of `results` write."""
    return Notes()


@pytest.fixture(scope="module")
def results(notes: Notes, tmp_path_factory: pytest.TempPathFactory) -> list[Result]:
    """Every case, at sizes that only prove that it runs."""
    place = tmp_path_factory.mktemp("benchmarks")
    return measure(CASES, TINY, place, None, console=Console(quiet=True), notes=notes)


def test_every_figure_of_every_case_is_measured(results: list[Result], notes: Notes) -> None:
    """A run reports each figure of each case once, in the order of the list."""
    absent = {gap.what for gap in notes.missing}
    expected = [figure.id for case in CASES if case.id not in absent for figure in case.figures]
    if "syncs" in absent:
        expected = [name for name in expected if not name.startswith("turn.syncs")]
    assert [result.id for result in results] == expected
    assert [result.id for result in results if result.value <= 0 and not result.id.startswith(MAY_BE_ZERO)] == []
    assert len({case.id for case in CASES}) == len(CASES) <= 11


def test_a_case_without_its_tool_says_so_and_the_others_run(tmp_path: Path) -> None:
    """A case that cannot import its tool is noted with its install line; the next case runs."""

    def needy(setting: Setting) -> dict[str, Measurement]:
        del setting
        return {"a": Measurement(float(len(__import__("no_such_tool").__name__)))}

    def other(setting: Setting) -> dict[str, Measurement]:
        return {"b": Measurement(float(setting.sizes.rounds))}

    cases = (
        Case("needy", (Figure("a", "", "s"),), needy, install="pip install tool"),
        Case("other", (Figure("b", "", "s"),), other),
    )
    notes = Notes()
    found = measure(cases, TINY, tmp_path, None, console=Console(quiet=True), notes=notes)
    assert [result.id for result in found] == ["b"]
    [gap] = notes.missing
    assert (gap.what, gap.install) == ("needy", "pip install tool")
    assert "no_such_tool" in gap.reason


def test_ratios_are_of_value_and_baseline(results: list[Result]) -> None:
    """`ratio` is `value / baseline`, and a target is met or not, never unknown."""
    for result in results:
        if result.baseline:
            assert result.ratio == pytest.approx(result.value / result.baseline)
        assert (result.met is None) == (result.target is None)


def test_the_json_has_the_documented_shape(results: list[Result], tmp_path: Path) -> None:
    """`--json OUT` holds the machine, the results and their notes, as `--baseline` reads it."""
    out = tmp_path / "out.json"
    said = Notes()
    said.miss(Missing("p", "i", "r"))
    said.row("turns", "a", {"ms": 1.0, "syncs": None}, "slow")
    write_json(out, describe(tmp_path, "none"), results, said)
    document = json.loads(out.read_text(encoding="utf-8"))
    assert set(document) == {"machine", "results", "rows", "remarks", "missing"}
    assert document["rows"] == [{"table": "turns", "side": "a", "cells": {"ms": 1.0, "syncs": None}}]
    assert document["remarks"] == {"a": "slow"}
    assert document["missing"] == [{"what": "p", "install": "i", "reason": "r"}]
    assert read_run(out).results == results
    assert {"system", "processor", "cores", "filesystem", "python", "libraries", "data"} <= set(document["machine"])
    for entry in document["results"]:
        assert list(entry) == ["id", "value", "unit", "baseline", "ratio", "target", "met"]


def test_tables_fit_the_paper(results: list[Result], notes: Notes) -> None:
    """At 120 columns every number is whole, and each figure and side has its line."""
    figures = {figure.id: figure for case in CASES for figure in case.figures}
    text = StringIO()
    console = Console(width=120, file=text)
    show_cases(console, CASES)
    show_results(console, figures, results)
    show_rows(console, notes.rows)
    show_remarks(console, notes.remarks)
    shown = text.getvalue()
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= 120
    assert all(result.id in shown for result in results)
    turn_table = [row for row in notes.rows if row.table == "a durable turn"]
    assert [row.side for row in turn_table] == [kind.title for kind in SIDES.values()]
    for row in turn_table:
        assert row.side in shown
        assert row.side in notes.remarks


def test_a_table_has_sides_of_one_guarantee(results: list[Result], notes: Notes) -> None:
    """No table of conversations or streams mixes what waits for the disk with what does not."""
    assert results
    durable = {peer.title: peer.durable for peer in PEERS}
    for kind in ("on the disk at each turn", "lost with the power"):
        sides = [row.side for row in notes.rows if row.table.endswith(kind)]
        assert sides
        assert {durable.get(side, True) for side in sides} == {kind.startswith("on the disk")}
    for heading, waits in (("all on the disk at the end", False), ("each on the disk before the next", True)):
        sides = [row.side for row in notes.rows if f"µs, {heading}" in row.cells]
        assert len(sides) > 1
        assert all(durable[side] == waits for side in sides if side != "everdelta")


def test_the_program_runs_what_is_asked_for(tmp_path: Path) -> None:
    """`--only` runs the named figures' cases, `--json` writes them with the file system."""
    out = tmp_path / "out.json"
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--short", "--only", "callers.threads", "--json", str(out)],
        cwd=ROOT, env={**os.environ, "COLUMNS": "200"}, capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    document = json.loads(out.read_text(encoding="utf-8"))
    assert [entry["id"] for entry in document["results"]] == ["callers.threads", "callers.tasks", "callers.one"]
    assert document["machine"]["filesystem"] in ran.stderr
    assert "callers.threads" in ran.stdout


def test_an_unknown_name_is_a_wrong_call() -> None:
    """An unknown name given to `--only` is refused before anything runs."""
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--only", "nothing"],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert ran.returncode == 2
    assert "nothing" in ran.stderr
    with pytest.raises(KeyError):
        chosen(["nothing"])


def test_targets_say_which_side_is_good() -> None:
    """A target is met on its own side, and on its bound unless it is a strict one."""
    assert Target("<=", 1.5).met(1.5)
    assert not Target("<=", 1.5).met(1.51)
    assert not Target("<", 1).met(1)
    assert Target(">=", 6).met(6)
    assert not Target(">=", 6).met(5.9)


def test_a_missing_peer_is_reported_with_the_line_that_installs_it() -> None:
    """A peer that cannot be imported is noted once, with reason and install line."""
    gap = missing(Peer("p", "A peer", durable=True, package="no_such_package", install="pip install p"))
    assert gap is not None
    assert (gap.what, gap.install) == ("A peer", "pip install p")
    notes = Notes()
    notes.miss(gap)
    notes.miss(gap)
    text = StringIO()
    show_missing(Console(width=200, file=text), notes.missing)
    assert text.getvalue().count("pip install p") == 1
    assert "no_such_package" in text.getvalue()
    notes = Notes()
    assert len(present(notes)) + len([peer for peer in PEERS if missing(peer)]) == len(PEERS)


def test_peers_are_installed_as_the_group_has_them() -> None:
    """Each requirement of the optional group `bench` is named where its package is missing."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    told = {requirement for peer in PEERS for requirement in peer.install.split("'")[1::2]}
    assert told == set(project["optional-dependencies"]["bench"])


@pytest.mark.parametrize("peer", [peer for peer in PEERS if missing(peer) is None], ids=lambda peer: peer.id)
def test_a_peer_keeps_what_it_is_given(peer: Peer, tmp_path: Path) -> None:
    """Turns that a peer was given are there when its store is opened again."""
    if peer.chat is not None:
        chat = peer.chat(tmp_path / "chat")
        chat.seed(turns(3))
        before = chat.load()
        chat.turn(turns(1)[0])
        chat.close()
        chat = peer.chat(tmp_path / "chat")
        assert chat.load() == pytest.approx(before * 4 / 3, rel=0.02)
        chat.close()
    if peer.streamer is not None:
        stream = peer.streamer(tmp_path / "stream")
        for text in deltas(5):
            stream.append(text)
        stream.finish()
        assert disk_bytes(tmp_path / "stream") > 0
    assert peer.chat is not None or peer.streamer is not None


def test_a_run_is_compared_by_ratios() -> None:
    """Better and worse follow the target's side; what has no ratio is compared as it is."""

    def result(name: str, value: float, baseline: float | None, target: str | None = None, unit: str = "ms") -> Result:
        return Result(name, value, unit, baseline, value / baseline if baseline else None, target, None)

    then = [result("a", 1, 1), result("b", 1, 1, ">= 1"), result("c", 4, None), result("f", 1, 1, None, "/s")]
    now = [result("a", 8, 4), result("b", 8, 4, ">= 1"), result("c", 1, None), result("e", 1, 1)]
    now.append(result("f", 1, 2, None, "/s"))
    changes = {change.id: change for change in compared(then, now)}
    verdicts = {name: change.verdict for name, change in changes.items()}
    assert verdicts == {"a": "worse", "b": "better", "c": "better", "f": "worse"}
    assert (changes["a"].times, changes["a"].is_ratio, changes["c"].is_ratio) == (2, True, False)
    text = StringIO()
    show_changes(Console(width=200, file=text), list(changes.values()))
    assert all(word in text.getvalue() for word in ("worse", "better"))


def test_the_markdown_has_figures_tables_and_gaps(results: list[Result], notes: Notes, tmp_path: Path) -> None:
    """A run as Markdown has each missed target, the page's tables, and what is missing."""
    gaps = [Missing("p", "pip install p", "r")]
    text = markdown(Run(results, describe(tmp_path, "none"), rows=notes.rows, missing=gaps))
    lines = text.splitlines()
    missed = lines[lines.index("| missed | against | ratio | target |") + 2 :]
    assert missed.index("") == len([result for result in results if result.ratio is not None and result.met is False])
    headings = [line for line in lines if line.startswith("| ") and lines[lines.index(line) + 1].startswith("|---")]
    assert len(headings) == 1 + len({row.table for row in notes.rows} & {*TABLES})
    assert "pip install p" in text


def test_the_page_has_the_numbers_of_the_baseline() -> None:
    """`benchmarks/README.md` is the output of `python -m benchmarks.page`."""
    page = PAGE.read_text(encoding="utf-8")
    assert page == with_numbers(page)


def test_turns_of_every_way_leave_the_same_conversation(tmp_path: Path) -> None:
    """The pages' ways to take a turn leave equal messages."""
    [turn] = turns(1)
    with eventlog.open(tmp_path / "store") as store:
        ways = [filled(store, [turn]), store.create_session(), store.create_session()]
        waiting_turn(ways[1], turn)
        session_turn(ways[2], turn)
        told = [
            [(message.role, [part.text for part in message.parts]) for message in Transcript(session).oldest_first()]
            for session in ways
        ]
    assert told == [[("user", [turn.question]), ("assistant", ["".join(turn.answer), turn.output])]] * len(ways)


def test_the_loop_answers_its_question(tmp_path: Path) -> None:
    """The turn of the loop has two views and two replies, and leaves no question open."""
    [turn] = turns(1)
    with eventlog.open(tmp_path / "store") as store:
        session = store.create_session()
        assert min(loop_turn(session, turn)) > 0
        assert len(ModelView.of(session).messages) == 4
        assert not store.unfinished()
        compacted(session, "What was done.")
        session.user("Go on")
        assert [message.role for message in ModelView.of(session).messages] == ["user", "assistant", "user"]


def test_sides_take_turns_in_changing_order() -> None:
    """Every side is measured as often, none always first, and the warm-up does not count."""
    order: list[str] = []

    def side(name: str) -> list[float]:
        order.append(name)
        return [float(len(order))]

    samples = in_turn({"a": lambda: side("a"), "b": lambda: side("b")}, 2)
    assert "".join(order) == "abbaab"
    assert samples["a"].times == [4.0, 5.0]
    assert samples["b"].times == [3.0, 6.0]


def test_a_generated_session_is_one_that_can_be_imported(tmp_path: Path) -> None:
    """Without recorded sessions a generated one in their form is imported whole."""
    path = generated_session(tmp_path / "generated.jsonl", 3)
    assert decode_lines(path) == 12
    with eventlog.open("memory:") as store:
        report = import_file(store, path)
        [info] = store.sessions()
    assert (report.skipped, info.messages) == ([], report.messages)


def test_sqlite_is_measured_when_its_wal_is_used_again(tmp_path: Path) -> None:
    """A filled database reuses its WAL: further turns leave the WAL's file as large as it is."""
    side = TwoRows(tmp_path / "rows.db")
    side.fill()
    size = side.wal_bytes()
    assert size > 1_000 * 4096
    for turn in turns(20):
        side.turn(turn)
    assert side.wal_bytes() == size
    side.close()


def test_the_loop_of_sqlite_has_a_transaction_for_each_wait(tmp_path: Path) -> None:
    """Question, call, result and answer are a row and a transaction each, and all are read."""
    with closing(FourRows(tmp_path / "rows.db")) as side:
        statements: list[str] = []
        side.connection.set_trace_callback(statements.append)
        side.turn(turns(1)[0])
        assert statements.count("COMMIT") == WAITS
        assert [row["role"] for row in side.load()] == ["user", "assistant", "tool", "assistant"]


@pytest.mark.parametrize("each_wait", [False, True], ids=["one", "four"])
def test_sqlite_keeps_the_facts_that_the_engine_keeps(tmp_path: Path, *, each_wait: bool) -> None:
    """SQLite has a row for each event, one for the run, in one transaction or four."""
    [turn] = turns(1)
    side = SameFacts(tmp_path / "facts.db", each_wait=each_wait)
    statements: list[str] = []
    side.connection.set_trace_callback(statements.append)
    side.turn(turn)
    side.connection.set_trace_callback(None)
    assert statements.count("COMMIT") == (WAITS if each_wait else 1)
    rows = side.connection.execute("SELECT version, data FROM event ORDER BY version").fetchall()
    assert len(rows) == len(items_of(1, turn, 0, {}))
    assert rows[-1][0] == 9 + len(turn.answer)
    assert side.connection.execute("SELECT version, messages FROM session").fetchall() == [(rows[-1][0], 2)]
    assert side.connection.execute("SELECT length(hash), substr(data, 2) FROM body").fetchall() == [
        (32, turn.output.encode())
    ]
    side.close()


def test_the_engine_keeps_as_many_events_of_a_turn(tmp_path: Path) -> None:
    """SQLite gets the facts that the README's turn leaves in the engine's log."""
    [turn] = turns(1)
    facts = [item for item in items_of(1, turn, 0, {}) if not isinstance(item, DeltaRun)]
    expected = sorted([*(type(event).__name__ for _, event in facts), *["PartDelta"] * len(turn.answer)])
    with eventlog.open(tmp_path / "store") as store:
        session = store.create_session()
        before = session.version
        waiting_turn(session, turn)
        found = [type(recorded.event).__name__ for recorded in session.events() if recorded.version > before]
    assert sorted(found) == expected


def test_syncs_are_counted_by_system_call(tmp_path: Path) -> None:
    """A turn of a raw file is one sync, and one of SQLite a sync for each transaction."""
    tool("strace")
    if not tracer():
        pytest.skip("needs the right to trace a child process")
    assert alone("raw", tmp_path / "raw", 3).syncs == 1
    assert alone("facts.waits", tmp_path / "waits", 3).syncs == pytest.approx(WAITS, abs=1)


def test_only_calls_that_sync_count_between_the_marks() -> None:
    """Only syncs between the two marks count; a write that syncs nothing does not."""
    mark = "7 fsync(1048575) = -1 EBADF (Bad file descriptor)"
    calls = [
        "7 fdatasync(3) = 0",
        mark,
        "7 fdatasync(3 <unfinished ...>",
        "8 pwritev2(4, [{...}], 1, 0, 0) = 1",
        "8 pwritev2(4, [{...}], 1, 0, RWF_DSYNC) = 1",
        "7 <... fdatasync resumed>) = 0",
        mark,
        "7 fsync(3) = 0",
    ]
    assert syncs_between_marks("\n".join(calls)) == 2
    with pytest.raises(ValueError, match="marks"):
        syncs_between_marks(calls[0])


def test_figures_are_measured_on_a_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A place in memory is skipped when there is another; else the first one is taken."""
    memory, disk = tmp_path / "memory", tmp_path / "disk"

    def filesystem(path: Path) -> str:
        return "tmpfs" if path == memory else "ext4"

    monkeypatch.setattr("benchmarks.machine.filesystem_of", filesystem)
    assert workplace([memory, disk]) == disk
    assert workplace([memory]) == memory
