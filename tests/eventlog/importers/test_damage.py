"""Damaged files: unsound lines are listed with reasons, and the others are imported."""

from __future__ import annotations

import io
import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import eventlog
from eventlog import Store
from eventlog import events as ev
from eventlog.codec.redaction import bodies_of
from eventlog.errors import ImportFormatError
from eventlog.importers import Report, Skipped, detect, import_file
from eventlog.importers.common.json_lines import MAX_LINE
from eventlog.importers.common.remainder import emit
from eventlog.validation import MAX_DEPTH
from eventlog.values import Text
from tests.support.import_counts import is_array, is_object, recorded
from tests.support.shared import shared_path

DATA = shared_path("data")
SLOW = os.environ.get("EVERDELTA_SLOW") == "1"
"""Whether to damage every file, of any size, many times."""
ROUNDS, SMALL = (5, 1 << 30) if SLOW else (1, 130_000)
SESSIONS = [
    path
    for path in recorded(DATA, "claude_code_jsonl", "codex_rollout_jsonl", "fixture:codex", "fixture:jsonl")
    if path.suffix == ".jsonl" and path.stat().st_size < SMALL
]
STREAMS = [path for path in recorded(DATA, "sse") if path.stat().st_size < SMALL]
EXPORTS = sorted(shared_path("parity").glob("dev/*/exports/*.json"))[:: 1 if SLOW else 7]
DOCUMENTS = recorded(DATA, "openai_messages", "mini_swe_agent", "swe_agent_traj")
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
    """Import these bytes; return the report, also if they hold no conversation."""
    file = io.BytesIO(data)
    file.name = name
    try:
        return import_file(store, file, format=format)
    except ImportFormatError as error:
        if format is None or format == "opencode":
            raise
        assert not list(store.sessions())
        return Report(name, format, skipped=[Skipped(*found) for found in error.skipped])


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

    return rewritten(data, lambda value: json.dumps(change(value)))


def nested(data: bytes, chance: random.Random) -> bytes:
    """Put values that are nested too deeply, or nearly so, in some places."""

    def change(value: Any) -> Any:
        if chance.random() < 0.01:
            depth = chance.choice([MAX_DEPTH - 50, MAX_DEPTH + 1, 450, 900, 5_000])
            return chance.choice(["<", "{"]) * depth
        if is_object(value):
            return {key: change(item) for key, item in value.items()}
        return [change(item) for item in value] if is_array(value) else value

    def deepened(value: Any) -> str:
        text = json.dumps(change(value))
        text = re.sub('"(<+)"', lambda found: "[" * len(found[1]) + "]" * len(found[1]), text)
        return re.sub(r'"(\{+)"', lambda found: '{"x":' * len(found[1]) + "1" + "}" * len(found[1]), text)

    return rewritten(data, deepened)


def rewritten(data: bytes, change: Callable[[Any], str]) -> bytes:
    """The file with each of its JSON values changed: the whole document, or one a line."""
    try:
        return change(json.loads(data)).encode()
    except ValueError:
        pass
    lines: list[bytes] = []
    for line in data.split(b"\n"):
        mark = b"data: " if line.startswith(b"data: ") else b""
        try:
            lines.append(mark + change(json.loads(line[len(mark) :])).encode())
        except ValueError:
            lines.append(line)
    return b"\n".join(lines)


DAMAGES: list[Damage] = [truncated, fused, reordered, duplicated, flipped, retyped, nested]


def values(data: bytes) -> dict[int, str]:
    """Return a file's JSON values by line number, normalised, without too deeply nested ones."""
    found: dict[int, str] = {}
    for number, line in enumerate(data.split(b"\n"), start=1):
        try:
            value = json.loads(line.decode())
        except (ValueError, RecursionError):
            continue
        if depth(value) <= MAX_DEPTH:
            found[number] = json.dumps(value, sort_keys=True)
    return found


def depth(value: Any) -> int:
    """How deeply a JSON value is nested."""
    layer: list[Any] = [value]
    for count in range(10_000):
        layer = [inner for outer in layer if is_object(outer) or is_array(outer) for inner in members(outer)]
        if not layer:
            return count
    raise AssertionError("endless")


