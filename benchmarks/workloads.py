"""The work that every side does: deltas, turns, recorded sessions. Knows no engine.

All work is made from a seed, so that runs are equal. Every tool output is different, so that no
side can store it once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import cycle, islice
from pathlib import Path
from random import Random
from typing import NamedTuple

ANSWER_CHARACTERS = 400
TOOL_BYTES = 4096
SMALL_OUTPUT = 200
"""Characters of a tool's output in a history that is long but not large."""
DELTA_CHARACTERS = 5
"""Characters of a text delta: 5.8 in recorded streams (OpenAI 4.7, Anthropic 15)."""

DIFFERENT = 4_000
"""Different turns of a generated session; then they repeat, renumbered."""

_WORDS = (
    "the", "model", "reads", "every", "file", "that", "this", "test", "names", "and", "then", "it", "writes", "one", "line",
    "for", "each", "of", "them", "so", "we", "can", "see", "which", "ones", "fail", "because", "their", "output", "was",
    "cut", "before", "a", "result", "came", "back", "from", "tool", "runs", "in", "another", "session",
)  # fmt: skip


class Turn(NamedTuple):
    """A question, an answer of 400 characters in deltas, and a tool result of 4 KB."""

    question: str
    answer: tuple[str, ...]
    command: str
    output: str

    def text_bytes(self) -> bytes:
        """Return its bytes and nothing else: what any engine has to write."""
        return "".join((self.question, *self.answer, self.command, self.output)).encode()


def prose(random: Random, length: int) -> str:
    """Return words in a row, `length` characters."""
    words: list[str] = []
    size = 0
    while size < length:
        words.append(random.choice(_WORDS))
        size += len(words[-1]) + 1
    return " ".join(words)[:length].ljust(length, ".")


def _listing(random: Random, length: int) -> str:
    """Return text like the output of a command: columns, names, numbers."""
    lines: list[str] = []
    size = 0
    while size < length:
        name = "_".join(random.choices(_WORDS, k=2))
        lines.append(f"-rw-r--r-- 1 root root {random.randrange(1 << 20):8d} Nov {random.randrange(30)} {name}.py\n")
        size += len(lines[-1])
    return "".join(lines)[:length]


def in_deltas(text: str) -> tuple[str, ...]:
    """Cut a text into pieces as a stream brings them."""
    return tuple(text[start : start + DELTA_CHARACTERS] for start in range(0, len(text), DELTA_CHARACTERS))


def small_turns(number: int) -> Iterable[Turn]:
    """Return `number` turns with short tool outputs; a hundred different ones, repeated."""
    different = [turn._replace(output=turn.output[:SMALL_OUTPUT]) for turn in turns(100, seed=6)]
    return islice(cycle(different), number)


def deltas(count: int) -> list[str]:
    """Return the texts of `count` deltas, each a string of its own."""
    return list(in_deltas(prose(Random(1), count * DELTA_CHARACTERS)))


def turns(count: int, seed: int = 2) -> list[Turn]:
    """Return `count` different turns."""
    random = Random(seed)
    return [
        Turn(
            prose(random, 60),
            in_deltas(prose(random, ANSWER_CHARACTERS)),
            f"ls -la {random.choice(_WORDS)}",
            _listing(random, TOOL_BYTES),
        )
        for _ in range(count)
    ]


def recorded_sessions(data: Path, most: int = 4) -> list[Path]:
    """Return the largest Claude Code files of a folder of recorded sessions, largest first."""
    files = sorted(data.glob("entireio_claude_code/*.jsonl"), key=lambda path: (-path.stat().st_size, path.name))
    return files[:most]


def recorded_streams(data: Path, most: int = 40) -> list[Path]:
    """Return the largest recorded streams of server-sent events, of any format, largest first."""
    files = sorted(data.glob("sse_extracted/*.sse"), key=lambda path: (-path.stat().st_size, path.name))
    return files[:most]


def generated_session(path: Path, turns_: int) -> Path:
    """Write a session as Claude Code's JSONL, for machines without recorded sessions."""
    different = turns(min(turns_, DIFFERENT), seed=3)
    parent: str | None = None
    written = 0
    with path.open("w", encoding="utf-8") as file:

        def record(kind: str, content: object, **more: object) -> None:
            nonlocal parent, written
            identity = f"00000000-0000-4000-8000-{written:012d}"
            clock = f"2026-01-01T{written // 3600 % 24:02}:{written // 60 % 60:02}:{written % 60:02}.000Z"
            message = {"role": kind, "content": content, **more}
            fields = {"parentUuid": parent, "isSidechain": False, "userType": "external", "cwd": "/home/user/project"}
            fields |= {"sessionId": "00000000-0000-4000-8000-generated000", "version": "2.0.0", "type": kind}
            file.write(json.dumps({**fields, "message": message, "uuid": identity, "timestamp": clock}) + "\n")
            parent = identity
            written += 1

        for number in range(turns_):
            turn = different[number % len(different)]
            model = {"model": "claude", "id": f"msg_{number}", "type": "message"}
            call = f"toolu_{number}"
            command = {"command": f"{turn.command} {number}"}
            record("user", turn.question)
            record("assistant", [{"type": "text", "text": "".join(turn.answer)}], **model)
            record("assistant", [{"type": "tool_use", "id": call, "name": "Bash", "input": command}], **model)
            record("user", [{"type": "tool_result", "tool_use_id": call, "content": f"{number}\n{turn.output}"}])
    return path
