from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import tomllib
from io import StringIO
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from rich.console import Console

import eventlog
from benchmarks.__main__ import measure
from benchmarks.alone import alone, syncs_between_marks, tracer
from benchmarks.baseline import Run, compared, read_run
from benchmarks.cases import CASES, chosen
from benchmarks.children import Worker, child
from benchmarks.engine import WAITS, waiting_turn
from benchmarks.figures import Curve, Figure, Measurement, Missing, Notes, Result, Sizes, Target, results_of
from benchmarks.history import begun, compacted, items_of
from benchmarks.limits import RawFile, decode_lines, decode_stream, encode_one_by_one
from benchmarks.machine import VOLATILE, describe, filesystem_of, workplace
from benchmarks.markdown import markdown
from benchmarks.measure import Samples, Timing, disk_bytes, in_turn, spent, written
from benchmarks.page import PAGE, with_numbers
from benchmarks.peers.base import Chat, Peer, PeerError, missing
from benchmarks.peers.registry import PEERS, present
from benchmarks.plots import INSTALL, PLOTS, can_draw, spread_out, write_plots
from benchmarks.report import (
    show_cases,
    show_changes,
    show_curves,
    show_missing,
    show_remarks,
    show_results,
    show_rows,
    write_json,
)
from benchmarks.scenarios.latency import add_rows, beside, figures_of
from benchmarks.scenarios.page_cache import cached, drop
from benchmarks.scenarios.sqlite_sessions import SqliteSessions
from benchmarks.sqlite_turns import SameFacts, TwoRows
from benchmarks.targets.space import free_pages
from benchmarks.turn_sides import SIDES
from benchmarks.workloads import ANSWER_CHARACTERS, TOOL_BYTES, deltas, generated_session, turns
from eventlog.codec.deltas import DeltaRun
from eventlog.importers import import_file
from projections.transcript.transcript import Transcript
from projections.view.model_view import ModelView
from tests.support.adding_worker import adds
from tests.support.missing import tool

ROOT = Path(__file__).resolve().parents[1]
TINY = Sizes(
    rounds=1, deltas=40, turns=4, counted=4, sustained=8, history=20, callers=3, appends=2, pending=20, flushes=3, generated=3, sessions=5,
    lengths=(4, 8), peer_lengths=(4, 8), patient=False, peer_turns=1, events=(100, 200), hurry=100, day=0.0,
    import_bytes=20_000,
)  # fmt: skip
MAY_BE_ZERO = (
    "target.4.free",
    "churn.free",
    "churn.erased",
    "cold.left",
    "folding.folds",
    "history.checkpoints",
    "window.",
    "written.",
)
"""Figures of which there may be none.

Free pages, what a short session never needs, what no system need count.
"""
NEEDS_BASELINE = (
    "deltas.one",
    "turn.raw",
    "turn.facts",
    "turn.history",
    "turn.sustained.p99",
    "log.threads",
    "session.tasks",
)


@pytest.fixture(scope="module")
def notes() -> Notes:
    """Notes that the cases of `results` write."""
    return Notes()


@pytest.fixture(scope="module")
def results(notes: Notes, tmp_path_factory: pytest.TempPathFactory) -> list[Result]:
    """Every case, at sizes that only prove that it runs."""
    place = tmp_path_factory.mktemp("benchmarks")
    return measure(CASES, TINY, place, None, console=Console(quiet=True), notes=notes)


def test_every_figure_of_every_case_is_measured(results: list[Result]) -> None:
    """A run reports each figure of each case once, in the order of the list."""
    assert [result.id for result in results] == [figure.id for case in CASES for figure in case.figures]
    assert all(result.value > 0 for result in results if not result.id.startswith(MAY_BE_ZERO))


def test_ratios_are_of_value_and_baseline(results: list[Result]) -> None:
    """`ratio` is `value / baseline`, and a target is met or not, never unknown."""
    found = {result.id: result for result in results}
    assert all(found[name].baseline for name in NEEDS_BASELINE)
    for result in results:
        if result.baseline is not None:
            assert result.ratio == pytest.approx(result.value / result.baseline)
        assert (result.met is None) == (result.target is None)


