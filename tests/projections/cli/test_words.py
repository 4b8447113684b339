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
        ("sesions", "no such command 'sesions'; did you mean 'sessions'?; see `eventlog --help`"),
        ("show", "missing argument 'SESSION'; see `eventlog show --help`"),
        ("show a b", "got unexpected extra argument (b)"),
        ("head x", "got unexpected extra argument (x)"),
        ("sessions --limt 3", "no such option '--limt'; did you mean '--limit'?; see `eventlog sessions --help`"),
        ("sessions --limit", "option '--limit' requires an argument"),
        ("sessions --limit x", "invalid value for '--limit' / '-n': 'x' is no whole number from 0 on"),
        ("sessions --limit -3", "invalid value for '--limit' / '-n': '-3' is no whole number from 0 on"),
        ("sessions --limit 1234567890123456789", "invalid value for '--limit'"),
        ("sessions --json=yes", "option '--json' does not take a value"),
        (
            "view a --format pdf",
            "invalid value for '--format': 'pdf' is not one of 'neutral', 'openai-chat', 'openai-responses', 'anthropic', 'gemini', 'ai-sdk'",
        ),
        ("diff a 1 x", "invalid value for 'B': 'x' is no whole number from 1 on"),
        ("restore x", "missing option '--into'"),
        ("--limit 3 sessions", "no such option '--limit'"),
        ("--json export a --format jsonl", "no such option '--json'"),
        ("--store", "option '--store' requires an argument"),
        ("--json", "missing command"),
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
    assert lines[0] == "Usage: eventlog restore [OPTIONS] FROM"
    assert "or address of an empty one on a server. [required]" in " ".join(" ".join(lines).split())
    assert max(map(len, lines)) <= 60
    assert "[default: 10]" in " ".join(cli("tail", "--help").out.split())
    assert "--search / --no-search" in cli("redact", "--help").out
    assert "[default: refuse]" in cli("erase", "--help").out
    assert cli("erase", "nothing", "--help").out == cli("erase", "--help").out
