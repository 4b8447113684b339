"""Exit codes of commands, and the one line of help with each."""

from __future__ import annotations

import inspect
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import eventlog
from eventlog import errors
from projections.cli.exits import Exit, classify
from tests.support.cli_runner import ROOT, Cli


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["nonsense"], Exit.USAGE, "eventlog --help"),
        (["sessions", "--nonsense"], Exit.USAGE, "eventlog sessions --help"),
        (["rollback", "ses_a1"], Exit.USAGE, "--to"),
        (["rollback", "ses_a1", "--to", "many"], Exit.USAGE, "--to"),
        (["rollback", "ses_a1", "--to", "9999"], Exit.MISSING, "version"),
        (["view", "ses_a1", "--at", "9999"], Exit.MISSING, "version"),
        (["fork", "ses_a1", "--at", "9999"], Exit.MISSING, "version"),
        (["export"], Exit.USAGE, "'--format'. Choose from opencode, jsonl, markdown, html, sqlite; see"),
        (["show", "unknown"], Exit.MISSING, "eventlog sessions"),
        (["import", "/nonexistent"], Exit.MISSING, "no such file"),
        (["import", "/no*thing"], Exit.MISSING, "/no*thing: there is no such file"),
        (["events", "ses_a1", "--from", "5", "--to", "3"], Exit.USAGE, "--to 3 is before --from 5"),
        (["events", "ses_a1", "--from", "99999"], Exit.MISSING, "no version '99999' in session ses_a1"),
        (
            ["view", "ses_a1", "--model", "two"],
            Exit.USAGE,
            "no model two (it has acme/one); give --model as provider/name",
        ),
        (["--store", "/dev/null", "sessions"], Exit.USAGE, "not a directory"),
    ],
)
def test_errors_are_one_line_that_helps(cli: Cli, store: Path, arguments: list[str], code: Exit, words: str) -> None:
    """A wrong call ends with its exit code and one line that says what to do."""
    del store
    answer = cli(*arguments)
    assert answer.code == code
    assert answer.out == ""
    assert answer.err.startswith("eventlog: ")
    assert len(answer.err.splitlines()) == 1
    assert words in answer.err


def _every_error() -> Iterator[BaseException]:
    """Each engine error, with a value for every required argument."""
    for name in errors.__all__:
        kind: Any = getattr(errors, name)
        _, *parameters = inspect.signature(kind.__init__).parameters.values()
        needed = [each for each in parameters if each.default is each.empty and each.kind <= each.VAR_POSITIONAL]
        yield kind(*(1 if each.annotation == "int" else "something" for each in needed))


@pytest.mark.parametrize("error", [*_every_error()], ids=lambda error: type(error).__name__)
def test_every_error_of_the_engine_has_an_exit_code(error: BaseException) -> None:
    """Every engine error has an exit code other than a defect's, and prints one line."""
    code, line = classify(error)
    expected = {
        errors.RetryError: {Exit.BUSY},
        errors.CallError: {Exit.USAGE, Exit.MISSING},
        errors.KeyMissingError: {Exit.MISSING},
        errors.DataError: {Exit.DAMAGED},
        errors.StopError: {Exit.STORAGE, Exit.BUSY},
        errors.EventlogError: {Exit.STORAGE},
    }
    assert code in next(codes for kind, codes in expected.items() if isinstance(error, kind))
    assert "\n" not in line


@pytest.mark.parametrize(
    "said", ["no room to fold", "it cannot be kept: No space left on device", "database or disk is full"]
)
@pytest.mark.parametrize("kind", [errors.BusyError, errors.StorageError])
def test_a_full_disk_is_no_call_to_try_again(kind: type[errors.EventlogError], said: str) -> None:
    """A full disk has the code of the storage: no other program makes room."""
    assert classify(kind(said)) == (Exit.STORAGE, f"{said}; free some space, then run the command again")


