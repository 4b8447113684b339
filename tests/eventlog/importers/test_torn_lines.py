"""Torn lines: a piece of a record or null bytes, with a whole record behind it."""

from __future__ import annotations

import io
import json
import random
from typing import Any

import pytest

import eventlog
from eventlog.importers import Report, import_file
from eventlog.importers.common.json_lines import LineNumber
from eventlog.importers.common.remainder import emit

Records = list[dict[str, Any]]


def claude() -> Records:
    """A transcript of Claude Code, whose records hold objects with a type."""
    records: Records = []
    for number in range(8):
        kind = "assistant" if number % 2 else "user"
        blocks: list[Any] = [{"type": "text", "text": f'text "{number}" {{ä\\ 𝄞'}]
        if number == 3:
            blocks.append({"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": ["a", {"b": {}}]}})
        message = {"role": kind, "content": blocks, "id": f"msg_{number}"}
        parent = f"uuid-{number - 1}" if number else None
        records.append(
            {"parentUuid": parent, "sessionId": "s", "type": kind, "message": message, "uuid": f"uuid-{number}"}
        )
    return records


def codex() -> Records:
    """A rollout of Codex."""
    records: Records = [{"timestamp": "2026-01-01T00:00:00Z", "type": "session_meta", "payload": {"id": "s"}}]
    for number in range(6):
        content = [{"type": "input_text", "text": f"text {number} é"}]
        payload = {"type": "message", "role": "user", "content": content, "more": [{"type": "message", "role": "user"}]}
        records.append({"timestamp": f"2026-01-01T00:00:0{number}Z", "type": "response_item", "payload": payload})
    return records


def messages() -> Records:
    """A list of messages, one a line."""
    return [{"role": "assistant" if number % 2 else "user", "content": f"text {number} ü"} for number in range(8)]


FILES = {"claude_code": claude(), "codex": codex(), "openai_messages": messages()}


def lines_of(records: Records, *, ascii: bool = False) -> list[bytes]:
    """The lines of a file of these records."""
    return [json.dumps(record, ensure_ascii=ascii).encode() for record in records]


def read(data: bytes, format: str, *, grown: int = 0) -> tuple[Report, list[Any], list[int]]:
    """Import a file, first to `grown` bytes; return report, records, and lines of pieces."""
    with eventlog.open("memory:") as store:
        reports: list[Report] = []
        for size in (grown, len(data)) if grown else (len(data),):
            file = io.BytesIO(data[:size])
            file.name = "torn.jsonl"
            reports.append(import_file(store, file, format=format))
        report = reports[-1]
        sessions = [store.session(name) for name in report.sessions]
        found = [source.record for source in emit(sessions, store.text)]
        assert sum(store.info(name).fork_of is not None for name in report.sessions) == 0
        return report, found, [skipped.line for skipped in report.skipped]


@pytest.mark.parametrize("format", FILES)
def test_a_record_behind_a_torn_one_is_read(format: str) -> None:
    """Torn at any byte, only the torn record is lost, and its line is reported, once."""
    records = FILES[format]
    lines = lines_of(records)
    for at in range(1, len(lines[3])):
        torn = b"\n".join([*lines[:3], lines[3][:at] + lines[4], *lines[5:]]) + b"\n"
        _, found, reported = read(torn, format)
        assert found == records[:3] + records[4:], lines[3][:at]
        assert reported == [4], lines[3][:at]


@pytest.mark.parametrize("format", FILES)
def test_whole_records_on_one_line_are_all_read(format: str) -> None:
    """Without a line feed between them no record is lost, and none is reported."""
    records = FILES[format]
    lines = lines_of(records)
    glued = b"\n".join([*lines[:2], b"".join(lines[2:5]), b" \t".join(lines[5:])])
    _, found, reported = read(glued, format)
    assert (found, reported) == (records, [])


@pytest.mark.parametrize("format", FILES)
def test_null_bytes_cost_no_record(format: str) -> None:
    """Null bytes anywhere on a line are reported, and each whole record is read."""
    records = FILES[format]
    lines = lines_of(records)
    nulls = b"\0" * 700
    data = [*lines[:1], nulls, nulls + lines[1], lines[2] + nulls, lines[3] + nulls + lines[4][:20] + nulls + lines[5]]
    _, found, reported = read(b"\n".join([*data, *lines[6:]]), format)
    assert found == records[:4] + records[5:]
    assert set(reported) == {2, 3, 4, 5}


@pytest.mark.parametrize("format", FILES)
def test_a_torn_file_grows_into_one_session(format: str) -> None:
    """A damaged file that is imported again and again, at any size, stays one session."""
    records = FILES[format]
    lines, chance = lines_of(records), random.Random(5)
    data = b"\n".join([*lines[:2], lines[2][:20] + lines[3] + lines[4], b"\0\0" + lines[5], *lines[6:]]) + b"\n"
    whole = read(data, format)
    for _ in range(60):
        grown = read(data, format, grown=chance.randrange(len(lines[0] + lines[1]) + 2, len(data)))
        assert grown[1:] == whole[1:]
    assert whole[1] == records[:2] + records[3:]


def test_members_of_a_torn_record_are_no_records() -> None:
    """A torn record that ends behind a whole member gives no record of that member."""
    records = claude()
    lines = lines_of(records)
    line = lines[3]
    for at in (at for at in range(len(line)) if line[at : at + 1] == b"}" and at + 1 < len(line)):
        _, found, reported = read(b"\n".join([*lines[:3], line[: at + 1], *lines[4:]]) + b"\n", "claude_code")
        assert (found, reported) == (records[:3] + records[4:], [4])


def test_noise_takes_no_time() -> None:
    """A megabyte of braces and quotes on a line is passed over."""
    lines = lines_of(claude())
    noise = [b'{"' * 500_000, b'{"a":' * 200_000, b'"{' * 500_000, b'[{"a":[' * 100_000]
    _, found, reported = read(b"\n".join([*lines[:4], *noise, *lines[4:]]), "claude_code")
    assert (found, reported) == (claude(), [5, 6, 7, 8])


def test_places_on_a_line_print_apart() -> None:
    """A later place on a line is the line's number, and prints as another."""
    place = LineNumber.read("12+3")
    assert (place, f"{place}", LineNumber.read("12")) == (12, "12+3", 12)
