"""Sessions recorded by running the agents themselves against a server with a script."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.gemini_server import gemini_server
from tests.support.missing import missing, tool
from tests.support.openai_server import Answer, Asked, OpenAIServer, ToolCall

AGENTS = {
    "opencode": "opencode-ai@1.18.33",
    "opencode_storage": "opencode-ai@1.1.27",
    "gemini": "@google/gemini-cli@0.61.0",
    "qwen": "@qwen-code/qwen-code@0.15.10",
    "cline": "cline@2.18.0",
}
"""By the name of a recording: the agent's package in npm."""
COMMAND = "echo “größer” && wc -l notes.md"
ASKED = "How many lines have my notes?"
AGAIN = "Tell me again"
OTHER = "Count them for me"
"""The prompt that one agent gives to another."""


def install(package: str, folder: Path) -> Path:
    """Install an agent into a folder, and return the folder of its programs."""
    folder.mkdir(parents=True)
    command = [tool("npm"), "install", "--prefix", str(folder), "--no-audit", "--no-fund", "--prefer-offline", package]
    if subprocess.run(command, check=False, capture_output=True, stdin=subprocess.DEVNULL).returncode:
        missing(f"npm cannot install {package}")
    return folder / "node_modules" / ".bin"


class Played:
    """The agent in a folder of its own, with a home and a project that has notes of two lines."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs = programs
        self.home, self.project = folder / "home", folder / "project"
        self.home.mkdir(parents=True)
        self.project.mkdir()
        (self.project / "notes.md").write_text("first line\nsecond line\n")

    def run(self, *command: str, **names: str) -> None:
        """Run the agent's program with these environment variables until its answer is there."""
        clean = {key: value for key, value in os.environ.items() if not key.endswith(("_API_KEY", "_BASE_URL"))}
        own = {"HOME": str(self.home), "PWD": str(self.project), "NO_PROXY": "127.0.0.1"}
        own |= {f"XDG_{name}_HOME": str(self.home / name.lower()) for name in ("DATA", "CONFIG", "STATE", "CACHE")}
        ended = subprocess.run(
            [self._programs / command[0], *command[1:]],
            check=False,
            cwd=self.project,
            env={**clean, **own, **names},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=120,
        )
        assert ended.returncode == 0, (ended.stdout[-2000:], ended.stderr[-2000:])

    def script(self, read: str, shell: str, member: str, again: ToolCall | None = None) -> Callable[[int, str], Answer]:
        """Return the script: an answer by the number of results since the last prompt."""

        def path(name: str) -> str:
            return json.dumps({member: str(self.project / name)})

        def answer(results: int, prompt: str) -> Answer:
            if OTHER in prompt:
                return Answer("Two, says the other.", usage=(3, 5))
            if ASKED not in prompt and results:
                return Answer("Yes: two lines.", usage=(30, 9))
            if ASKED not in prompt:
                call = again or ToolCall("call_d", read, path("notes.md"))
                return Answer("", [call], reasoning="**Again**\nIt is known.", usage=(30, 9))
            if results == 0:
                calls = [ToolCall("call_a", read, path("notes.md"))]
                return Answer(["I read ", "the notes."], calls, reasoning="**Notes**\nThey may say it.", usage=(9, 4))
            if results == 1:
                run = json.dumps({"command": COMMAND, "description": "Count"})
                return Answer(
                    "", [ToolCall("call_b", shell, run), ToolCall("call_c", read, path("no.md"))], usage=(9, 4)
                )
            return Answer("There are two.\n\n- 日本語", usage=(25, 5))

        return answer


def by_chat(answer: Callable[[int, str], Answer]) -> Callable[[Asked], Answer]:
    """Return what a server of Chat Completions answers; without tools it is a title."""

    def reply(asked: Asked) -> Answer:
        messages = asked.messages
        last = max(at for at, one in enumerate(messages) if one["role"] == "user")
        if not asked.body.get("tools"):
            return Answer("Notes are counted", usage=(2000, 5))
        return answer(sum(one["role"] == "tool" for one in messages[last:]), json.dumps(messages[last]))

    return reply


