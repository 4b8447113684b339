"""Run the command line in this process, as a program, and on a pseudo-terminal."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple, TypeAlias

import jsonschema

ROOT = Path(__file__).resolve().parents[2]
_END = b"\x04the end of the program\x04"
SCHEMAS: dict[str, Any] = {
    path.stem: json.loads(path.read_text()) for path in (ROOT / "projections" / "schemas").glob("*.json")
}
STREAM = """\
event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m-1","content":[],"stop_reason":null,"usage":{"input_tokens":7,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello"}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" there"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":5}}

event: message_stop
data: {"type":"message_stop"}

"""
"""A recorded stream of an answer in two deltas."""


class Answer(NamedTuple):
    """Outcome of one command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON document it printed."""
        return json.loads(self.out)


Cli: TypeAlias = Callable[..., Answer]


def program(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the command line as a program of its own."""
    command = [sys.executable, "-m", "projections", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=False, timeout=60, **options)


def on_terminal(
    *arguments: object, columns: int = 120, typed: str = "", variables: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Run the command line on a pseudo-terminal of this width; return output and errors."""
    parent, child = pty.openpty()
    command = [sys.executable, "-m", "projections", *map(str, arguments)]
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(columns), "PAGER": "cat", **(variables or {})}
    with subprocess.Popen(command, cwd=ROOT, stdin=child, stdout=child, stderr=child, env=environment) as process:
        os.write(parent, typed.encode())
        ending = Thread(target=_end, args=(process, child))
        ending.start()
        shown = bytearray()
        while not shown.endswith(_END):
            shown += os.read(parent, 65536)
        ending.join()
    os.close(child)
    os.close(parent)
    return process.returncode, shown.removesuffix(_END).decode()


def _end(process: subprocess.Popen[bytes], terminal: int) -> None:
    """Write a mark behind the output of a process, and kill a process that hangs.

    A terminal may lose unread output as its last process closes it.
    """
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    os.write(terminal, _END)


def valid(name: str, document: object) -> None:
    """Check a document against the schema that ships."""
    validator: Any = jsonschema.Draft202012Validator(SCHEMAS[name])
    validator.validate(document)


def check_schema(schema: Any) -> None:
    """Check that a schema is one."""
    jsonschema.Draft202012Validator.check_schema(schema)