def test_the_json_has_the_documented_shape(results: list[Result], tmp_path: Path) -> None:
    """`--json OUT` holds the machine, the results and their notes, as `--baseline` reads it."""
    out = tmp_path / "out.json"
    said = Notes()
    said.curve("turn", "a", {1: 2.0})
    said.miss(Missing("p", "i", "r"))
    said.row("turns", "a", {"ms": 1.0, "syncs": None}, "slow")
    write_json(out, describe(tmp_path, "none"), results, said)
    document = json.loads(out.read_text(encoding="utf-8"))
    assert set(document) == {"machine", "results", "rows", "curves", "remarks", "missing"}
    assert document["rows"] == [{"table": "turns", "side": "a", "cells": {"ms": 1.0, "syncs": None}}]
    assert document["remarks"] == {"a": "slow"}
    assert document["curves"] == [{"plot": "turn", "side": "a", "points": [[1.0, 2.0]]}]
    assert document["missing"] == [{"peer": "p", "install": "i", "reason": "r"}]
    assert read_run(out).results == results
    assert {"system", "processor", "cores", "filesystem", "python", "libraries", "data"} <= set(document["machine"])
    assert len(document["results"]) == len(results)
    for entry in document["results"]:
        assert list(entry) == ["id", "value", "unit", "baseline", "ratio", "target", "met"]


def test_the_table_names_every_figure(results: list[Result]) -> None:
    """Tables have a line for each figure, measured or only listed."""
    figures = {figure.id: figure for case in CASES for figure in case.figures}
    text = StringIO()
    console = Console(width=300, file=text)
    show_results(console, figures, results)
    assert all(name in text.getvalue() for name in figures)
    text.truncate(0)
    show_cases(console, CASES)
    assert all(name in text.getvalue() for name in figures)


def test_tables_fit_the_paper(results: list[Result], notes: Notes) -> None:
    """At 120 columns every number of every table is whole.

    Every side of a comparison has its line and its remark.
    """
    text = StringIO()
    console = Console(width=120, file=text)
    show_results(console, {figure.id: figure for case in CASES for figure in case.figures}, results)
    show_rows(console, notes.rows)
    show_remarks(console, notes.remarks)
    shown = text.getvalue()
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= 120
    turn_table = [row for row in notes.rows if row.table == "a durable turn"]
    assert [row.side for row in turn_table] == [kind.title for kind in SIDES.values()]
    assert all(list(row.cells) == list(turn_table[0].cells) for row in turn_table)
    for row in turn_table:
        assert row.side in shown
        assert row.side in notes.remarks


def test_the_program_runs_what_is_asked_for(tmp_path: Path) -> None:
    """`--only` runs the named figures' cases, `--json` writes them with the file system."""
    out = tmp_path / "out.json"
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--short", "--only", "flush.bytes", "--json", str(out)],
        cwd=ROOT, env={**os.environ, "COLUMNS": "200"}, capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    document = json.loads(out.read_text(encoding="utf-8"))
    assert [entry["id"] for entry in document["results"]] == ["flush.bytes", "flush.bytes.all"]
    assert document["machine"]["filesystem"] in ran.stderr
    assert "flush.bytes" in ran.stdout


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


def test_names_choose_cases() -> None:
    """A name is a case, a figure, or a prefix of one before a dot; no name is all."""
    assert chosen([]) == list(CASES)
    assert [case.id for case in chosen(["view", "deltas"])] == ["deltas.one", "deltas.two", "view"]
    assert [case.id for case in chosen(["turn.raw"])] == ["turn"]
    assert [case.id for case in chosen(["target.2"])] == ["peers", "target.2.flat"]


def test_targets_say_which_side_is_good() -> None:
    """A target is met on its own side, and on its bound unless it is a strict one."""
    assert Target("<=", 1.5).met(1.5)
    assert not Target("<=", 1.5).met(1.51)
    assert not Target("<", 1).met(1)
    assert Target(">=", 6).met(6)
    assert not Target(">=", 6).met(5.9)


def test_a_case_must_measure_its_figures() -> None:
    """A case with a missing or superfluous figure is an error."""
    case = CASES[0]._replace(id="c", figures=(Figure("a", "", "s"),))
    with pytest.raises(ValueError, match="c measured"):
        results_of(case, {})
    [result] = results_of(case, {"a": Measurement(2.0)})
    assert (result.baseline, result.ratio, result.met) == (None, None, None)


