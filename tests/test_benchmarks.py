from __future__ import annotations

import json
import os
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

import eventlog
from benchmarks.__main__ import measure
from benchmarks.cases import CASES, chosen
from benchmarks.figures import Figure, Measured, Result, Sizes, Target, results_of
from benchmarks.limits import RawFile, SqliteTurns, decode_lines, decode_stream, encode_one_by_one
from benchmarks.machine import describe, workplace
from benchmarks.measure import Samples, in_turn, written
from benchmarks.report import show_cases, show_results, write_json
from benchmarks.workloads import ANSWER_CHARACTERS, TOOL_BYTES, deltas, generated_session, turns
from eventlog.importers import import_file

ROOT = Path(__file__).resolve().parents[1]
TINY = Sizes(rounds=1, deltas=40, turns=4, history=20, callers=3, appends=2, flushes=3, generated=3, sessions=5)
NEEDS_BASELINE = ("deltas.one", "turn.raw", "turn.sqlite-full", "turn.history", "log.threads", "session.tasks")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[Result]:
    """Every case, at sizes that prove nothing but that it runs."""
    return measure(CASES, TINY, tmp_path_factory.mktemp("benchmarks"), None, Console(quiet=True))


def test_every_figure_of_every_case_is_measured(results: list[Result]) -> None:
    """A run reports each figure of each case once, in the order of the list."""
    assert [result.id for result in results] == [figure.id for case in CASES for figure in case.figures]
    assert all(result.value > 0 for result in results)


def test_ratios_are_of_value_and_baseline(results: list[Result]) -> None:
    """`ratio` is `value / baseline`, and a target is met or not, never unknown."""
    found = {result.id: result for result in results}
    assert all(found[name].baseline for name in NEEDS_BASELINE)
    for result in results:
        if result.baseline is not None:
            assert result.ratio == pytest.approx(result.value / result.baseline)
        assert (result.met is None) == (result.target is None)


def test_the_json_has_the_documented_shape(results: list[Result], tmp_path: Path) -> None:
    """`--json OUT` is `{"machine": {…}, "results": [{"id", "value", "unit", "baseline", "ratio", "target", "met"}]}`."""
    out = tmp_path / "out.json"
    write_json(out, describe(tmp_path, "none"), results)
    document = json.loads(out.read_text(encoding="utf-8"))
    assert set(document) == {"machine", "results"}
    assert {"system", "processor", "cores", "filesystem", "python", "libraries", "data"} <= set(document["machine"])
    assert len(document["results"]) == len(results)
    for entry in document["results"]:
        assert list(entry) == ["id", "value", "unit", "baseline", "ratio", "target", "met"]


def test_the_table_names_every_figure(results: list[Result]) -> None:
    """What a person reads has a line for each figure, measured or only listed."""
    figures = {figure.id: figure for case in CASES for figure in case.figures}
    text = StringIO()
    console = Console(width=300, file=text)
    show_results(console, figures, results)
    assert all(name in text.getvalue() for name in figures)
    text.truncate(0)
    show_cases(console, CASES)
    assert all(name in text.getvalue() for name in figures)


def test_the_program_runs_what_is_asked_for(tmp_path: Path) -> None:
    """`--only` runs the named figures' cases and `--json` writes them; the file system is told."""
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
    """`--only` with a name that means nothing is refused before anything runs."""
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--only", "nothing"],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert ran.returncode == 2
    assert "nothing" in ran.stderr
    with pytest.raises(KeyError):
        chosen(["nothing"])


def test_names_choose_cases() -> None:
    """A name is a case, a figure, or the beginning of one before a dot; no name is everything."""
    assert chosen([]) == list(CASES)
    assert [case.id for case in chosen(["view", "deltas"])] == ["deltas.one", "deltas.two", "view"]
    assert [case.id for case in chosen(["turn.raw"])] == ["turn"]


def test_targets_say_which_side_is_good() -> None:
    """A target is met on its own side, and on its bound unless it is a strict one."""
    assert Target("<=", 1.5).met(1.5)
    assert not Target("<=", 1.5).met(1.51)
    assert not Target("<", 1).met(1)
    assert Target(">=", 6).met(6)
    assert not Target(">=", 6).met(5.9)


def test_a_case_must_measure_its_figures() -> None:
    """A case that forgets a figure, or has one too many, is an error and not a gap in the report."""
    case = CASES[0]._replace(id="c", figures=(Figure("a", "", "s"),))
    with pytest.raises(ValueError, match="c measured"):
        results_of(case, {})
    [result] = results_of(case, {"a": Measured(2.0)})
    assert (result.baseline, result.ratio, result.met) == (None, None, None)


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


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="only Linux counts a process's writes")
def test_bytes_written_are_counted(tmp_path: Path) -> None:
    """What is written is counted to the byte."""
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
        assert len(turn.plain()) > ANSWER_CHARACTERS + TOOL_BYTES
    assert len(deltas(7)) == 7


def test_a_generated_session_is_one_that_can_be_imported(tmp_path: Path) -> None:
    """Without recorded sessions there is one in their form: it is imported whole, nothing of it skipped."""
    path = generated_session(tmp_path / "generated.jsonl", 3)
    assert decode_lines(path) == 12
    with eventlog.open("memory:") as store:
        report = import_file(store, path)
        [info] = store.sessions()
    assert (report.skipped, info.messages) == ([], report.messages)


def test_a_stream_is_decoded_event_by_event(tmp_path: Path) -> None:
    """The limit for streams decodes their data, and nothing else."""
    path = tmp_path / "stream.sse"
    path.write_text('event: x\ndata: {"a": 1}\n\ndata: [DONE]\n')
    assert decode_stream(path) == 1


def test_the_limits_do_the_work(tmp_path: Path) -> None:
    """The raw file holds the turn's bytes, and SQLite two rows for each turn."""
    [turn] = turns(1)
    with RawFile(tmp_path / "raw", size=1 << 20) as raw:
        raw.write(turn.plain())
    assert (tmp_path / "raw").read_bytes().startswith(turn.plain())
    with SqliteTurns(tmp_path / "full.db", "FULL") as full:
        full.turn(turn)
        assert [role for (role,) in full.rows("role")] == ["user", "assistant"]
    encode_one_by_one(deltas(4), ["a", "b"])


def test_figures_are_measured_on_a_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A place in memory is passed over when there is another; when there is none, the first one is taken."""
    memory, disk = tmp_path / "memory", tmp_path / "disk"

    def filesystem(path: Path) -> str:
        return "tmpfs" if path == memory else "ext4"

    monkeypatch.setattr("benchmarks.machine.filesystem_of", filesystem)
    assert workplace([memory, disk]) == disk
    assert workplace([memory]) == memory
