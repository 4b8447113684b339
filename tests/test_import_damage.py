"""Damaged files: what is not sound is listed with line and reason, the rest is imported, and nothing else goes wrong."""

from __future__ import annotations

import io
import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import eventlog
from eventlog import Store
from eventlog import events as ev
from eventlog.importers import Report, import_file
from eventlog.importers.kept import emit
from eventlog.importers.records import MAX_DEPTH, MAX_LINE
from eventlog.importers.sse import kind_of_stream
from eventlog.values import Text
from tests.import_counts import is_array, is_object, recorded
from tests.shared import shared_path

DATA = shared_path("data")
SMALL = 130_000
SESSIONS = [
    path for path in recorded(DATA, "claude_code_jsonl") if path.suffix == ".jsonl" and path.stat().st_size < SMALL
]
STREAMS = [
    path
    for path in recorded(DATA, "sse")
    if path.stat().st_size < SMALL and kind_of_stream(path.read_bytes()[:65536]) in {"anthropic_sse", "openai_chat_sse"}
]
Damage = Callable[[bytes, random.Random], bytes]
STRANGE: list[Any] = [
    None,
    True,
    -1,
    1.5,
    "",
    [],
    {},
    [[]],
    [None],
    {"type": []},
    "\ud800",
    10**30,
    float("nan"),
    [1, {"type": "text"}],
]


def run(store: Store, data: bytes, name: str = "damaged", format: str | None = "claude_code") -> Report:
    """Import these bytes."""
    file = io.BytesIO(data)
    file.name = name
    return import_file(store, file, format=format)


def truncated(data: bytes, chance: random.Random) -> bytes:
    """Cut off at a random byte."""
    return data[: chance.randrange(len(data))]


def fused(data: bytes, chance: random.Random) -> bytes:
    """Take out some line feeds."""
    lines = data.split(b"\n")
    for _ in range(5):
        at = chance.randrange(len(lines))
        lines[at : at + 2] = [b"".join(lines[at : at + 2])]
    return b"\n".join(lines)


def reordered(data: bytes, chance: random.Random) -> bytes:
    """Swap some lines."""
    lines = data.split(b"\n")
    for _ in range(10):
        one, other = chance.randrange(len(lines)), chance.randrange(len(lines))
        lines[one], lines[other] = lines[other], lines[one]
    return b"\n".join(lines)


def duplicated(data: bytes, chance: random.Random) -> bytes:
    """Repeat some lines elsewhere."""
    lines = data.split(b"\n")
    for _ in range(10):
        lines.insert(chance.randrange(len(lines)), chance.choice(lines))
    return b"\n".join(lines)


def flipped(data: bytes, chance: random.Random) -> bytes:
    """Overwrite some bytes."""
    changed = bytearray(data)
    for _ in range(30):
        changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed)


def retyped(data: bytes, chance: random.Random) -> bytes:
    """Put values of other types in some places, and leave some fields out."""
    rate = chance.choice([0.002, 0.02, 0.2])

    def change(value: Any) -> Any:
        if chance.random() < rate:
            return chance.choice(STRANGE)
        if is_object(value):
            return {key: change(item) for key, item in value.items() if chance.random() > rate / 3}
        return [change(item) for item in value] if is_array(value) else value

    lines: list[bytes] = []
    for line in data.split(b"\n"):
        mark = b"data: " if line.startswith(b"data: ") else b""
        try:
            lines.append(mark + json.dumps(change(json.loads(line[len(mark) :]))).encode())
        except ValueError:
            lines.append(line)
    return b"\n".join(lines)


DAMAGES: list[Damage] = [truncated, fused, reordered, duplicated, flipped, retyped]


def values(data: bytes) -> dict[int, str]:
    """Return the JSON values of a file by line number, in one spelling."""
    found: dict[int, str] = {}
    for number, line in enumerate(data.split(b"\n"), start=1):
        try:
            found[number] = json.dumps(json.loads(line.decode()), sort_keys=True)
        except ValueError:
            continue
    return found


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_sessions(damage: Damage) -> None:
    """Every line of a damaged file is either given back equal or listed; importing is repeatable and growth appends (§13)."""
    for seed, path in enumerate(SESSIONS * 3):
        chance = random.Random(seed)
        data = damage(path.read_bytes(), chance)
        with eventlog.open("memory:") as store:
            report = run(store, data)
            assert run(store, data).events == 0
            owners = [store.session(name) for name in report.sessions if store.info(name).fork_of is None]
            back = {found.line: json.dumps(found.record, sort_keys=True) for found in emit(owners, store.text)}
        wanted = values(data)
        listed = {found.line for found in report.skipped}
        assert back == wanted if owners else set(wanted) <= listed, (path.name, seed)
        filled = {number for number, line in enumerate(data.split(b"\n"), start=1) if line.strip(b" \t\r\n")}
        assert filled - set(wanted) <= listed, (path.name, seed)
        with eventlog.open("memory:") as store:
            some = data[: data.find(b"\n", chance.randrange(max(len(data), 1))) + 1]
            added = run(store, some).events if some else 0
            assert added + run(store, data).events == report.events, (path.name, seed)


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_streams(damage: Damage) -> None:
    """A damaged stream gives what is sound of it, and the same again the next time; no record stops the import (§13)."""
    for seed, path in enumerate(STREAMS):
        data = path.read_bytes()
        format = kind_of_stream(data[:65536])
        with eventlog.open("memory:") as store:
            damaged = damage(data, random.Random(seed))
            report = run(store, damaged, format=format)
            assert run(store, damaged, format=format).events == 0
            assert report.events == sum(store.info(name).events for name in report.sessions)


