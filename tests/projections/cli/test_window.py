"""`window` shows what fills the window as JSON, tables and a chart, and changes nothing."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import eventlog
from projections.cli.exits import Exit
from projections.loop import ContextWindow
from projections.loop.context.report import window_report
from projections.window.prune.planners import PLANNERS
from tests.support.cli_runner import Cli, on_terminal, valid
from tests.support.cli_sessions import LIMITS, talk


@pytest.fixture(autouse=True)
def _switched_on(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("EVENTLOG_PRUNE", "EVENTLOG_AUTO_COMPACT"):
        monkeypatch.delenv(name, raising=False)


def test_window_as_json_is_the_report(cli: Cli, talked: Path) -> None:
    """`window --json` is the report, fits its schema, and its kinds sum to the count."""
    found = cli("window", "talk", "--json").json
    valid("window", found)
    assert sum(found["kinds"].values()) == found["counted"]
    with eventlog.open(talked, read_only=True) as store:
        assert found == json.loads(
            json.dumps(window_report(ContextWindow(store.session("talk")), words=True).as_json())
        )
        session = store.session("talk")
        assert (found["session"], found["version"]) == ("talk", session.version)
    assert found["usable"] == LIMITS.context - (LIMITS.output or 0)
    assert {part["tool"] for part in found["prune"]["parts"]} == {"read"}
    assert found["compaction"]["messages"] > 0


def test_window_listing_as_long_as_asked_for(cli: Cli, talked: Path) -> None:
    """`--top` limits the lists of largest messages and parts, sorted by size."""
    del talked
    for top in (0, 3):
        found = cli("window", "talk", "--top", top, "--json").json
        valid("window", found)
        assert (len(found["largest_messages"]), len(found["largest_parts"])) == (top, top)
    sizes = [part["tokens"] for part in cli("window", "talk", "--json").json["largest_parts"]]
    assert sizes == sorted(sizes, reverse=True)


def test_limits_are_recorded_or_given(cli: Cli, tmp_path: Path) -> None:
    """An unknown window is reported as unknown; options give its size for this call."""
    with eventlog.open(tmp_path / "store") as store:
        store.create_session(id="bare").user("hello")
    talk(tmp_path / "store")
    unknown = cli("window", "bare", "--json").json
    valid("window", unknown)
    assert (unknown["limits"], unknown["usable"]) == (None, None)
    assert "give --context" in cli("window", "bare").out
    given = cli("window", "bare", "--context", 9_000, "--output", 1_000, "--json").json
    assert (given["limits"], given["usable"]) == ({"context": 9_000, "output": 1_000, "input": None}, 8_000)
    assert cli("window", "bare", "--context", 0, "--json").json["usable"] is None
    assert "unlimited" in cli("window", "bare", "--context", 0).out
    other = cli("window", "talk", "--output", 5_000, "--json").json
    assert other["limits"] == {"context": 20_000, "output": 5_000, "input": None}
    assert cli("window", "talk", "--input", 10_000, "--json").json["usable"] == 10_000 - 4_000
    refused = cli("window", "bare", "--output", 5)
    assert refused.code == Exit.USAGE
    assert "--context" in refused.err
    assert cli("window", "bare", "--json").json == unknown, "nothing is recorded"


def test_window_of_another_policy(cli: Cli, talked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Preset, planner, model and switches are obeyed; an unknown name is a wrong call."""
    del talked
    opencode = cli("window", "talk", "--preset", "opencode-1.18", "--json").json
    valid("window", opencode)
    assert (opencode["preset"], opencode["counter"], opencode["prune"]["policy"]) == (
        "opencode-1.18",
        "chars/4",
        "opencode",
    )
    assert cli("window", "talk", "--policy", "cost-aware", "--json").json["prune"]["policy"] == "cost-aware"
    assert cli("window", "talk", "--inside", "--json").json["prune"]["inside"]
    assert cli("window", "talk", "--model", "acme/two", "--json").json["model"] == "two"
    monkeypatch.setenv("EVENTLOG_PRUNE", "0")
    monkeypatch.setenv("EVENTLOG_AUTO_COMPACT", "off")
    off = cli("window", "talk", "--json").json
    assert (off["auto"], off["prune"]["enabled"]) == (False, False)
    assert "prune: switched off" in cli("window", "talk").out
    monkeypatch.setenv("EVENTLOG_PRUNE", "perhaps")
    wrong = cli("window", "talk")
    assert (wrong.code, len(wrong.err.splitlines())) == (Exit.USAGE, 1)
    monkeypatch.delenv("EVENTLOG_PRUNE")
    unknown = cli("window", "talk", "--policy", "nonsense")
    assert (unknown.code, cli("prune", "talk", "--policy", "nonsense").code) == (Exit.USAGE, Exit.USAGE)
    assert "'--policy': 'nonsense' is not one of " in unknown.err
    assert all(f"'{planner}'" in unknown.err for planner in PLANNERS)


def test_window_piped_is_plain(cli: Cli, talked: Path) -> None:
    """A pipe gets tables with tabs, the first words of messages, and the plans in words."""
    del talked
    answer = cli("window", "talk")
    assert answer.code == Exit.OK
    assert "\x1b" not in answer.out
    kinds = dict(line.split("\t") for line in answer.out.splitlines() if line.count("\t") == 1)
    found = cli("window", "talk", "--json").json
    assert int(kinds["tool results"]) == found["kinds"]["results"]
    for words in ("prune (recency)", "compaction: ", "next step: ", f"of {found['usable']:,} usable"):
        assert words in answer.out
    message = found["largest_messages"][0]
    assert message["words"]
    assert f"{message['id']}\t{message['role']}\t{message['words']}\t{message['tokens']}\n" in answer.out


@pytest.mark.parametrize("columns", [30, 100])
def test_window_drawn_on_a_terminal(talked: Path, columns: int) -> None:
    """A terminal gets tokens and shares of which none is cut, and bars where there is room."""
    code, drawn = on_terminal("--store", talked, "window", "talk", columns=columns)
    assert code == Exit.OK
    lines = re.sub(r"\x1b\[[0-9;]*m|\r", "", drawn).splitlines()
    assert any("█" in line for line in lines) == (columns == 100)
    with eventlog.open(talked, read_only=True) as store:
        report = window_report(ContextWindow(store.session("talk")))
    for name, tokens in (("tool results", report.kinds.results), ("free", (report.usable or 0) - report.tokens)):
        assert re.search(rf"{name} +{tokens:,} +\d+\.\d %", "\n".join(lines))


def test_window_of_a_session_that_is_not_there(cli: Cli, tmp_path: Path) -> None:
    """Each window command says that the session is missing."""
    commands = (
        ["window", "s"],
        ["prune", "s"],
        ["prune", "s", "--dry-run"],
        ["compact", "s"],
        ["undo", "s"],
        ["recall", "s", "p"],
    )
    talk(tmp_path / "store", turns=1)
    for command in commands:
        answer = cli(*command)
        assert answer.code == Exit.MISSING
        assert "eventlog sessions" in answer.err
