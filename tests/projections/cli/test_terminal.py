"""Colours, pager and Markdown: on a terminal only, and as the environment asks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from rich.cells import cell_len

import eventlog
from projections.cli.exits import Exit
from projections.cli.screen import wrapped
from tests.support.cli_runner import Cli, on_terminal, program

TEXT = "# A heading\n\nSome **bold** words, `code`, and a [link](https://example.com).\n\n- one\n- two\n"


def program_file(path: Path, script: str) -> Path:
    """Return a program that runs a script of the shell."""
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def told(tmp_path: Path) -> Path:
    """A store with an answer in Markdown and a result of many lines."""
    path = tmp_path / "store"
    with eventlog.open(path) as opened:
        session = opened.create_session(id="talk")
        session.user("Explain it")
        with session.assistant(model="acme/one") as reply:
            reply.tool("bash", call_id="c1", input={"command": "seq 40"}, id="prt_call").succeed(
                "\n".join(f"line {number}" for number in range(40))
            )
            reply.add_text(TEXT)
            reply.finish("stop")
    return path


def test_markdown_is_laid_out_on_a_terminal(told: Path) -> None:
    """`show` lays out the Markdown of texts, without links that a terminal could follow."""
    code, drawn = on_terminal("--store", told, "show", "talk")
    assert code == Exit.OK
    assert "**bold**" not in drawn
    assert "bold" in drawn
    assert re.search(r"•\S* ?\S*one", drawn)
    assert "\x1b]8" not in drawn


def test_a_pipe_gets_the_text_as_it_is(cli: Cli, told: Path) -> None:
    """A pipe gets every line of every text, and no escape sequence."""
    assert told
    shown = cli("show", "talk").out
    assert TEXT in shown
    assert "line 39" in shown
    assert "\x1b" not in shown


def test_long_results_are_cut_on_a_terminal(told: Path) -> None:
    """A terminal gets the first lines of a result and how to see more; `--full` gives all."""
    drawn = on_terminal("--store", told, "show", "talk")[1]
    assert "line 11" in drawn
    assert "line 12" not in drawn
    assert "28 more lines: --full, or recall prt_call" in drawn
    assert "line 39" in on_terminal("--store", told, "show", "talk", "--full")[1]


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
@pytest.mark.parametrize(
    "command", ["show talk", "sessions", "window talk", "timeline talk", "stats talk", "view talk"]
)
def test_no_colours_if_they_are_not_wanted(told: Path, command: str, variables: dict[str, str]) -> None:
    """NO_COLOR and a dumb terminal get no escape sequence."""
    code, drawn = on_terminal("--store", told, *command.split(), variables=variables)
    assert (code, "\x1b" in drawn) == (Exit.OK, False)


def test_the_pager_shows_what_a_terminal_would(told: Path, tmp_path: Path) -> None:
    """PAGER gets the output as for a terminal, colours included, and its end is waited for."""
    copy = tmp_path / "paged"
    pager = program_file(tmp_path / "pager", f"cat > {copy}; echo the pager ends")
    code, drawn = on_terminal("--store", told, "show", "talk", variables={"PAGER": f"{pager} -x"})
    assert (code, drawn) == (Exit.OK, "the pager ends\r\n")
    assert copy.read_text() == on_terminal("--store", told, "show", "talk")[1].replace("\r\n", "\n")


def test_a_reader_who_leaves_the_pager_sees_no_error(told: Path, tmp_path: Path) -> None:
    """A pager that ends early is no error, and notes come after it."""
    with eventlog.open(told) as opened:
        session = opened.session("talk")
        for _ in range(50):
            session.user("x" * 5000)
    code, drawn = on_terminal(
        "--store",
        told,
        "show",
        "talk",
        variables={"PAGER": str(program_file(tmp_path / "one", "head -n 1 > /dev/null"))},
    )
    assert (code, drawn) == (Exit.OK, "")
    code, drawn = on_terminal(
        "--store",
        told,
        "show",
        "talk",
        "--limit",
        "1",
        variables={"PAGER": str(program_file(tmp_path / "all", "cat > /dev/null; echo"))},
    )
    assert (code, drawn.splitlines()[-1].startswith("older messages: --before ")) == (Exit.OK, True)


@pytest.mark.parametrize("pager", ["", "cat", "no-such-program-anywhere", "less 'unbalanced"])
def test_without_a_pager_the_terminal_gets_it(told: Path, pager: str) -> None:
    """An empty PAGER, `cat`, one that is not there and one that is no command line are none."""
    code, drawn = on_terminal("--store", told, "show", "talk", variables={"PAGER": pager})
    assert (code, "A heading" in drawn) == (Exit.OK, True)


def test_an_error_comes_after_the_reader_left_the_pager(told: Path, tmp_path: Path) -> None:
    """A command that fails does not end the pager; its error comes after it."""
    pager = program_file(tmp_path / "pager", "cat; sleep 0.2; echo the pager ends")
    code, drawn = on_terminal("--store", told, "show", "no such", variables={"PAGER": str(pager)})
    first, second, *_ = drawn.splitlines()
    assert (code, first) == (Exit.MISSING, "the pager ends")
    assert second.startswith("eventlog: ")


def test_a_pipe_has_no_pager(told: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No pager is started where standard output is a pipe."""
    monkeypatch.setenv("PAGER", str(program_file(tmp_path / "pager", f"touch {tmp_path / 'started'}; cat")))
    assert program("--store", told, "show", "talk").returncode == Exit.OK
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize("columns", [80, 200])
@pytest.mark.parametrize(
    "command",
    [
        "sessions",
        "timeline talk",
        "window talk --context 4000",
        "stats",
        "stats talk",
        "diff talk 1 8",
        "tail talk",
        "audit talk",
        "events talk",
        "explain talk prt_call",
        "explain talk msg_asked",
        "search line",
        "show talk --full",
        "prune talk --dry-run --context 4000",
        "erase talk",
        "--help",
        "show --help",
    ],
)
def test_no_line_is_wider_than_the_terminal(told: Path, command: str, columns: int) -> None:
    """Every line fits the terminal: it is wrapped between words, or ends in "…"."""
    with eventlog.open(told) as opened:
        session = opened.session("talk")
        session.user("Why does it take so long? " * 20, id="msg_asked")
        opened.create_session(id="child" * 10, title="A title " * 20, parent="talk")
    variables = {"EVENTLOG_STORE": str(told)}
    code, drawn = on_terminal(*command.split(), columns=columns, typed="n\n", variables=variables)
    lines = re.sub(r"\x1b\[[0-9;]*m|\r", "", drawn).splitlines()
    assert code == (Exit.USAGE if command.startswith("erase") else Exit.OK)
    assert [line for line in lines if len(line) > columns and str(told) not in line] == []


