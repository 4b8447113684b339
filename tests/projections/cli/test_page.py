"""The page of the command line: its tables are those of the program, its examples run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from projections.cli.registry import COMMANDS
from tests.projections.cli.page import PAGE, with_generated_parts
from tests.support.cli_runner import ROOT, Cli

TEXT = PAGE.read_text(encoding="utf-8")


def test_generated_parts_are_up_to_date() -> None:
    """Commands, options, exit codes, formats and schemas on the page are the program's."""
    assert with_generated_parts(TEXT) == TEXT, "run python -m tests.projections.cli.page"
    assert re.findall(r"^\| `([a-z]+)[ `]", TEXT, re.MULTILINE) == list(COMMANDS)


def test_the_first_commands_print_what_the_page_shows(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each command of the example prints the lines below it, but for ids and spaces."""
    monkeypatch.chdir(tmp_path)
    (document,) = re.findall(r"```json\n(.*?)```", TEXT, re.DOTALL)
    (tmp_path / "chat.json").write_text(document)
    (console,) = re.findall(r"```console\n(.*?)```", TEXT, re.DOTALL)
    steps = re.findall(r"^\$ eventlog (.+)\n((?:(?!\$ ).*\n)*)", console, re.MULTILINE)
    assert len(steps) == 5
    for command, shown in steps:
        answer = cli(*command.split())
        assert (answer.code, _words(answer.out)) == (0, _words(shown)), command


def _words(text: str) -> list[list[str]]:
    """Return the words of each line, ids without their hash."""
    return [re.sub(r"(openai_messages-)\w+", r"\1…", line).split() for line in text.splitlines()]


def test_links_lead_to_files() -> None:
    """Every link of the page leads to a file."""
    targets = re.findall(r"\]\(([^)#:]+)\)", TEXT)
    assert targets
    assert all((PAGE.parent / target).is_file() for target in targets)


def test_variables_are_the_programs() -> None:
    """Every environment variable of the page is one that the program, or Python for it, reads."""
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "projections").rglob("*.py"))
    for name in set(re.findall(r"\b(?:EVENTLOG_|OPENAI_|NO_COLOR|PAGER|COLUMNS)[A-Z_]*\b", TEXT)):
        assert f'"{name}"' in sources or (name == "COLUMNS" and "get_terminal_size" in sources), name