def test_a_defect_is_said_in_one_line(cli: Cli, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unexpected error ends with one line and exit code 70; EVENTLOG_DEBUG=1 shows where."""
    del store

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("never\nmind")

    monkeypatch.setattr("projections.cli.output.document", broken)
    answer = cli("sessions", "--json")
    assert answer.code == Exit.DEFECT
    assert len(answer.err.splitlines()) == 1
    monkeypatch.setenv("EVENTLOG_DEBUG", "1")
    assert "Traceback" in cli("sessions", "--json").err


def test_interrupted_from_the_keyboard(tmp_path: Path) -> None:
    """Ctrl-C ends a command with one line and exit code 130."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    command = [sys.executable, "-m", "projections", "--store", str(tmp_path / "store"), "import", str(pipe)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while not (tmp_path / "store" / "format").exists():
            assert process.poll() is None
            time.sleep(0.02)
        _wait_for_rest(process.pid)  # then it waits for a program that opens the other end of the pipe
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (Exit.INTERRUPTED, "", "eventlog: interrupted\n")


def _wait_for_rest(process: int) -> None:
    """Return once a process has used no processor time for half a second."""
    before: list[str] = []
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        used = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[11:13]
        if used == before:
            return
        before = used
        time.sleep(0.5)


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_quiet(store: Path, closed: str) -> None:
    """A command with closed standard streams works and prints nothing."""
    command = [sys.executable, "-m", "projections", "--store", str(store), "rollback", "ses_a1", "--to", "2"]
    answer = subprocess.run(
        ["sh", "-c", f'"$@" {closed}', "sh", *command], cwd=ROOT, capture_output=True, check=False, timeout=60
    )
    assert (answer.returncode, answer.stderr) == (Exit.OK, b"")
    assert (answer.stdout == b"") == (">&-" in closed.split())
    with eventlog.open(store, read_only=True) as opened:
        assert opened.session("ses_a1").version > 2
        assert isinstance([*opened.session("ses_a1").events()][-1].event, eventlog.events.RolledBack)


def test_broken_pipe_is_quiet(tmp_path: Path) -> None:
    """When the reader closes the output, the command ends with 141 and prints no error."""
    with eventlog.open(tmp_path / "store") as opened:
        session = opened.create_session(id="s")
        with session.assistant() as reply:
            text = reply.stream_text()
            for number in range(5000):
                text.append(f"word {number} ")
            reply.finish()
    command = [sys.executable, "-m", "projections", "--store", str(tmp_path / "store"), "events", "s", "--json"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert json.loads(process.stdout.readline())["version"] == 1
        process.stdout.close()
        assert process.stderr.read() == ""
        process.wait(30)
    assert process.returncode == Exit.PIPE


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A store whose session has long tools, prompt, texts, inputs and outputs: stored bodies."""
    path, long = tmp_path / "store", "x y " * 20_000
    with eventlog.open(path) as store:
        session = store.create_session(id="large")
        session.set_tools(json.dumps([{"type": "function", "function": {"name": "f", "description": long}}]))
        session.set_system_prompt(long)
        for number in range(4):
            session.user(f"question {number}: {long}", id=f"message{number}")
            with session.assistant("openai/gpt-5") as reply:
                reply.step()
                reply.tool("f", call_id=f"c{number}", input={"a": long}, id=f"part{number}a").succeed(long)
                reply.add_text(long)
                reply.finish()
    return path


@pytest.mark.parametrize("as_json", [False, True])
def test_what_is_done_ends_with_0(cli: Cli, large: Path, tmp_path: Path, *, as_json: bool) -> None:
    """A command that did its work ends with 0, though all texts are bodies to be read."""
    assert large
    (tmp_path / "more.json").write_text(json.dumps([{"role": "user", "content": "x " * 20_000}]))
    for command in (
        "stats", "stats large", "sessions", "show large", "view large", "window large --context 400000",
        "timeline large", "audit large", "diff large 3 30", "explain large part1a", "recall large part1a",
        "search question", "events large", "tail large", "prove large --version 3", "head", "verify",
        "rollback large --before message3", "rollback large --to 20", "undo large", "undo large", "fork large",
        "prune large --context 60000 --policy opencode", "undo large", "compact large --context 400000", "undo large",
        "redact large part1a --yes", "scrub", f"backup {tmp_path / 'copy'}", "upgrade",
        f"import {tmp_path / 'more.json'}", "expire --count 2 --yes", "vacuum", "erase large --forks keep --yes",
    ):  # fmt: skip
        json_too = ["--json"] * (as_json and not command.startswith("serve"))
        done = cli(*command.split(), *json_too)
        assert done.code == Exit.OK, (command, done.err)


def _unread(*arguments: object) -> tuple[int, str]:
    """Run a command into a closed pipe; return its exit code and its errors."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "projections", *map(str, arguments)]
    environment = {**os.environ, "PYTHONUNBUFFERED": ""}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, stdout=writing, stderr=subprocess.PIPE, text=True, check=False, timeout=60
    )
    os.close(writing)
    return done.returncode, done.stderr


@pytest.mark.parametrize("bad", ["bad.json", "/proc/self/mem"], ids=["refused", "unreadable"])
def test_a_failure_stands_though_nobody_reads_what_came_before_it(cli: Cli, tmp_path: Path, bad: str) -> None:
    """An import ends with the code of its failure, without a traceback."""
    (tmp_path / "good.json").write_text('[{"role": "user", "content": "x"}]')
    (tmp_path / "bad.json").write_text("{")
    files = [tmp_path / "good.json", tmp_path / bad]
    told = cli("import", *files).code
    assert told not in {Exit.OK, Exit.PIPE}
    code, errors = _unread("--store", tmp_path / "other", "import", *files)
    assert (code, "Traceback" in errors) == (told, False)
