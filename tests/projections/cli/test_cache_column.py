"""`timeline` and `window` tell what a step missed in its provider's cache."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import eventlog
from projections.reports.cache_rules import RULES
from projections.reports.cache_uses import CacheUse, cache_uses
from tests.support.cli_runner import Cli, on_terminal, valid
from tests.support.prefix_cache import Program, Provider

PLAIN = re.compile(r"\x1b\[[0-9;]*m|\r")
TEXT = "What a file says, line after line, until it ends. " * 40


@pytest.fixture
def use(tmp_path: Path) -> CacheUse:
    """The last of four steps, after a prune, of a session in the store of the command line."""
    clock = [1_700_000_000_000]
    with eventlog.open(tmp_path / "store", clock=lambda: clock[0]) as store:
        session = store.create_session(id="talk")
        session.set_system_prompt("You help. " * 500)
        program = Program(session, Provider(RULES["openai/"]), clock)
        session.user("Read them, and tell me what is in them and in all that they name")
        calls = [program.step("openai/gpt-5", "I read", (f"{number}.py {TEXT}",))[0] for number in range(3)]
        session.context.prune(calls[:1])
        program.step("openai/gpt-5", "Done")
        return [*cache_uses(session)][-1]


def test_the_documents_have_it(cli: Cli, use: CacheUse) -> None:
    """The JSON has expected and reported tokens, the cause and its version, and the money."""
    document = cli("timeline", "talk", "--json").json
    valid("timeline", document)
    told = [entry["cache"] for entry in document["entries"] if "cache" in entry]
    assert [entry["cause"] for entry in told] == ["", "", "", "prune"]
    assert told[-1]["missed"] == use.missed > 0
    assert use.lost
    assert told[-1]["lost"] == str(use.lost)
    document = cli("window", "talk", "--json").json
    valid("window", document)
    assert document["cache"] == {**told[-1], "step": None}


def test_the_lines_for_scripts_have_it(cli: Cli, use: CacheUse) -> None:
    """A cell has tokens read of those expected, cause, version and money; `window` has words."""
    cells = cli("timeline", "talk").out.splitlines()[-1].split("\t")
    assert f"{use.reported}/{use.expected} prune at {use.event} ${use.lost}" in cells
    assert f"; {use.missed} tokens missed in caches by 1 call, ${use.lost}" in cli("timeline", "talk").err
    line = next(line for line in cli("window", "talk").out.splitlines() if line.startswith("newest step: "))
    assert line.endswith(f"{use.missed:,} missed (prune at version {use.event}, ${use.lost})")


@pytest.mark.parametrize(("columns", "words"), [(80, "prune"), (120, "-{missed:,} prune at {event} <$0.01")])
def test_a_terminal_names_the_cause(tmp_path: Path, use: CacheUse, columns: int, words: str) -> None:
    """A narrow terminal names the cause, a wide one the missed tokens and the money as well."""
    shown = on_terminal("--store", tmp_path / "store", "timeline", "talk", columns=columns)[1]
    header, *lines = PLAIN.sub("", shown).splitlines()
    assert {"version", "kind", "words", "tokens", "cache", "cost"} <= set(header.split())
    step = [line for line in lines if "step" in line][-1]
    assert words.format(missed=use.missed, event=use.event) in step
    assert all(len(line) <= columns for line in lines)