def test_every_target_of_the_nine_has_a_figure() -> None:
    """Each of the nine targets has figures of its own, each with a bound."""
    figures = [figure for case in CASES for figure in case.figures if figure.id.startswith("target.")]
    assert {figure.id.split(".")[1] for figure in figures if figure.target} == {str(number) for number in range(1, 10)}
    assert {figure.id for figure in figures if not figure.target} == {
        "target.3.threads.bare",
        "target.3.tasks.bare",
        "target.4.journal",
        "target.7.next.warm",
        "target.7.render.replay",
        "target.9.count.long",
    }


def test_curves_have_a_point_for_each_length(results: list[Result], notes: Notes) -> None:
    """A case over lengths records every length, for the engine and its peers."""
    assert results
    curves = {(curve.plot, curve.side): [length for length, _ in curve.points] for curve in notes.curves}
    assert set(PLOTS) == {plot_name for plot_name, _ in curves} - {"stream"}
    for plot_name in ("turn", "load", "kept"):
        assert curves[plot_name, "everdelta"] == curves[plot_name, "plain SQLite FULL"] == [4.0, 8.0]
    assert curves["length", "median"] == curves["next", "everdelta"] == [4.0, 8.0]
    assert curves["open", "session and view"] == [100.0, 200.0]


def test_a_missing_peer_is_reported_with_the_line_that_installs_it() -> None:
    """A peer that cannot be imported is noted once, with reason and install line."""
    absent = Peer("p", "A peer", durable=True, package="no_such_package", install="pip install p")
    gap = missing(absent)
    assert gap is not None
    assert (gap.peer, gap.install) == ("A peer", "pip install p")
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
    told = {
        requirement for line in (INSTALL, *(peer.install for peer in PEERS)) for requirement in line.split("'")[1::2]
    }
    assert told == set(project["optional-dependencies"]["bench"])


@pytest.mark.parametrize("peer", [peer for peer in PEERS if missing(peer) is None], ids=lambda peer: peer.id)
def test_a_peer_keeps_what_it_is_given(peer: Peer, tmp_path: Path) -> None:
    """Turns that a peer was given are there when its store is opened again.

    Only installed peers are tried: the extra `bench` is no requirement of the tests.
    """
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


def test_a_server_that_does_not_start_is_missing() -> None:
    """A peer whose server does not answer is reported as missing, and the run goes on."""

    def silent(directory: Path) -> Chat:
        raise PeerError(f"nobody answers in {directory.name}")

    gap = missing(Peer("s", "A server", durable=True, install="pip install s", chat=silent, server=True))
    assert gap == Missing("A server", "pip install s", "PeerError: nobody answers in trial")


def test_a_run_is_compared_by_ratios() -> None:
    """Better and worse follow the target's side, on any machine.

    Figures without a baseline are compared as they are.
    """

    def result(name: str, value: float, baseline: float | None, target: str | None = None, unit: str = "ms") -> Result:
        return Result(name, value, unit, baseline, value / baseline if baseline else None, target, None)

    then = [
        result("a", 1, 1),
        result("b", 1, 1, ">= 1"),
        result("c", 4, None),
        result("d", 1, 1),
        result("f", 1, 1, None, "/s"),
    ]
    now = [
        result("a", 8, 4),
        result("b", 8, 4, ">= 1"),
        result("c", 1, None),
        result("e", 1, 1),
        result("f", 1, 2, None, "/s"),
    ]
    figures = {"a": Figure("a", "", "ms", before=Target("<=", 2)), "d": Figure("d", "", "ms", before=Target("<=", 0.5))}
    now.append(result("d", 1, 1))
    changes = {change.id: change for change in compared(then, now, figures)}
    assert {name: change.verdict for name, change in changes.items()} == {
        "a": "worse", "b": "better", "c": "better", "d": "same", "f": "worse",
    }  # fmt: skip
    assert (changes["a"].times, changes["a"].is_ratio, changes["c"].is_ratio) == (2, True, False)
    assert {name: change.met for name, change in changes.items()} == {
        "a": True, "b": None, "c": None, "d": False, "f": None,
    }  # fmt: skip
    text = StringIO()
    show_changes(Console(width=200, file=text), list(changes.values()))
    assert all(word in text.getvalue() for word in ("worse", "better", "met", "short"))


