"""Fixtures of the command line's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

import eventlog
from projections.cli.app import run
from tests.support.cli_runner import STREAM, Answer, Cli
from tests.support.cli_sessions import talk

IMAGE = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Run a command in this process on the test's own store."""
    monkeypatch.setenv("EVENTLOG_STORE", str(tmp_path / "store"))

    def call(*arguments: object) -> Answer:
        capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return call


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with `ses_a1` (tool calls, a picture, usage) and the empty session `ses_b2`."""
    path = tmp_path / "store"
    with eventlog.open(path) as opened:
        session = opened.create_session(id="ses_a1", title="Fix it", scope="alice")
        session.user("The tests fail", id="m1", files=[eventlog.File("image/png", IMAGE, "shot.png")])
        with session.assistant(model="acme/one", id="m2") as reply:
            reply.step()
            thought = reply.stream_reasoning()
            for piece in ("Let", " me", " see"):
                thought.append(piece)
            thought.end()
            reply.tool("bash", call_id="c1", input={"command": "pytest"}).succeed("x" * 3000)
            reply.tool("bash", call_id="c2", input={"command": "rm"}).fail("no")
            text = reply.stream_text()
            text.append("It")
            text.append(" is fixed")
            reply.finish("stop", usage=eventlog.Usage(eventlog.Tokens(100, 20, 3)))
        opened.create_session(id="ses_b2", title="Other")
    return path


@pytest.fixture
def stream(tmp_path: Path) -> Path:
    """A recorded stream of an answer in two deltas."""
    path = tmp_path / "answer.sse"
    path.write_text(STREAM)
    return path


@pytest.fixture
def talked(tmp_path: Path) -> Path:
    """A store with the session `talk`: several turns with results."""
    talk(tmp_path / "store")
    return tmp_path / "store"