def record_opencode(played: Played, *, data: str = "opencode.db") -> list[Path]:
    """Let OpenCode answer, and ask another agent; return its database, or its older files."""
    cache = played.home / "cache" / "opencode"
    cache.mkdir(parents=True)
    (cache / "models.json").write_text("{}")
    (cache / "version").write_text("18")  # else the older program empties its cache
    task = {"description": "Count", "prompt": OTHER, "subagent_type": "general"}
    script = played.script("read", "bash", "filePath", ToolCall("call_d", "task", json.dumps(task)))
    with OpenAIServer(by=by_chat(script)) as server:
        model = {"name": "m", "tool_call": True, "reasoning": True, "limit": {"context": 100_000, "output": 4_000}}
        options = {"baseURL": server.url, "apiKey": "none"}
        provider: dict[str, Any] = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"m": model}}
        settings = {"model": "local/m", "small_model": "local/m", "autoupdate": False, "provider": {"local": provider}}
        names = {
            "OPENCODE_CONFIG_CONTENT": json.dumps(settings),
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_MODELS_URL": server.url,
            "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
        }
        played.run("opencode", "run", ASKED, **names)
        played.run("opencode", "run", "--continue", AGAIN, **names)
    return list((played.home / "data" / "opencode").glob(data))


def record_qwen(played: Played) -> list[Path]:
    """Let Qwen Code answer, compact its history, and answer the second prompt."""
    with OpenAIServer(by=by_chat(played.script("read_file", "run_shell_command", "file_path"))) as server:
        names = {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": server.url, "OPENAI_MODEL": "m"}
        options = ("--auth-type", "openai", "--yolo")
        played.run("qwen", *options, "-p", ASKED, **names)
        limit = {"contextPercentageThreshold": 0.00001}
        (played.home / ".qwen" / "settings.json").write_text(json.dumps({"model": {"chatCompression": limit}}))
        played.run("qwen", *options, "--continue", "-p", AGAIN, **names)
    return list(played.home.glob(".qwen/projects/*/chats/*.jsonl"))


def record_gemini(played: Played) -> list[Path]:
    """Let Gemini CLI answer, compact its history, and answer the second prompt."""
    script = played.script("read_file", "run_shell_command", "file_path")

    def by(body: dict[str, Any]) -> Answer:
        parts = [part for content in body.get("contents", ()) if content["role"] == "user" for part in content["parts"]]
        if not body.get("tools"):
            return Answer("<state_snapshot>Notes are counted.</state_snapshot>")
        last = max(at for at, part in enumerate(parts) if "text" in part)
        return script(len({part["functionResponse"]["id"] for part in parts[last + 1 :]}), parts[last]["text"])

    settings: dict[str, Any] = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
    }
    (played.home / ".gemini").mkdir()
    (played.home / ".gemini" / "settings.json").write_text(json.dumps(settings))
    with gemini_server(by) as address:
        names = {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": address, "GEMINI_CLI_TRUST_WORKSPACE": "true"}
        options = ("--yolo", "--model", "gemini-2.5-flash")
        played.run("gemini", *options, "-p", ASKED, **names)
        settings["model"] = {"compressionThreshold": 0.00001}
        (played.home / ".gemini" / "settings.json").write_text(json.dumps(settings))
        played.run("gemini", *options, "--resume", "latest", "-p", AGAIN, **names)
    return list(played.home.glob(".gemini/tmp/*/chats/session-*.jsonl"))


CLINE = [
    ("list_files", {"path": ".", "recursive": True}),
    ("read_file", {"path": "notes.md"}),
    ("write_to_file", {"path": "new.md", "content": "a new “note”\n"}),
    ("replace_in_file", {"path": "notes.md", "diff": "------- SEARCH\nfirst line\n=======\n1st line\n+++++++ REPLACE"}),
    ("search_files", {"path": ".", "regex": "line"}),
    ("execute_command", {"command": COMMAND, "requires_approval": False}),
    ("attempt_completion", {"result": "There are two.\n\n- 日本語"}),
]
"""One call an answer."""


def record_cline(played: Played) -> list[Path]:
    """Let Cline use each kind of its tools; return what its screen shows."""

    def by(asked: Asked) -> Answer:
        done = sum(one["role"] == "assistant" for one in asked.messages)
        name, given = CLINE[min(done, len(CLINE) - 1)]
        text = f"Step {done}." if name != "attempt_completion" else ""
        return Answer(
            text, [ToolCall(f"call_{done}", name, json.dumps(given))], reasoning=f"Thought {done}.", usage=(9, 4)
        )

    with OpenAIServer(by=by) as server:
        played.run("cline", "auth", "-p", "openai", "-k", "none", "-m", "m", "-b", server.url)
        played.run("cline", "-y", "--json", ASKED)
    return list(played.home.glob(".cline/data/tasks/*/ui_messages.json"))