@pytest.mark.parametrize("ending", ["svg", "png"] if can_draw() else [])
def test_plots_are_drawn_from_curves(ending: str, tmp_path: Path) -> None:
    """Each plot that has a curve becomes a picture that names the sides with points.

    Needs matplotlib: the group `bench` is not among the tests' requirements.
    """
    curves = [
        Curve("turn", "everdelta", [(100, 0.2), (5000, 0.3)]),
        Curve("turn", "A & B", [(100, 20), (5000, 700)]),
        Curve("turn", "nothing to draw", [(1, 0)]),
        Curve("memory", "everdelta", [(0, 20), (4000, 21)]),
        Curve("stream", "everdelta", [(2000, 1)]),
    ]
    written = write_plots(tmp_path, curves)
    assert [path.name for path in written] == ["turn.svg", "memory.svg"]
    assert sorted(path.stem for path in tmp_path.glob(f"*.{ending}")) == ["memory", "turn"]
    if ending == "png":
        assert all(path.read_bytes().startswith(b"\x89PNG") for path in tmp_path.glob("*.png"))
    else:
        document = ET.fromstring(written[0].read_text(encoding="utf-8"))  # noqa: S314 - what was just written
        labels = ["".join(node.itertext()).strip() for node in document.iter("{http://www.w3.org/2000/svg}text")]
        assert {"everdelta", "A & B", "100", "5,000", "messages in it", PLOTS["turn"].title} <= set(labels)
        assert "nothing to draw" not in labels


