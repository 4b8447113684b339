"""The documented loop against a server: killed, disconnected or interrupted, it goes on."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import eventlog
from eventlog import events as ev
from eventlog.values import INTERRUPTED, Retry
from projections.view.part_rendering import QUESTION
from tests.support.openai_server import Answer, Asked, OpenAIServer, ToolCall
from tests.support.pages import LOOP, ROOT, example

LARGE = "model=MODEL, tools="
SMALL = "model=MODEL, limits=eventlog.Limits(context=4_000, output=1_000), tools="
WAITS = "lambda: ask(request))"
QUICK = "lambda: ask(request), first_wait=0.01)"
ANSWER = "All files are written."
ATTEMPTS = 4
"""How often `fill_retrying` asks."""
ENDS = {"connection": "ConnectionError", "interrupt": "KeyboardInterrupt"}
"""Error with which the program ends."""


NAME = ("loop", "notes")
"""Name of its session."""


def loop() -> str:
    """Return the program of the documented loop."""
    return example(LOOP).code


class Writer:
    """A model that writes files and knows from the request alone which are written."""

    def __init__(self, files: dict[str, str]) -> None:
        self.files = files

    def __call__(self, asked: Asked) -> Answer:
        """Return the next calls, or the final text."""
        left = [path for path in self.files if path not in self._written(asked)]
        if not left:
            return Answer(["All files", " are written."])
        chosen = left[:2] if len(left) == len(self.files) else left[:1]
        number = len(asked.messages)
        calls = [
            ToolCall(f"call_{number}_{path}", "write_file", json.dumps({"path": path, "text": self.files[path]}))
            for path in chosen
        ]
        return Answer(f"I write {len(chosen)}.", calls)

    def _written(self, asked: Asked) -> set[str]:
        paths: dict[str, str] = {}
        written: set[str] = set()
        broken: set[str] = set()
        for message in asked.messages:
            for call in message.get("tool_calls", ()):
                paths[call["id"]] = json.loads(call["function"]["arguments"] or "{}").get("path", "")
            if message["role"] == "tool":
                path = paths[message["tool_call_id"]]
                (broken if INTERRUPTED in message["content"] else written).add(path)
            elif message["role"] == "assistant":
                carried = re.findall(r"^- (\S+) \(written\)$", message["content"], re.MULTILINE)
                written.update(carried)
        return {path for path in written if path not in broken or self._newest(asked, path)}

    def _newest(self, asked: Asked, path: str) -> bool:
        """Return whether the newest call for this file succeeded."""
        names = {
            call["id"]
            for message in asked.messages
            for call in message.get("tool_calls", ())
            if json.loads(call["function"]["arguments"] or "{}").get("path") == path
        }
        said = [message["content"] for message in asked.messages if message.get("tool_call_id") in names]
        return INTERRUPTED not in said[-1]


def run(tmp_path: Path, program: str, files: dict[str, str]) -> tuple[list[dict[str, Any]], list[Asked]]:
    """Run the program to its end, and killed at each point; return what each run left."""
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    with OpenAIServer(by=Writer(files)) as server:
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "tests.support.readme_loop_runner",
                str(tmp_path / "program.py"),
                str(tmp_path / "runs"),
            ],
            cwd=ROOT,
            env={**os.environ, "OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "none"},
            capture_output=True,
            text=True,
            check=False,
            timeout=200,
        )
        assert done.returncode == 0, done.stderr[-3_000:]
        return [json.loads(line) for line in done.stdout.splitlines()], server.asked


def test_killed_at_every_step_the_loop_comes_to_the_same_result(tmp_path: Path) -> None:
    """Killed anywhere and started again, the loop leaves the same result."""
    program = loop()
    assert LARGE in program
    assert WAITS in program
    files = {f"{name}.txt": f"{name} " * 800 for name in "abcd"}
    runs, asked = run(tmp_path, program.replace(LARGE, SMALL), files)
    whole, killed = runs[0], runs[1:]
    assert whole["points"] == len(killed) > 15
    assert sum(found["killed"] for found in killed) > 0.9 * len(killed)
    for found in runs:
        assert (found["said"], found["files"]) == (f"{ANSWER}\n", files), found
        assert (found["questions"], found["undone"], found["last"]) == (1, 0, "assistant")
        assert len(files) <= found["completed"] <= found["running"] <= len(files) + 2
        assert found["compactions"] > 0, found
        assert found["verdicts"] == ["match"], found
    assert whole["running"] == whole["completed"] == len(files)
    assert any(message.get("content") == QUESTION for request in asked for message in request.messages)


def test_the_loop_runs_as_it_stands(tmp_path: Path) -> None:
    """The loop runs unchanged, offers its tool, and sends the conversation so far each time."""
    files = {"a.txt": "one", "b.txt": "two", "c.txt": "three"}
    with OpenAIServer(by=Writer(files)) as server:
        done = subprocess.run(
            [sys.executable, "-c", loop(), "write them"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), "OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "none"},
            capture_output=True,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{ANSWER}\n", "")
    assert {path.name: path.read_text() for path in tmp_path.glob("*.txt")} == files
    assert [len(asked.messages) for asked in server.asked] == [1, 4, 6]
    assert {asked.body["tools"][0]["function"]["name"] for asked in server.asked} == {"write_file"}


def started(tmp_path: Path, server: OpenAIServer, *questions: str) -> subprocess.Popen[str]:
    """Start the loop, with short waits, in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", loop().replace(WAITS, QUICK), *(questions or ["write them"])],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "none"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("breaks", ["connection", "interrupt"])
