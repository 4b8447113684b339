"""Harmful input: bombs, endless numbers, ids like paths, depth, control characters."""

from __future__ import annotations

import io
import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

import eventlog
from eventlog.codec.large_texts import MAX_BODY_BYTES, body_text, pieces_of
from eventlog.errors import CallError, DamagedError
from eventlog.importers import FORMATS, Report, import_file
from eventlog.values import Body
from projections import ModelView
from projections.cli.app import run

MEGABYTES = 1 << 20
NUMBERS = [
    "9" * 4000,
    "-" + "9" * 30,
    "1e400",
    "1e-400",
    "1e999999999999",
    "-0",
    "0.1e-999999",
    "1" + "0" * 4299 + ".5",
]
PATHS = [
    "../../evil",
    "/etc/evil",
    "a/../../evil",
    "evil\\..\\evil",
    "..",
    ".",
    "~/evil",
    "evil\nevil",
    "con:",
    "e" * 250,
]


def bombs() -> list[bytes]:
    """A few kilobytes that unpack to a quarter of a gigabyte, with and without their size."""
    data = bytes(256 * MEGABYTES)
    return [bytes((1,)) + zstandard.ZstdCompressor(write_content_size=said).compress(data) for said in (True, False)]


@pytest.mark.promise(12)
def test_a_compression_bomb_does_not_go_off() -> None:
    """Promise 12: packed bytes that unpack to more than was stored are damage, cheaply."""
    for bomb in bombs():
        assert len(bomb) < 16_000
        for body in (Body(bytes(32), 100, 100), Body(bytes(32), 1 << 40, 100), Body(bytes(32), MAX_BODY_BYTES + 1, 1)):
            tracemalloc.start()
            with pytest.raises(DamagedError):
                body_text(body, bomb)
            assert tracemalloc.get_traced_memory()[1] < 4 * MEGABYTES
            tracemalloc.stop()
        with pytest.raises(DamagedError):
            list(pieces_of(Body(bytes(32), 100, 100), bomb))


def records(id: str, number: str, text: str) -> dict[str, bytes]:
    """A small file of each format with this id, number and JSON text in every field."""
    name, said = json.dumps(id), json.dumps(text)
    claude = (
        f'{{"type":"user","uuid":{name},"parentUuid":null,"sessionId":{name},"cwd":{name},"timestamp":{number},'
        f'"message":{{"role":"user","content":{said}}}}}\n'
        f'{{"type":"assistant","uuid":"u2","parentUuid":{name},"sessionId":{name},"timestamp":"2026-01-01T00:00:00Z",'
        f'"message":{{"id":{name},"role":"assistant","model":{name},"content":[{{"type":"tool_use","id":{name},"name":{name},'
        f'"input":{{"n":{number}}}}}],"usage":{{"input_tokens":{number},"output_tokens":{number}}}}}}}\n'
    )
    codex = (
        f'{{"timestamp":"2026-01-01T00:00:00Z","type":"session_meta","payload":{{"id":{name},"cwd":{name},"timestamp":{number}}}}}\n'
        f'{{"timestamp":{number},"type":"response_item","payload":{{"type":"message","role":"user","content":[{{"type":"input_text","text":{said}}}]}}}}\n'
        f'{{"timestamp":"2026-01-01T00:00:01Z","type":"response_item","payload":{{"type":"function_call","name":{name},"call_id":{name},"arguments":{said}}}}}\n'
    )
    opencode = (
        f'{{"info":{{"id":{name},"title":{said},"directory":{name},"time":{{"created":{number},"updated":{number}}}}},"messages":'
        f'[{{"info":{{"id":{name},"sessionID":{name},"role":"user","time":{{"created":{number}}}}},'
        f'"parts":[{{"id":{name},"type":"text","text":{said}}}]}}]}}'
    )
    messages = (
        f'[{{"role":"user","content":{said}}},{{"role":"assistant","content":{said},"tool_calls":[{{"id":{name},'
        f'"type":"function","function":{{"name":{name},"arguments":{said}}}}}],"weight":{number}}}]'
    )
    anthropic = f'{{"model":{name},"max_tokens":{number},"messages":[{{"role":"user","content":[{{"type":"text","text":{said}}}]}}]}}'
    chunk = (
        f'data: {{"id":{name},"object":"chat.completion.chunk","created":{number},"model":{name},'
        f'"choices":[{{"index":0,"delta":{{"content":{said}}}}}],"usage":{{"prompt_tokens":{number},"completion_tokens":1}}}}\n\n'
    )
    return {
        "claude_code": claude.encode(),
        "codex": codex.encode(),
        "opencode": opencode.encode(),
        "openai_messages": messages.encode(),
        "anthropic_messages": anthropic.encode(),
        "openai_chat_sse": chunk.encode(),
    }