def members(value: Any) -> list[Any]:
    """The values in an object or array, or a placeholder, so that an empty one has a depth."""
    found = [*value.values()] if is_object(value) else [*value]
    return found or [None]


def formats(paths: list[Path]) -> list[tuple[Path, str]]:
    """Return the files that can be imported, with their formats."""
    found: list[tuple[Path, str]] = []
    for path in paths:
        try:
            found.append((path, detect(path.read_bytes()[:65536], str(path))))
        except ImportFormatError:
            continue
    return found


def spelt(value: Any) -> str:
    """A normalised spelling of a JSON value."""
    return json.dumps(value, sort_keys=True)


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_sessions(damage: Damage) -> None:
    """Each line of a damaged file comes back equal or is listed; imports repeat and grow."""
    files = formats(SESSIONS)
    assert {format for _, format in files} == {"claude_code", "codex", "openai_messages"}
    for seed, (path, format) in enumerate(files * ROUNDS):
        chance = random.Random(seed)
        data = damage(path.read_bytes(), chance)
        with eventlog.open("memory:") as store:
            report = run(store, data, format=format)
            assert run(store, data, format=format).events == 0
            owners = [store.session(name) for name in report.sessions if store.info(name).fork_of is None]
            back = [(found.line, spelt(found.record)) for found in emit(owners, store.text)]
        wanted = values(data)
        listed = {found.line for found in report.skipped}
        if format != "openai_messages" or len(data.splitlines()) > 1:
            if not owners:  # refused: the file has no conversation
                continue
            assert {line: text for line, text in back if line in wanted} == wanted, (path.name, seed)
            filled = {number for number, line in enumerate(data.split(b"\n"), start=1) if line.strip(b" \t\r\n")}
            behind = {line for line, _ in back} - set(wanted)
            assert filled - set(wanted) <= listed | behind, (path.name, seed)
            if damage is fused:
                said = {text for text in values(path.read_bytes()).values() if text.startswith("{")}
                assert said <= {text for _, text in back}, (path.name, seed)
            elif damage is not flipped:
                assert not behind, (path.name, seed)
        with eventlog.open("memory:") as store:
            some = data[: data.find(b"\n", chance.randrange(max(len(data), 1))) + 1]
            added = run(store, some, format=format).events if some else 0
            rest = run(store, data, format=format).events
        if format != "openai_messages" or len(some.splitlines()) > 1:  # a single line may be a document of its own
            assert added + rest == report.events, (path.name, seed)


def texts_in(value: Any) -> Iterator[str]:
    """Yield the texts in a JSON value, without padding."""
    if isinstance(value, str):
        yield value
    elif is_array(value):
        for item in value:
            yield from texts_in(item)
    elif is_object(value):
        for key, item in value.items():
            if key != "obfuscation":
                yield from texts_in(item)


