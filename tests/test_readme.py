"""The README is true: its example runs, its files, commands and exit codes exist."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from eventlog.importers import FORMATS
from projections.cli.exits import Exit
from projections.cli.exits import __doc__ as EXIT_CODES  # noqa: N812  # the text that lists them
from tests.support.cli_runner import COMMANDS, SCHEMAS

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def test_the_example_runs(tmp_path: Path) -> None:
    """The README's fifteen-line example runs as it stands and leaves its session."""
    example = blocks("python")[0]
    assert len([line for line in example.splitlines() if line]) <= 15
    done = subprocess.run(
        [sys.executable, "-c", example],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"3 messages, \d+ tokens, version \d+\n", done.stdout)
    assert (tmp_path / "chats").is_dir()


def test_there_are_two_commands_and_ci_runs_them() -> None:
    """The README has exactly two first commands, and `.ci/run` takes them from there."""
    commands = [line for block in blocks("sh") for line in block.splitlines()]
    assert len(commands) == 2
    assert all(command.startswith("python3 -m venv .venv && .venv/bin/pip install -q ") for command in commands)
    assert commands[0].endswith("eventlog demo")
    assert "pytest" in commands[1].rpartition(" && ")[2]
    assert "grep '^python3 -m venv ' README.md" in (ROOT / ".ci" / "run").read_text()


def named_tests() -> list[str]:
    """Every test that the README names."""
    return sorted(set(re.findall(r"`(tests/[\w/]+\.py(?:::\w+)?)`", README)))


@pytest.mark.parametrize("name", named_tests())
def test_named_tests_are_there(name: str) -> None:
    """A test that the README names for a promise exists."""
    path, _, test = name.partition("::")
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    tests = {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
    assert any(found.startswith("test_") for found in tests)
    assert not test or test in tests


def test_every_promise_has_tests() -> None:
    """Each row of the table of promises names a test."""
    rows = re.search(r"^\| promise \| tests \|\n\|---\|---\|\n((?:\|.*\n)+)", README, re.MULTILINE)
    assert rows is not None
    for row in rows[1].splitlines():
        assert re.search(r"`tests/[\w/]+\.py", row), row


def test_linked_files_are_there() -> None:
    """Links and file names in the README lead to existing files."""
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target
    for name in re.findall(r"`((?:eventlog|projections|\.ci)/[\w./]+)`", README):
        assert (ROOT / name).exists(), name


def test_commands_formats_and_schemas_are_all_there() -> None:
    """The README lists every command, importable format and schema."""
    rows = re.findall(r"^\| `(\w+)[ `]", README, re.MULTILINE)
    assert rows == COMMANDS
    line = README.partition("Formats to import:")[2].partition("\n\n")[0]
    assert set(re.findall(r"`([\w-]+)`", line)) == set(FORMATS)
    assert set(re.findall(r"projections/schemas/(\w+)\.json", README)) == set(SCHEMAS)


def test_exit_codes_are_all_there() -> None:
    """The README's exit codes are those of the program, in the same words."""
    rows = re.findall(r"^\| (\d+) \| (.+) \|$", README, re.MULTILINE)
    assert [int(code) for code, _ in rows] == [code.value for code in Exit]
    assert EXIT_CODES is not None
    assert re.findall(r"^ *(\d+)  (.+)$", EXIT_CODES, re.MULTILINE) == rows


def test_the_changelog_and_the_licence_are_there() -> None:
    """The changelog has a place for the next version, and the licence is the declared one."""
    assert "## [Unreleased]" in (ROOT / "CHANGELOG.md").read_text()
    assert (ROOT / "LICENSE").read_text().startswith("MIT License")
