"""The documented loop against an endpoint that misbehaves, in lives that end at random."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eventlog.values import INTERRUPTED
from tests.support.openai_server import Answer, Asked, OpenAIServer, ToolCall
from tests.support.pages import LOOP, ROOT, example

WAITS = "lambda: ask(request))"
QUICK = "lambda: ask(request), first_wait=0.005, longest_wait=0.02)"
SLOW = os.environ.get("EVERDELTA_SLOW") == "1"
SEEDS = range(20 if SLOW else 3)
QUESTIONS = [f"Question {number}" for number in range(12 if SLOW else 4)]
BROKEN = "BROKEN"
"""Text of answers that the endpoint never finishes."""
NEVER = re.compile(r"(?!)")
ASKS = {
    "user": re.compile(r"^(Question|Task) (\d+)"),
    "assistant": NEVER,
    "system": NEVER,
    "tool": NEVER,
}
"""The words that ask: those of a user's message, for no summary stands for a question."""
WHOLE = re.compile(r"(I write|I ask|I do both) \d+, step \d+\.|Answer to Question \d+\.|Task \d+ is done\.")
"""The texts that a model says as a whole."""


class Agent:
    """A model that for each question writes a file and lets a task be done, then answers."""

    def __call__(self, asked: Asked) -> Answer:
        """Answer by what the request says."""
        texts = [(message["role"], text_of(message)) for message in asked.messages]
        last, asks = [(place, found) for place, (role, text) in enumerate(texts) if (found := ASKS[role].search(text))][
            -1
        ]
        kind, number = asks.groups()
        used = (200 + sum(len(text) for _, text in texts) // 4, 10)
        if kind == "Task":
            return Answer(f"Task {number} is done.", usage=used)
        since = asked.messages[last + 1 :]
        done = {name for name, output in results(since) if INTERRUPTED not in output}
        step = sum(message["role"] == "assistant" for message in since)
        wanted = [name for name in ("write_file", "task") if name not in done]
        if not wanted:
            return Answer(f"Answer to Question {number}.", usage=used)
        if int(number) % 2:
            wanted = wanted[:1]
        said = "I do both" if len(wanted) == 2 else "I write" if wanted == ["write_file"] else "I ask"
        given = {
            "write_file": {"path": f"{number}.txt", "text": number},
            "task": {"prompt": f"Task {number}", "description": "a task"},
        }
        calls = [ToolCall(f"call_{number}_{step}_{name}", name, json.dumps(given[name])) for name in wanted]
        return Answer(f"{said} {number}, step {step}.", calls, usage=used)


def text_of(message: dict[str, Any]) -> str:
    """The text of a message, also if it is in pieces."""
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(piece.get("text", "") for piece in content)


def results(messages: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield each result with the name of its tool."""
    names = {call["id"]: call["function"]["name"] for message in messages for call in message.get("tool_calls", ())}
    for message in messages:
        if message["role"] == "tool":
            yield names[message["tool_call_id"]], text_of(message)


def event(value: object) -> bytes:
    """One event of a stream."""
    return f"data: {value if isinstance(value, str) else json.dumps(value)}\n\n".encode()


def delta(text: str, reason: str | None = None) -> bytes:
    """One chunk with a text."""
    return event({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": reason}]})


class Misbehaving:
    """An endpoint that answers as an agent does, if it feels like it."""

    def __init__(self, seed: int, *, refuses: bool = False) -> None:
        """With `refuses` a request may be refused for its size, and a person may stop an answer."""
        self._chance = random.Random(seed)
        self._refuses = refuses
        self._agent = Agent()
        self.did: Counter[str] = Counter()
        self.faults: list[str] = []

    def __call__(self, asked: Asked) -> Answer:
        """Answer, or do something else."""
        self._check(asked)
        how = self._chance.choices(
            ["well", "slow", "429", "5xx", "cut", "garbled", "malformed", "ends", "closed", "refused", "too long"],
            [30, 15, 6, 6, 6, 4, 4, 4, 4, 1, 6 * self._refuses],
        )[0]
        self.did[how] += 1
        answer = self._agent(asked)
        match how:
            case "429":
                return Answer(status=429, error={"message": "slow down"}, headers={"retry-after": "0.01"})
            case "5xx":
                return Answer(status=self._chance.choice([500, 502, 503, 529]), error={"message": "overloaded"})
            case "refused":
                return Answer(status=401, error={"message": "no such key", "code": "invalid_api_key"})
            case "too long":
                message = "This model's maximum context length is 8192 tokens."
                return Answer(status=400, error={"message": message, "code": "context_length_exceeded"})
            case "cut":
                return Answer([BROKEN, " off"], cut=1)
            case "garbled":
                return Answer(
                    raw=lambda: iter([delta(BROKEN), b'data: {"choices": [{"delta": {"con\n\n', event("[DONE]")])
                )
            case "malformed":
                return Answer(raw=lambda: iter([delta(BROKEN), *map(event, MALFORMED), event("[DONE]")]))
            case "ends":
                return Answer(raw=lambda: iter([delta(BROKEN), event("[DONE]")]))
            case "closed":
                return Answer(raw=closed)
            case "slow" if not answer.calls:
                return Answer(raw=lambda: slowly("".join(answer.pieces)))
            case _:
                return answer

    def _check(self, asked: Asked) -> None:
        """Note what no request may show."""
        behind = [*(message["role"] for message in asked.messages[1:]), ""]
        spoken = [
            message
            for message, then in zip(asked.messages, behind, strict=True)
            if message["role"] == "assistant" and not (self._refuses and then == "user")  # which a person stopped
        ]
        said = [text for text in map(text_of, spoken) if not text.startswith(OPENING)]
        self.faults += [f"half a text: {text}" for text in said if text and WHOLE.fullmatch(text) is None]
        broken = {  # a model whose calls were broken off may say the same again
            message["tool_call_id"]
            for message in asked.messages
            if message["role"] == "tool" and INTERRUPTED in text_of(message)
        }
        whole = [
            message
            for message in asked.messages
            if message["role"] == "assistant"
            and broken.isdisjoint(call["id"] for call in message.get("tool_calls") or ())
        ]
        said = [text for text in map(text_of, whole) if not text.startswith(OPENING)]
        self.faults += [f"twice: {text}" for text, count in Counter(filter(None, said)).items() if count > 1]


OPENING = "## Goal"
"""How a summary begins."""
MALFORMED: list[Any] = [
    {},
    {"choices": None},
    {"choices": [{}]},
    {"choices": [{"index": 0, "delta": None, "finish_reason": None}]},
    {"choices": [{"index": 0, "delta": {"content": 5, "tool_calls": None}, "finish_reason": None}]},
]
"""Chunks that say nothing, in forms that no provider documents."""


def closed() -> Iterator[bytes]:
    """Close the connection before the first piece."""
    yield from _broken()


def _broken() -> list[bytes]:
    raise ConnectionResetError


def slowly(text: str) -> Iterator[bytes]:
    """Stream a text letter by letter, with pauses."""
    for letter in text:
        time.sleep(0.004)
        yield delta(letter)
    yield delta("", "stop")
    yield event("[DONE]")


def lived(directory: Path, program: str, endpoint: Misbehaving, seed: int, questions: list[str]) -> tuple[Any, Any]:
    """Run a program in lives until one comes to its end; return their ends, and what is left."""
    (directory / "program.py").write_text(program, encoding="utf-8")
    with OpenAIServer(by=endpoint) as server:
        done = subprocess.run(
            [
                sys.executable, "-m", "tests.support.loop_lives", str(directory / "program.py"), str(directory / "run"), str(seed), *questions,
            ],
            cwd=ROOT,
            env={**os.environ, "OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "none"},
            capture_output=True,
            text=True,
            check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3_000:]
    lives, left = map(json.loads, done.stdout.splitlines())
    assert lives["ends"][-1] == "done", lives
    assert endpoint.faults == []
    assert (left["sound"], left["problems"], left["open"], left["unfinished"]) == (True, [], [], [])
    assert left["verdicts"] == ["match"]
    assert "--stops" in questions or BROKEN not in str([*left["texts"]])  # what a person stopped is kept
    return lives, left


def quick() -> str:
    """The documented loop, which waits little."""
    program = example(LOOP).code
    assert WAITS in program
    return program.replace(WAITS, QUICK)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_loop_comes_to_its_end_whatever_ends_its_lives(tmp_path: Path, seed: int) -> None:
    """Killed, interrupted, rate-limited, disconnected at random, it answers all, once."""
    _, left = lived(tmp_path, quick(), Misbehaving(seed), seed, QUESTIONS)
    numbers = [question.split()[-1] for question in QUESTIONS]
    assert left["said"] == [f"Answer to {question}." for question in QUESTIONS]
    assert left["files"] == {f"{number}.txt": number for number in numbers}
    assert left["asked"] == len(QUESTIONS)
    assert {text: count for text, count in left["texts"].items() if text.startswith("Answer")} == {
        f"Answer to {question}.": 1 for question in QUESTIONS
    }
    assert len(left["tasks"]) >= len(QUESTIONS)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_loop_that_compacts_and_is_stopped_comes_to_its_end(tmp_path: Path, seed: int) -> None:
    """Refused for its size, and stopped by users, it answers a question once or never."""
    program = quick()
    assert '"gpt-5"' in program
    questions = [question + " about a long matter" * 350 for question in QUESTIONS]
    endpoint = Misbehaving(seed, refuses=True)
    lives, left = lived(tmp_path, program.replace('"gpt-5"', '"gpt-4"'), endpoint, seed, [*questions, "--stops"])
    answers = [f"Answer to {question}." for question in QUESTIONS]
    assert len(left["said"]) == len(QUESTIONS)
    for said, answer in zip(left["said"], answers, strict=True):
        assert said in {answer, "stopped"}
        if said == answer:
            assert left["texts"][answer] == 1
    assert left["said"].count("stopped") <= left["kinds"].get("InterruptRequested", 0)
    assert left["asked"] == len(QUESTIONS)
    if left["said"].count("stopped") < len(QUESTIONS) // 2:  # else the window may have stayed small
        assert left["kinds"].get("CompactionCompleted", 0) > 0, lives


def test_the_endpoint_misbehaves_in_every_way() -> None:
    """Every fault of the endpoint is met, so that the tests above are of all of them."""
    endpoint = Misbehaving(0, refuses=True)
    asked = Asked("/v1/chat/completions", {}, {"messages": [{"role": "user", "content": "Question 1"}]})
    for _ in range(500):
        endpoint(asked)
    assert len(endpoint.did) == 11