def test_drawing_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    """`--plot` without matplotlib is a wrong call that says how to install it.

    All other options work without it.
    """
    hidden = "import sys; sys.modules['matplotlib'] = None; from benchmarks.__main__ import main; "
    for more, code in (("['--list']", 0), (f"['--list', '--plot', {str(tmp_path)!r}]", 2)):
        ran = subprocess.run(
            [sys.executable, "-c", f"{hidden}sys.exit(main({more}))"],
            cwd=ROOT, capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert ran.returncode == code
        assert (INSTALL in ran.stderr) == (code == 2)


def test_names_of_lines_keep_their_distance() -> None:
    """Names stand near their lines' ends, in the lines' order, legible and inside the plot."""
    assert spread_out([0.9, 0.1]) == [0.9, 0.1]
    for wanted in ([0.5, 0.5, 0.5], [0.0, 0.01, 0.99, 1.0], [0.3] * 30, [1.0, 0.98, 0.4]):
        found = spread_out(wanted)
        apart = min(0.05, 1 / (len(wanted) - 1))
        heights = sorted(found)
        assert all(high - low >= apart - 1e-9 for low, high in pairwise(heights))
        assert heights[0] >= 0
        assert heights[-1] <= 1 + 1e-9
        assert sorted(wanted) == [want for _, want in sorted(zip(found, wanted, strict=True))]


def test_the_markdown_has_the_targets_and_the_peers(results: list[Result], notes: Notes, tmp_path: Path) -> None:
    """A run as Markdown has a line for each target, a table for each plot, and missing peers."""
    figures = {figure.id: figure for case in CASES for figure in case.figures}
    run = Run(results, describe(tmp_path, "none"), curves=notes.curves, missing=[Missing("p", "pip install p", "r")])
    text = markdown(run, figures, ["plots/turn.svg"])
    lines = text.splitlines()
    targets = [result for result in results if result.target is not None and result.ratio is not None]
    assert text.count(", missed |") == len([result for result in targets if not result.met])
    assert len([line for line in lines if "≤" in line or "≥" in line or "| < " in line]) == len(targets)
    assert len([line for line in lines if line.startswith("| plain SQLite FULL |")]) == 4
    assert "pip install p" in text
    assert "](plots/turn.svg)" in text
    shown = StringIO()
    show_curves(Console(width=200, file=shown), notes.curves)
    assert "plain SQLite FULL" in shown.getvalue()


def test_the_page_has_the_numbers_of_the_baseline() -> None:
    """`benchmarks/README.md` is the output of `python -m benchmarks.page`."""
    page = PAGE.read_text(encoding="utf-8")
    assert page == with_numbers(page)


def test_a_history_is_what_turns_would_have_left(tmp_path: Path) -> None:
    """A history appended in bulk can be continued by a handle and gives the turns' view."""
    work = turns(3)
    with eventlog.open(tmp_path / "store") as store:
        session = store.session(begun(store, work))
        assert session.info.messages == 6
        said = Transcript(session).oldest_first()
        assert [message.parts[0].text for message in said[::2]] == [turn.question for turn in work]
        assert said[1].parts[0].text == "".join(work[0].answer)
        assert said[1].parts[1].text == work[0].output
        compacted(session, "What was done.")
        session.user("Go on")
        view = ModelView.of(session).messages
        assert [message.role for message in view] == ["user", "assistant", "user"]


def test_free_pages_are_counted(tmp_path: Path) -> None:
    """Free pages are counted: a store has some pages, and fewer free ones."""
    with eventlog.open(tmp_path / "store") as store:
        begun(store, turns(20))
    free, every = free_pages(tmp_path / "store")
    assert 0 <= free < every


def test_a_child_says_what_it_measured() -> None:
    """A snippet runs in its own process with packages and arguments and returns a value."""
    assert child("import sys, eventlog; print([*map(int, sys.argv[1:])])", "1", "2") == [1, 2]


def test_a_worker_answers_again_and_again() -> None:
    """A worker keeps its state between calls; its error is raised at the caller."""
    with Worker(adds, "10") as worker:
        assert [worker.ask(1), worker.ask(5)] == [11, 16]
        worker.send(4)
        assert worker.receive() == 20
        with pytest.raises(subprocess.CalledProcessError):
            worker.ask(-1)


def test_a_latency_has_figures_and_columns() -> None:
    """Median and slow end are figures; processor time is a column of each side."""
    slow, quick = Samples(), Samples()
    slow.add([Timing(0.004, 0.002), Timing(0.008, 0.003)])
    quick.add([Timing(0.001, 0.001)])
    found = beside("a", slow, quick)
    assert set(found) == {figure.id for figure in figures_of("a", "work", "other work")}
    assert found["a"] == pytest.approx(Measurement(6.0, 1.0))
    assert found["a.p99"] == pytest.approx(Measurement(8.0, 1.0))
    notes = Notes()
    add_rows(notes, "works", {"slow": slow, "quick": quick})
    assert [(row.table, row.side) for row in notes.rows] == [("works", "slow"), ("works", "quick")]
    assert notes.rows[0].cells == pytest.approx({"ms": 6.0, "p10 ms": 4.0, "CPU ms": 2.5, "p99 ms": 8.0})


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="this system drops no pages")
def test_pages_are_dropped_from_the_cache(tmp_path: Path) -> None:
    """Written pages are cached; once dropped they are not, and are read unharmed."""
    (tmp_path / "empty").touch()
    file = tmp_path / "below" / "file"
    file.parent.mkdir()
    data = os.urandom(1 << 20)
    file.write_bytes(data)
    with file.open("r+b") as opened:
        before = cached(opened.fileno())
    assert before.there == before.all > 0
    dropped = drop(tmp_path)
    assert dropped.all == before.all
    assert file.read_bytes() == data
    if filesystem_of(tmp_path) not in VOLATILE:
        assert dropped.there < before.there


def test_many_conversations_in_one_sqlite_file(tmp_path: Path) -> None:
    """SQLite's side keeps conversations apart, and gives their space back."""
    [one, other] = turns(2)
    with SqliteSessions(tmp_path / "sqlite") as sqlite:
        sqlite.turn(one, "a")
        sqlite.turns([one, other], "b")
        sqlite.user("Go on", "b")
        assert (sqlite.load("a"), sqlite.load("b"), sqlite.page("b", 2), sqlite.newest("b")) == (2, 5, 2, 7)
        sqlite.turns(turns(100), "b")
        sqlite.erase("b")
        assert (sqlite.load("a"), sqlite.load("b")) == (2, 0)
        sqlite.vacuum()
    assert disk_bytes(tmp_path / "sqlite") < 100_000


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