def imported(store: eventlog.Store, data: bytes, format: str) -> Report:
    """Import these bytes, twice: the second time adds nothing."""
    reports: list[Report] = []
    for _ in range(2):
        file: Any = io.BytesIO(data)
        file.name = "hostile"
        reports.append(import_file(store, file, format=format))
    assert reports[1].events == 0
    return reports[0]


@pytest.mark.parametrize("format", sorted(records("i", "1", "t")))
def test_numbers_without_an_end(format: str) -> None:
    """A number too large for a field is stored or its record listed; the import goes on."""
    for number in NUMBERS:
        with eventlog.open("memory:") as store:
            report = imported(store, records("i", number, "hello")[format], format)
            assert report.sessions or report.skipped, number
            for name in report.sessions:
                assert ModelView.of(store.session(name)).messages is not None
                store.info(name)


def test_ids_that_look_like_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An id that looks like a path causes no write outside the store and the named file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVENTLOG_STORE", str(tmp_path / "in" / "store"))
    monkeypatch.setenv("HOME", str(tmp_path))
    with eventlog.open(tmp_path / "in" / "store") as store:
        for id in PATHS:
            for format, data in records(id, "1", "hello").items():
                imported(store, data, format)
        names = [info.id for info in store.sessions()]
    assert set(names) >= set(PATHS)
    for number, name in enumerate(PATHS):
        for way in (["jsonl"], ["opencode", "--tree"]):
            output = tmp_path / "in" / f"out {number} {' '.join(way)}"
            assert run(["export", name, "--format", *way, "-o", str(output)]) == 0, (name, way)
    assert [entry.name for entry in tmp_path.iterdir()] == ["in"]
    strangers = {entry.name for entry in (tmp_path / "in").iterdir() if not entry.name.startswith("out ")}
    assert strangers == {"store"}


@pytest.mark.parametrize("format", sorted(FORMATS))
@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'{"type":"user","message":{"content":[', b'[{"role":'], ids=repr)
def test_depth_without_an_end(format: str, opening: bytes) -> None:
    """Input nested a hundred thousand deep is refused or listed, with a bounded stack."""
    with eventlog.open("memory:") as store:
        for data in (opening * 100_000, b"data: " + opening * 100_000 + b"\n\n"):
            try:
                report = imported(store, data, format)
            except CallError:
                continue
            assert not report.messages
            assert report.skipped


def test_control_characters_in_every_field(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Control characters in ids, names and texts import exactly; no command prints one."""
    evil = "a\x1b]0;x\x07\x00\x9b31m\u202e\r\nb"
    store = tmp_path / "store"
    commands: list[Callable[[str], list[str]]] = [
        lambda _name: ["sessions"],
        lambda name: ["show", name],
        lambda name: ["view", name],
        lambda name: ["events", name],
        lambda name: ["stats", name],
        lambda name: ["timeline", name],
        lambda name: ["audit", name],
        lambda name: ["window", name],
        lambda name: ["verify", name],
    ]
    for format in ("claude_code", "opencode", "openai_chat_sse"):
        data = records(evil, "1", evil)[format]
        (tmp_path / "given").write_bytes(data)
        run(["--store", str(store), "import", "--format", format, str(tmp_path / "given")])
    with eventlog.open(store, read_only=True) as opened:
        names = [info.id for info in opened.sessions()]
    assert len(names) == 3
    for name in names:
        for command in commands:
            capsys.readouterr()
            code = run(["--store", str(store), *command(name)])
            told = capsys.readouterr()
            assert code in {0, 1}, (command(name), told.err)
            assert not set("\x00\x07\x1b\x9b\u202e\r") & set(told.out + told.err), command(name)