def prompt(text: str, uuid: str) -> bytes:
    """Make a line with a prompt."""
    message = {"role": "user", "content": text}
    return json.dumps({"type": "user", "uuid": uuid, "parentUuid": None, "sessionId": "s", "message": message}).encode()


def test_each_kind_of_damage_is_named() -> None:
    """Every way a line can be unsound has its reason, and the lines around it are imported (§13)."""
    deep = b'{"type":"user","x":' + b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1) + b"}"
    lines = [
        (prompt("first", "u1"), ""),
        (b'{"type": "user", "uuid"', "not JSON"),
        (prompt("a", "u2") + prompt("b", "u3"), "more than one JSON value"),
        (b'{"type":"user","x":"\xff\xfe"}', "not UTF-8"),
        (b"\0" * 512, "not JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (deep, "nested more than"),
        (b'{"x":' + b"9" * 5_000 + b"}", "not JSON: a number"),
        (b'"text"', "not an object"),
        (b"null", "not an object"),
        (b'{"type":"hologram"}', "a record of unknown type 'hologram'"),
        (b'{"type":"user","message":{"content":7}}', "its message has no content"),
        (prompt("first", "u1"), "a record with this uuid came before"),
        (prompt("last", "u4")[:-9], "incomplete last line"),
    ]
    with eventlog.open("memory:") as store:
        report = run(store, b"\xef\xbb\xbf" + b"\r\n".join(line for line, _ in lines))
        found = {entry.line: entry.reason for entry in report.skipped}
        assert {number for number, (_, reason) in enumerate(lines, start=1) if reason} == set(found)
        for number, (_, reason) in enumerate(lines, start=1):
            assert found.get(number, "").startswith(reason)
        assert report.messages == 1


def test_strange_text_is_kept_exactly() -> None:
    """Lone surrogates, NUL characters, U+2028 and huge numbers come through as they are (§3)."""
    text = "a\ud800b\0c\u2028d" + "x" * 2_000 + "\udc00"
    with eventlog.open("memory:") as store:
        report = run(store, prompt(text, "u1").replace(b'"role"', b'"big":' + b"9" * 40 + b',"role"'))
        (session,) = [store.session(name) for name in report.sessions]
        parts = [found.event for found in session.events() if isinstance(found.event, ev.PartStarted)]
        assert isinstance(parts[0].kind, Text)
        assert store.text(parts[0].kind.text) == text
        (source,) = emit([session], store.text)
        assert (source.record["message"]["content"], source.record["message"]["big"]) == (text, int("9" * 40))


def test_an_endless_line_is_passed_over() -> None:
    """A line over the limit is listed and not held in memory; what comes after it is imported (§13)."""
    data = b"\n".join([prompt("first", "u1"), b'{"x":"' + b"y" * MAX_LINE, prompt("last", "u2")])
    with eventlog.open("memory:") as store:
        report = run(store, data)
        assert (report.messages, [entry.line for entry in report.skipped]) == (2, [2])


def test_a_large_file_is_read_in_bounded_memory(tmp_path: Path) -> None:
    """Reading 40 MB of records takes a few MB more than reading none: a file of any size streams (§13)."""
    path = tmp_path / "large.jsonl"
    with path.open("wb") as file:
        for number in range(4_000):
            file.write(prompt(f"{number} " + "lorem ipsum " * 800, f"u{number}") + b"\n")
    program = (
        "import resource, sys\n"
        "from eventlog.importers.base import Report\n"
        "from eventlog.importers.claude_code import ClaudeCode\n"
        "report = Report('', '')\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "with open(sys.argv[1], 'rb') as file:\n"
        "    events = sum(len(piece.items) for piece in ClaudeCode().read(file, sys.argv[1], report))\n"
        "print(report.messages, events, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True)
    messages, events, grown = map(int, done.stdout.split())
    assert path.stat().st_size > 38_000_000
    assert (messages, events > messages * 3) == (4_000, True)
    assert grown < 20 * (1 if sys.platform == "linux" else 1024)
