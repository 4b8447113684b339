"""The recorded session that ships, and what `eventlog demo` does with it."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

import eventlog
from eventlog.events import PartDelta
from eventlog.importers import import_file
from projections.cli.app import run
from projections.cli.commands.demo import MODEL
from projections.demo import answer_path, chunks, prompt
from projections.view.model_view import ModelView

DIRECTORY = Path(answer_path()).parent


def test_the_recording_is_small_and_licensed() -> None:
    """The recording ships with its licence and its source, and is small."""
    assert answer_path().stat().st_size < 30_000
    assert "Permission is hereby granted" in (DIRECTORY / "LICENSE").read_text()
    assert "https://github.com/" in (DIRECTORY / "README.md").read_text()


def test_streaming_gives_every_delta(store: eventlog.Store) -> None:
    """The live stream has the recorded deltas one by one, and the view of the import."""
    deltas = [chunk["delta"] for chunk in chunks() if chunk["type"] == "content_block_delta"]
    texts = [delta.get("text") or delta.get("thinking") or delta.get("partial_json") or "" for delta in deltas]
    recorded = store.session(import_file(store, answer_path()).sessions[0])
    live = store.create_session()
    live.user(prompt())
    with live.assistant(MODEL) as reply:
        reply.fill(chunks())
    streamed = [found.event.text for found in live.events() if isinstance(found.event, PartDelta)]
    assert streamed == [text for text in texts if text]
    assert [message.parts for message in ModelView.of(live).messages[1:]] == [
        message.parts for message in ModelView.of(recorded).messages
    ]


def test_demo_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a named store the demo uses a temporary one and deletes it."""
    for name in ("work", "tmp", "home"):
        (tmp_path / name).mkdir()
    monkeypatch.delenv("EVENTLOG_STORE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.chdir(tmp_path / "work")
    assert run(["demo"]) == 0
    shown = capsys.readouterr().out
    for words in (prompt(), "48 deltas accepted", "equals that of the imported one", "ask_question", "tokens"):
        assert words in shown
    assert [path for name in ("work", "tmp", "home") for path in (tmp_path / name).iterdir()] == []


def test_demo_fills_the_store_that_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With a named store the demo leaves both sessions in it, and it is sound."""
    path = tmp_path / "store"
    assert run(["--store", str(path), "demo"]) == 0
    assert run(["--store", str(path), "verify"]) == 0
    assert str(path) in capsys.readouterr().out
    with eventlog.open(path, read_only=True) as store:
        assert sorted(info.messages for info in store.sessions()) == [1, 2]