def said_in(store: Store, report: Report) -> str:
    """Return all texts in the events of a file, pieces of a part behind each other."""
    parts: dict[str, str] = {}
    found: list[str] = []
    for name in report.sessions:
        for stored in store.session(name).events():
            if isinstance(stored.event, ev.PartDelta):
                parts[stored.event.part] = parts.get(stored.event.part, "") + stored.event.text
                continue
            found.extend(texts_in(msgspec.to_builtins(stored.event)))
            found.extend(store.text(body) for body in bodies_of(stored.event))
    for text in [*found, *parts.values()]:
        try:
            found.extend(texts_in(json.loads(text)))
        except (ValueError, RecursionError):
            continue
    return "\n".join([*found, *parts.values()])


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_streams(damage: Damage) -> None:
    """A damaged stream gives its sound records, every time, and no record stops the import."""
    files = formats(STREAMS)
    assert {format for _, format in files} == {
        "anthropic_sse",
        "openai_chat_sse",
        "openai_responses_sse",
        "gemini_stream",
    }
    for seed, (path, format) in enumerate(files * ROUNDS):
        with eventlog.open("memory:") as store:
            damaged = damage(path.read_bytes(), random.Random(seed))
            report = run(store, damaged, format=format)
            assert run(store, damaged, format=format).events == 0
            assert report.events == sum(store.info(name).events for name in report.sessions)
            said = said_in(store, report)
        lines = [re.sub(rb"^data: ?", b"", line.strip()) for line in damaged.split(b"\n")]
        wanted = {number: value for number, value in values(b"\n".join(lines)).items() if value.startswith("{")}
        listed = {found.line for found in report.skipped}
        for number in set(wanted) - listed if report.sessions else ():
            assert all(text in said for text in texts_in(json.loads(wanted[number]))), (path.name, seed, number)


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_documents(damage: Damage) -> None:
    """A damaged document gives the messages before the damage, on every import."""
    for seed, (path, format) in enumerate(formats(DOCUMENTS) * ROUNDS):
        data = damage(path.read_bytes(), random.Random(seed))
        with eventlog.open("memory:") as store:
            report = run(store, data, format=format)
            assert run(store, data, format=format).events == 0
            assert report.events == sum(store.info(name).events for name in report.sessions)
            assert report.skipped or is_sound(data), (path.name, seed)


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_exports(damage: Damage) -> None:
    """A damaged OpenCode export is refused with a typed error or imported and reported."""
    taken = 0
    for seed, path in enumerate(EXPORTS * ROUNDS):
        data = damage(path.read_bytes(), random.Random(seed))
        with eventlog.open("memory:") as store:
            try:
                report = run(store, data, format="opencode")
            except ImportFormatError:
                continue
            taken += 1
            assert run(store, data, format="opencode").events == 0, (path, seed)
            assert report.skipped or is_sound(data), (path, seed)
            assert report.events == sum(store.info(name).events for name in report.sessions)
    assert taken


def is_sound(data: bytes) -> bool:
    """Whether a document is JSON that is not nested too deeply."""
    try:
        return depth(json.loads(data)) <= MAX_DEPTH
    except (ValueError, RecursionError):
        return False


def prompt(text: str, uuid: str) -> bytes:
    """Make a line with a prompt."""
    message = {"role": "user", "content": text}
    return json.dumps({"type": "user", "uuid": uuid, "parentUuid": None, "sessionId": "s", "message": message}).encode()


