"""Words of a call: options on either side, values, and what is said of wrong ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from projections.cli.exits import Exit
from tests.support.cli_runner import Cli


@pytest.mark.parametrize(
    "call",
    [
        "--json --store STORE show ses_a1 --limit 1",
        "show --json ses_a1 --limit=1 --store STORE",
        "--store=STORE show --limit 1 ses_a1 --json",
        "--json show -n1 --store=STORE -- ses_a1",
        "show -n 1 ses_a1 --json",
    ],
)
def test_options_on_either_side(cli: Cli, store: Path, call: str) -> None:
    """--json and --store may stand before the command, and all options before arguments."""
    answer = cli(*call.replace("STORE", str(store)).split())
    assert answer.code == Exit.OK
    assert [message["id"] for message in json.loads(answer.out)["messages"]] == ["m2"]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("sesions", "there is no command 'sesions'; did you mean sessions?; see `eventlog --help`"),
        ("show", "show needs SESSION; see `eventlog show --help`"),
        ("show a b", "show takes SESSION; 'b' is one too many"),
        ("head x", "head takes no arguments; 'x' is one too many"),
        ("sessions --limt 3", "sessions has no option '--limt'; did you mean --limit?"),
        ("sessions --limit", "--limit needs a value: N"),
        ("sessions --limit x", "--limit is a whole number, not 'x'"),
        ("sessions --limit -3", "--limit is 0 or more, not -3"),
        ("sessions --json=yes", "--json takes no value"),
        ("view a --format pdf", "--format is one of neutral, openai, responses, anthropic, ai-sdk, not 'pdf'"),
        ("diff a 1 x", "B is a whole number, not 'x'"),
        ("restore x", "restore needs --into NEW"),
        ("--limit 3 sessions", "eventlog has no option '--limit'"),
        ("--json export a --format jsonl", "export has no option '--json'"),
        ("--store", "--store needs a value: PATH"),
    ],
)
def test_wrong_words_are_said(cli: Cli, call: str, words: str) -> None:
    """A wrong call is one line: the word, what is taken, and the help to read."""
    answer = cli(*call.split())
    assert (answer.code, answer.out) == (Exit.USAGE, "")
    assert answer.err.startswith(f"eventlog: {words}")
    assert answer.err.endswith("--help`\n")
    assert answer.err.count("\n") == 1


def test_values_that_begin_with_a_dash(cli: Cli, store: Path) -> None:
    """The word behind an option is its value; behind -- every word is an argument."""
    assert store
    part = cli("show", "ses_a1", "--json").json["messages"][0]["parts"][0]["id"]
    assert cli("recall", "ses_a1", part, "--search", "--json").code == Exit.OK
    assert cli("show", "--", "--help").code == Exit.MISSING


def test_flags_have_two_names(cli: Cli, store: Path) -> None:
    """The last of two names of a flag counts."""
    assert store
    assert cli("sessions", "--archived", "--json").json["sessions"] == []
    assert len(cli("sessions", "--archived", "--active", "--json").json["sessions"]) == 2


def test_the_help_of_a_command(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """The help has usage, arguments, options and their defaults, and fits the terminal."""
    monkeypatch.setenv("COLUMNS", "60")
    lines = cli("restore", "--help").out.splitlines()
    assert lines[0] == "Usage: eventlog restore FROM --into NEW [OPTIONS]"
    assert max(map(len, lines)) <= 60
    assert "[default: 10]" in " ".join(cli("tail", "--help").out.split())
    assert "--search / --no-search" in cli("redact", "--help").out
    assert cli("erase", "nothing", "--help").out == cli("erase", "--help").out