def test_samples_give_medians_and_percentiles() -> None:
    """The median halves the times; a percentile is one of them."""
    samples = Samples()
    samples.add(float(number) for number in range(1, 101))
    assert samples.median == 50.5
    assert samples.percentile(0.99) == 100.0
    samples = Samples()
    samples.add([Timing(1.0, 0.5), Timing(3.0, 0.7)])
    assert (samples.median, samples.median_cpu) == (2.0, 0.6)


def test_processor_time_is_not_waiting() -> None:
    """A wait takes seconds and hardly any processor time."""
    waited = spent(lambda: time.sleep(0.05))
    assert waited.cpu < 0.05 <= waited.seconds


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="only Linux counts a process's writes")
def test_bytes_written_are_counted(tmp_path: Path) -> None:
    """Written bytes are counted exactly."""
    before = written()
    (tmp_path / "file").write_bytes(b"x" * 1000)
    assert written() - before == 1000


def test_the_workload_is_the_same_each_time() -> None:
    """Turns have the stated sizes, are all different, and the same in every run."""
    work = turns(5)
    assert work == turns(5)
    assert len({turn.output for turn in work}) == 5
    for turn in work:
        assert len("".join(turn.answer)) == ANSWER_CHARACTERS
        assert len(turn.output.encode()) == TOOL_BYTES
        assert len(turn.text_bytes()) > ANSWER_CHARACTERS + TOOL_BYTES
    assert len(deltas(7)) == 7


def test_a_generated_session_is_one_that_can_be_imported(tmp_path: Path) -> None:
    """Without recorded sessions a generated one in their form is imported whole."""
    path = generated_session(tmp_path / "generated.jsonl", 3)
    assert decode_lines(path) == 12
    with eventlog.open("memory:") as store:
        report = import_file(store, path)
        [info] = store.sessions()
    assert (report.skipped, info.messages) == ([], report.messages)


def test_a_stream_is_decoded_event_by_event(tmp_path: Path) -> None:
    """The limit for streams decodes their data and nothing else."""
    path = tmp_path / "stream.sse"
    path.write_text('event: x\ndata: {"a": 1}\n\ndata: [DONE]\n')
    assert decode_stream(path) == 1


def test_the_limits_do_the_work(tmp_path: Path) -> None:
    """The raw-file limits write the turn's bytes and encode its values."""
    [turn] = turns(1)
    with RawFile(tmp_path / "raw", size=1 << 20) as raw:
        raw.write(turn.text_bytes())
    assert (tmp_path / "raw").read_bytes().startswith(turn.text_bytes())
    encode_one_by_one(deltas(4), ["a", "b"])


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


@pytest.mark.parametrize("each_delta", [False, True], ids=["run", "deltas"])
@pytest.mark.parametrize("each_wait", [False, True], ids=["one", "four"])
def test_sqlite_keeps_the_facts_that_the_engine_keeps(tmp_path: Path, *, each_delta: bool, each_wait: bool) -> None:
    """SQLite has a row for each event or run, in one transaction or four.

    The body is under its hash, and a head counts events and messages.
    """
    [turn] = turns(1)
    side = SameFacts(tmp_path / "facts.db", each_delta=each_delta, each_wait=each_wait)
    statements: list[str] = []
    side.connection.set_trace_callback(statements.append)
    side.turn(turn)
    side.connection.set_trace_callback(None)
    assert statements.count("COMMIT") == (WAITS if each_wait else 1)
    rows = side.connection.execute("SELECT version, data FROM event ORDER BY version").fetchall()
    streamed = len(turn.answer) if each_delta else 1
    assert len(rows) == len(items_of(1, turn, 0, {})) - 1 + streamed
    assert rows[-1][0] == 9 + len(turn.answer)
    assert side.connection.execute("SELECT version, messages FROM session").fetchall() == [(rows[-1][0], 2)]
    assert side.connection.execute("SELECT length(hash), substr(data, 2) FROM body").fetchall() == [
        (32, turn.output.encode())
    ]
    side.close()


def test_the_engine_keeps_as_many_events_of_a_turn(tmp_path: Path) -> None:
    """SQLite gets the facts that the README's turn leaves in the engine's log."""
    [turn] = turns(1)
    facts = [item for item in items_of(1, turn, 0, {}, each_delta=True) if not isinstance(item, DeltaRun)]
    expected = sorted(type(event).__name__ for _, event in facts)
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