def test_each_kind_of_damage_is_named() -> None:
    """Every way a line can be unsound has its reason, and the lines around it are imported."""
    deep = b'{"type":"user","x":' + b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1) + b"}"
    lines = [
        (prompt("first", "u1"), ""),
        (b'{"type": "user", "uuid"', "not JSON"),
        (prompt("a", "u2") + b'{"x":', "a torn record"),
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
        assert report.messages == 2


def test_only_what_json_calls_white_space_is_passed_over() -> None:
    """A stream record after a form feed or a vertical tab is listed, not accepted."""
    delta = '{"object":"chat.completion.chunk","id":"c","choices":[{"index":0,"delta":{"content":"hi"}}]}'
    stream = f"data: {delta}\n\ndata: \x0c{delta}\n\ndata:\t{delta} \r\n\ndata: {delta}\x0b\n\n"
    with eventlog.open("memory:") as store:
        report = run(store, stream.encode(), format="openai_chat_sse")
        assert [found.line for found in report.skipped] == [3, 7]
        (name,) = report.sessions
        events = [stored.event for stored in store.session(name).events()]
        assert [event.text for event in events if isinstance(event, ev.PartDelta)] == ["hi", "hi"]
        session = run(store, prompt("one", "u1") + b"\n\x0c" + prompt("two", "u2") + b"\n")
        assert (session.messages, [found.line for found in session.skipped]) == (2, [2])


def test_strange_text_is_kept_exactly() -> None:
    """Lone surrogates, NUL characters, U+2028 and huge numbers are imported unchanged."""
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
    """A line over the limit is listed without holding it in memory; later lines are imported."""
    data = b"\n".join([prompt("first", "u1"), b'{"x":"' + b"y" * MAX_LINE, prompt("last", "u2")])
    with eventlog.open("memory:") as store:
        report = run(store, data)
        assert (report.messages, [entry.line for entry in report.skipped]) == (2, [2])


GENERATE = """
import json, sys
def lines(kind, size):
    text, written, number = "lorem ipsum dolor sit amet " * 60, 0, 0
    while written < size:
        number += 1
        said = f"{number} {text}"
        stamp = f"2026-01-01T{number // 3600 % 24:02d}:{number // 60 % 60:02d}:{number % 60:02d}.{number % 1000:03d}Z"
        if kind == "claude_code":
            role = "user" if number % 2 else "assistant"
            message = {"role": role, "content": said} | ({} if number % 2 else {"id": f"m{number}", "model": "x"})
            record = {"type": role, "uuid": f"u{number}", "parentUuid": f"u{number - 1}" if number > 1 else None, "sessionId": "s"}
            record |= {"timestamp": stamp, "message": message}
        elif kind == "codex":
            item = {"type": "message", "role": "user" if number % 2 else "assistant", "content": [{"type": "input_text", "text": said}]}
            record = {"timestamp": stamp, "type": "response_item", "payload": item}
        else:
            record = {"role": "user" if number % 2 else "assistant", "content": said, "timestamp": stamp, "tool_calls": None}
        data = json.dumps(record).encode() + b"\\n"
        written += len(data)
        yield data
kind, path, size = sys.argv[1], sys.argv[2], int(sys.argv[3])
with open(path, "wb") as file:
    file.writelines(lines(kind, size))
"""
PEAK = """
import re, resource, sys
def peak():
    # The process's own, in MB: what getrusage says counts the process that started this one in.
    if sys.platform == "linux":
        return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) // 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 20
"""
IMPORT = (
    PEAK
    + """
import eventlog
from eventlog.importers import import_file
with eventlog.open(sys.argv[3]) as store:
    before = peak()
    report = import_file(store, sys.argv[2], format=sys.argv[1])
    print(report.messages, len(report.skipped), before, peak())
"""
)


def imported(kind: str, folder: Path, megabytes: int) -> tuple[int, int, int]:
    """Import a generated file in its own process; return messages, and memory peaks in MB."""
    path = folder / f"{kind}-{megabytes}.jsonl"
    subprocess.run([sys.executable, "-c", GENERATE, kind, str(path), str(megabytes * 1_000_000)], check=True)
    command = [sys.executable, "-c", IMPORT, kind, str(path), str(folder / f"store-{kind}-{megabytes}")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    path.unlink()
    messages, skipped, before, after = map(int, done.stdout.split())
    assert skipped == 0
    return messages, before, after


READ = (
    PEAK
    + """
from eventlog.importers import FORMATS
from eventlog.importers.common.importer import Report
report = Report("", "")
before = peak()
with open(sys.argv[2], "rb") as file:
    events = sum(len(batch.items) for batch in FORMATS[sys.argv[1]].read(file, sys.argv[2], report))
print(events, peak() - before)
"""
)


@pytest.mark.parametrize("kind", ["claude_code", "codex", "openai_messages"])
def test_reading_grows_by_a_tenth_at_most(kind: str, tmp_path: Path) -> None:
    """Reading needs less than 0.1 MB of memory per MB of file, in every line-based format."""
    path = tmp_path / "large.jsonl"
    subprocess.run([sys.executable, "-c", GENERATE, kind, str(path), "60000000"], check=True)
    command = [sys.executable, "-c", READ, kind, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    events, grown = map(int, done.stdout.split())
    assert events > 60_000
    assert grown < 6 + 60 * 0.1


def test_an_import_stays_under_the_bound(tmp_path: Path) -> None:
    """The process that imports 60 MB to disk peaks below 200 MB of memory."""
    messages, _, peak = imported("codex", tmp_path, 60)
    assert messages > 20_000
    assert peak < 200


@pytest.mark.skipif(not SLOW, reason="takes minutes: set EVERDELTA_SLOW=1")
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("kind", ["claude_code", "codex", "openai_messages"])
def test_half_a_gigabyte_needs_less_than_200_megabytes(kind: str, tmp_path: Path) -> None:
    """The process that imports 500 MB peaks below 200 MB of memory."""
    messages, _, peak = imported(kind, tmp_path, 500)
    assert messages > 200_000
    assert peak < 200
