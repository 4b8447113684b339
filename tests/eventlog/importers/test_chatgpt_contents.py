"""Exports of ChatGPT: every documented kind of content, tools, branches and splits."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import pytest

import eventlog
from eventlog.errors import ImportFormatError
from eventlog.importers import import_file
from projections import Transcript
from tests.support.independent_reader import read_transcript
from tests.support.second_readers.chatgpt import read_chatgpt

ASSET = {"content_type": "image_asset_pointer", "asset_pointer": "sediment://file_1", "width": 9, "height": 9}
HEARD = {"content_type": "audio_transcription", "text": "And the mountain?", "direction": "in"}
SAID: list[tuple[str, str, dict[str, Any]]] = [
    ("user", "all", {"content_type": "multimodal_text", "parts": [ASSET, "Which river is this?"]}),
    ("assistant", "all", {"content_type": "thoughts", "thoughts": [{"summary": "A river", "content": "It may be the Elbe."}]}),
    ("assistant", "web.run", {"content_type": "code", "language": "json", "text": '{"search_query": [{"q": "Elbe"}]}'}),
    ("web.run", "all", {"content_type": "tether_browsing_display", "result": "Elbe: 1,094 km", "summary": None}),
    ("assistant", "python", {"content_type": "code", "language": "python", "text": "print(1094 / 2)"}),
    ("python", "all", {"content_type": "execution_output", "text": "547.0"}),
    ("assistant", "browser", {"content_type": "code", "language": "unknown", "text": "open_url('elbe.example')"}),
    ("browser", "all", {"content_type": "tether_quote", "url": "https://elbe.example", "domain": "elbe.example", "text": "The Elbe rises in the Krkonoše."}),
    ("assistant", "web", {"content_type": "code", "language": "unknown", "text": "open(1)"}),
    ("web", "all", {"content_type": "sonic_webpage", "url": "https://e.example", "domain": "e.example", "title": "Elbe", "text": "It ends in the North Sea."}),
    ("assistant", "container.exec", {"content_type": "code", "language": "json", "text": '{"cmd": ["ls"]}'}),
    ("container.exec", "all", {"content_type": "system_error", "name": "ToolException", "text": "no container"}),
    ("assistant", "all", {"content_type": "text", "parts": ["The “Elbe”.", "Half of it is 547 km."]}),
    ("user", "all", {"content_type": "multimodal_text", "parts": [HEARD, {"content_type": "audio_asset_pointer", "asset_pointer": "sediment://file_2"}]}),
    ("assistant", "all", {"content_type": "text", "parts": ["Sněžka, 日本語 not."]}),
]  # fmt: skip
"""Author, recipient and content of each message of a branch."""


def conversation(name: str, said: list[tuple[str, str, dict[str, Any]]], left: int) -> dict[str, Any]:
    """Make a conversation; behind message `left` the export has a branch that was left."""
    mapping: dict[str, Any] = {"root": {"id": "root", "message": None, "parent": None, "children": [f"{name}-0"]}}
    for number, (author, recipient, content) in enumerate(said):
        own, behind = f"{name}-{number}", f"{name}-{number - 1}" if number else "root"
        tool = author not in ("user", "assistant")
        message: dict[str, Any] = {
            "id": own, "author": {"role": "tool" if tool else author, "name": author if tool else None, "metadata": {}},
            "create_time": 1.77e9 + number, "content": content, "recipient": recipient, "metadata": {}, "status": "finished_successfully",
        }  # fmt: skip
        following = [f"{name}-{number + 1}"] if number + 1 < len(said) else []
        mapping[own] = {"id": own, "message": message, "parent": behind, "children": following}
    lost: dict[str, Any] = {"id": f"{name}-x", "author": {"role": "user"}, "create_time": 1.77e9, "recipient": "all"}
    lost["content"] = {"content_type": "text", "parts": ["This was asked otherwise."]}
    mapping[f"{name}-x"] = {"id": f"{name}-x", "message": lost, "parent": f"{name}-{left}", "children": []}
    mapping[f"{name}-{left}"]["children"].append(f"{name}-x")
    about = {"title": f"Rivers of {name}", "create_time": 1.77e9, "update_time": 1.77e9 + 99}
    return {**about, "mapping": mapping, "current_node": f"{name}-{len(said) - 1}", "conversation_id": name}


def test_every_kind_of_content_is_imported_as_a_second_reader_reads_it(tmp_path: Path) -> None:
    """Texts, thoughts, calls and results of each conversation, in order; splits add nothing."""
    whole = [conversation("one", SAID, 12), conversation("two", SAID[12:], 0), conversation("three", SAID[:1], 0)]
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps(whole))
    expected = read_chatgpt(path)
    with eventlog.open("memory:") as store:
        report = import_file(store, path)
        origins = [store.info(name).origin for name in report.sessions]
        found = [read_transcript(Transcript(store.session(name))) for name in report.sessions]
        assert dict(zip([origin.foreign_id for origin in origins if origin], found, strict=True)) == expected
        assert report.skipped == []
        for number, part in enumerate((whole[:2], whole[2:])):
            split = tmp_path / f"conversations-{number:03}.json"
            split.write_text(json.dumps(part))
            assert import_file(store, split).events == 0
        for name in report.sessions:
            events = [str(found.event) for found in store.session(name).events()]
            assert sum("This was asked otherwise." in event for event in events) == 1


def archive(path: Path, *names: str, data: bytes) -> Path:
    """Make a zip archive of files with the same content."""
    with ZipFile(path, "w", ZIP_DEFLATED) as made:
        for name in names:
            made.writestr(name, data)
    return path


@pytest.mark.parametrize("name", ["conversations.json", "an export/conversations.json"])
def test_the_archive_of_an_export_is_its_conversations(tmp_path: Path, name: str) -> None:
    """The zip that ChatGPT sends is read as it is, and its sessions are known unpacked, too."""
    data = json.dumps([conversation("one", SAID, 3), conversation("two", SAID[:4], 1)]).encode()
    (tmp_path / "conversations.json").write_bytes(data)
    zipped = archive(tmp_path / "export.zip", name, "chat.html", data=data)
    with eventlog.open("memory:") as store:
        report = import_file(store, zipped)
        assert (report.format, len(report.sessions)) == ("chatgpt", 2)
        assert import_file(store, tmp_path / "conversations.json").events == 0
        with zipped.open("rb") as file:
            assert import_file(store, file).sessions == report.sessions


def _torn(path: Path, data: bytes) -> None:
    whole = archive(path, "conversations.json", data=data).read_bytes()
    path.write_bytes(whole[:60] + bytes(20) + whole[80:])


REFUSED: dict[str, Callable[[Path, bytes], object]] = {
    "no conversations": lambda path, data: archive(path, "notes.json", data=data),
    "two of them": lambda path, data: archive(path, "a/conversations.json", "b/conversations.json", data=data),
    "no end": lambda path, data: path.write_bytes(archive(path, "conversations.json", data=data).read_bytes()[:-60]),
    "torn": _torn,
}


@pytest.mark.parametrize("kind", REFUSED)
def test_another_archive_is_refused_with_a_reason(tmp_path: Path, kind: str) -> None:
    """An archive without one readable `conversations.json` is named as one, and adds nothing."""
    REFUSED[kind](tmp_path / "export.zip", json.dumps([conversation("one", SAID, 3)]).encode())
    with eventlog.open("memory:") as store:
        with pytest.raises(ImportFormatError, match=r"export\.zip: a zip archive"):
            import_file(store, tmp_path / "export.zip")
        assert not list(store.sessions())


def test_an_archive_of_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that an archive unpacks to are bounded."""
    data = json.dumps([conversation("one", SAID, 3)]).encode()
    archive(tmp_path / "export.zip", "conversations.json", data=data)
    monkeypatch.setattr("eventlog.importers.one_file._LARGEST", len(data) - 1)
    with eventlog.open("memory:") as store, pytest.raises(ImportFormatError, match="unpack the archive"):
        import_file(store, tmp_path / "export.zip")