def test_the_loop_goes_on_after_an_answer_that_broke_off(tmp_path: Path, breaks: str) -> None:
    """After a dropped connection or Ctrl-C the next start asks the model again and finishes."""
    files = {"a.txt": "one", "b.txt": "two", "c.txt": "three"}
    asking = Writer(files)
    held, reached = threading.Event(), threading.Event()

    def by(asked: Asked) -> Answer:
        whole = ["Half of", " an answer"]
        if breaks == "connection" and 2 <= len(server.asked) <= 1 + ATTEMPTS:
            return Answer(whole, cut=1)
        if breaks == "interrupt" and len(server.asked) == 2:
            reached.set()
            return Answer(whole, hold=held)
        return asking(asked)

    with OpenAIServer(by=by) as server:
        first = started(tmp_path, server)
        if breaks == "interrupt":
            assert reached.wait(60)
            first.send_signal(signal.SIGINT)
        errors = first.communicate(timeout=60)[1]
        held.set()
        assert first.returncode != 0
        assert ENDS[breaks] in errors.splitlines()[-1]
        second = started(tmp_path, server)
        said, errors = second.communicate(timeout=60)
    assert (second.returncode, said, errors) == (0, f"{ANSWER}\n", "")
    assert {path.name: path.read_text() for path in tmp_path.glob("*.txt")} == files
    assert not any("Half of" in str(message) for asked in server.asked for message in asked.messages)
    with eventlog.open(tmp_path / "chats", read_only=True) as store:
        events = [recorded.event for recorded in store.open_session(NAME, create=False).events()]
    if breaks == "connection":
        assert "Half of" in "".join(event.text for event in events if isinstance(event, ev.PartDelta))
    removed = {event.message for event in events if isinstance(event, ev.MessageRemoved)}
    kinds = [(event.message, event.kind) for event in events if isinstance(event, ev.PartStarted)]
    repeats = [message for message, kind in kinds if isinstance(kind, Retry)]
    assert len(removed) == 1
    in_one_life = [message for message in repeats if message in removed]
    assert len(in_one_life) == (ATTEMPTS - 1 if breaks == "connection" else 0)
    assert len(repeats) == len(in_one_life) + 1


def test_the_loop_says_what_the_provider_said_and_begins_again(tmp_path: Path) -> None:
    """A refused request ends the program with the provider's words; the next start asks again."""
    files = {"a.txt": "one", "b.txt": "two"}
    asking = Writer(files)

    def by(asked: Asked) -> Answer:
        refused = Answer(status=401, error={"message": "the key is not known", "code": "invalid_api_key"})
        return refused if len(server.asked) == 2 else asking(asked)

    with OpenAIServer(by=by) as server:
        first = started(tmp_path, server)
        errors = first.communicate(timeout=60)[1]
        assert first.returncode == 1
        for word in ("401", "the key is not known", "turn.retry()"):
            assert word in errors
        assert "Traceback" not in errors
        second = started(tmp_path, server)
        assert (second.communicate(timeout=60), second.returncode) == ((f"{ANSWER}\n", ""), 0)
    assert {path.name: path.read_text() for path in tmp_path.glob("*.txt")} == files


def test_the_loop_is_asked_again_and_again_in_one_life(tmp_path: Path) -> None:
    """Many questions are answered by one process, each once, also when all are asked again."""
    questions = [f"question {number}" for number in range(12)]

    def by(asked: Asked) -> Answer:
        said = [message["content"] for message in asked.messages if message["role"] == "user"]
        return Answer(f"answer to {said[-1]}", usage=(100, 10))

    with OpenAIServer(by=by) as server:
        for _ in range(2):
            done = started(tmp_path, server, *questions)
            said, errors = done.communicate(timeout=60)
            assert (done.returncode, errors) == (0, "")
            assert said.splitlines() == [f"answer to {question}" for question in questions]
        assert len(server.asked) == len(questions)
    with eventlog.open(tmp_path / "chats", read_only=True) as store:
        info = store.open_session(NAME, create=False).info
        assert (info.messages, info.unpriced) == (24, 0)
        assert info.cost is not None
        assert store.unfinished() == []


def test_the_program_is_typed_strictly(tmp_path: Path) -> None:
    """The documented loop passes the strict checks of mypy and pyright as it stands."""
    program = tmp_path / "program.py"
    program.write_text(loop(), encoding="utf-8")
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "strict", "extraPaths": [str(ROOT)]}))
    for command in (
        ["mypy", "--strict", "--follow-imports", "silent"],
        ["pyright", "--project", str(tmp_path), "--pythonpath", sys.executable],
    ):
        done = subprocess.run(
            [sys.executable, "-m", *command, str(program)],
            cwd=ROOT if command[0] == "mypy" else tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
