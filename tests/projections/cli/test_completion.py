"""Completion of commands, options, choices and ids of sessions."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import eventlog
from projections.cli.exits import Exit
from projections.cli.registry import COMMANDS
from projections.cli.words import COMPLETION
from tests.support.cli_runner import ROOT, Cli
from tests.support.missing import tool


@pytest.fixture
def listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with three sessions, the newest of them last."""
    monkeypatch.setenv("EVENTLOG_STORE", str(tmp_path / "store"))
    with eventlog.open(tmp_path / "store") as opened:
        for number, id in enumerate(("ses_a1", "ses_a2", "other")):
            opened.create_session(id=id, title=f"Title of {id}", time=1_750_000_000_000 + number)
    return tmp_path / "store"


@pytest.fixture
def completed(cli: Cli, listed: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Give the answer to the script of zsh for the end of a line: kind, word and description."""
    assert listed

    def call(line: str) -> str:
        words = ["eventlog", *line.split(" ")]
        monkeypatch.setenv(COMPLETION, "zsh_complete")
        monkeypatch.setenv("COMP_WORDS", " ".join(words))
        monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
        answer = cli()
        assert (answer.code, answer.err) == (Exit.OK, "")
        return answer.out

    return call


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("", list(COMMANDS)),
        ("s", ["search", "serve", "sessions", "show", "stats", "scrub"]),
        ("show ses_", ["ses_a1", "ses_a2"]),
        ("show ses_a1", ["ses_a1"]),
        ("show ", ["other", "ses_a2", "ses_a1"]),
        ("show ses_a1 ", []),
        ("show --l", ["--limit"]),
        ("show --limit ", []),
        ("sessions --parent ses_a2", ["ses_a2"]),
        ("view ses_a1 --format openai-c", ["openai-chat"]),
        ("view --format openai-chat ses_a", ["ses_a1", "ses_a2"]),
        ("--store elsewhere s", ["search", "serve", "sessions", "show", "stats", "scrub"]),
        ("recall ses_a1 --s", ["--search", "--store"]),
        ("completion f", ["fish"]),
        ("nonsense ", []),
    ],
)
def test_what_may_stand_there(completed: Callable[[str], str], line: str, found: list[str]) -> None:
    """The words that may stand at the end of a line, those of a store included."""
    answer = completed(line).strip().splitlines()
    assert sorted(answer[1::3]) == sorted(found)
    assert set(answer[::3]) <= {"plain"}


@pytest.mark.parametrize("line", ["--store ", "import ", "backup ", "export ses_a1 --output "])
def test_a_shell_completes_files(completed: Callable[[str], str], line: str) -> None:
    """Where a file or directory may stand, the shell is asked to complete it."""
    assert completed(line).splitlines()[0] == "file"


def test_ids_come_with_their_titles(completed: Callable[[str], str], tmp_path: Path) -> None:
    """An id comes with its title; a missing store gives neither ids nor an error."""
    assert completed("show ses_").splitlines() == ["plain", "ses_a1", "Title of ses_a1", "plain", "ses_a2", "Title of ses_a2"]  # fmt: skip
    assert completed(f"--store {tmp_path / 'nowhere'} show ").strip() == ""
    assert not (tmp_path / "nowhere").exists()


def test_a_title_stays_a_line(completed: Callable[[str], str], listed: Path) -> None:
    """A title with newlines and control characters is one harmless line beside its id."""
    with eventlog.open(listed) as opened:
        opened.create_session(id="evil", title="a\nplain\nforged\x1b[31m\u202e")
    assert completed("show evi").splitlines() == ["plain", "evil", "a\u240aplain\u240aforged\u241b[31m\\u202e"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_scripts_are_right_for_their_shells(cli: Cli, tmp_path: Path, shell: str) -> None:
    """Each script is one that its shell can read, where that is installed."""
    script = tmp_path / "script"
    script.write_text(cli("completion", shell).out)
    subprocess.run([tool(shell), "-n", str(script)], check=True)


def in_shell(shell: str, line: str, store: Path, place: Path) -> str:
    """Return what a line prints in a shell that has the program; skip without the shell."""
    program = place / "bin" / "eventlog"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m projections "$@"\n')
    program.chmod(0o755)
    variables = {"PATH": f"{program.parent}:{os.environ['PATH']}", "EVENTLOG_STORE": str(store), "HOME": str(place)}
    return subprocess.run(
        [tool(shell), "-c", line], env=variables, capture_output=True, text=True, check=True, cwd=place
    ).stdout


def test_bash_completes_a_session(listed: Path, tmp_path: Path) -> None:
    """In bash the script fills in the ids of the sessions."""
    line = (
        "source <(eventlog completion bash); COMP_WORDS=(eventlog show ses_); COMP_CWORD=2; _eventlog_completion eventlog; "
        'echo "${COMPREPLY[@]}"'
    )
    assert in_shell("bash", line, listed, tmp_path) == "ses_a1 ses_a2\n"


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("show ses_", ["ses_a1\tTitle of ses_a1", "ses_a2\tTitle of ses_a2"]),
        ("show ", ["other\tTitle of other", "ses_a1\tTitle of ses_a1", "ses_a2\tTitle of ses_a2"]),
        ("import no", ["notes.jsonl"]),
    ],
)
def test_fish_completes_sessions_or_files(listed: Path, tmp_path: Path, line: str, found: list[str]) -> None:
    """In fish ids come with their titles, files only where nothing else may stand."""
    (tmp_path / "notes.jsonl").touch()
    told = in_shell("fish", f"eventlog completion fish | source; complete -C 'eventlog {line}'", listed, tmp_path)
    assert told.splitlines() == found