def test_lines_are_broken_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrapped line has all its words whole; a line with a word too long stays."""
    monkeypatch.setenv("COLUMNS", "20")
    text = "it is a line of words, 漢字漢字 漢字 and [bold]more[/] of them"
    lines = wrapped(text).split("\n")
    assert " ".join(" ".join(lines).split()) == text
    assert all(cell_len(line) <= 20 for line in lines)
    assert {line[:2] for line in lines[1:]} == {"  "}
    long = text + " averyveryverylongword"
    assert (wrapped("short"), wrapped(long)) == ("short", long)


MARKUP = "[bold]x[/bold] [/] [link=file:///etc/passwd]y[/link] :smile: \\[red]"
"""Words that a library for terminals might take for markup."""
WIDE = "漢字👩\u200d👩\u200d👧\u0301\u20dd" * 30
"""Characters of two columns and of none."""


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("command", ["sessions", "show talk", "timeline talk", "window talk", "search x", "tail talk"])
def test_texts_are_no_markup(told: Path, command: str, columns: int) -> None:
    """A text that looks like markup is printed as it stands, and no line is too wide."""
    with eventlog.open(told) as opened:
        session = opened.session("talk")
        session.rename(MARKUP)
        session.user(MARKUP)
        with session.assistant(model="[red]/[/]") as reply:
            reply.tool("[blink]", call_id="c2", input={"command": MARKUP}).succeed(MARKUP + "\n\tx " + WIDE)
            reply.finish("stop")
        opened.create_session(id="[bold]id[/]", title=WIDE)
    code, drawn = on_terminal("--store", told, *command.split(), columns=columns)
    lines = re.sub(r"\x1b\[[0-9;]*m|\r", "", drawn).splitlines()
    assert code == Exit.OK, drawn
    assert "[bold]x[/bold] [/] " in "".join(lines)
    assert "\x1b[5" not in drawn
    assert "\x1b]8" not in drawn
    assert [line for line in lines if cell_len(line) > columns] == []
