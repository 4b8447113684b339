"""Each importer gives what a reader written from the format alone finds in a recording."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

import eventlog
from eventlog.errors import ImportFormatError
from eventlog.importers import import_file
from projections import Transcript
from tests.support.independent_reader import (
    Item,
    read_aider,
    read_claude_code,
    read_codex,
    read_gemini_cli,
    read_pi,
    read_roles,
    read_transcript,
)
from tests.support.second_readers.responses import read_responses, recorded_bodies
from tests.support.shared import shared_path

NOTICE_ONLY = "cli__ec_38b74f08e3_2_full.json"
"""A session of Gemini CLI with one warning of the program: no message, so it is refused."""

LEFT_OUT = {
    NOTICE_ONLY,
    "test__test_data__edge_cases.jsonl",  # lines made by hand that are no records
    "mock-global-claude-dir__projects__sample-project__5c0375b4-57a5-4f26-b12d-d022ee4e51b7.jsonl",  # its side chains are sessions of their own
    "cli__d0_161e0df1cb_0_full.jsonl",  # its second branch is a fork, its compaction a summary
    "skills__bc_9922db4c84_0_full.jsonl",  # a result of tool references: no text, kept as JSON
}
"""Recordings that a plain reader of one branch cannot list, each with its reason."""


def compare(path: Path, expected: list[Item]) -> int:
    """Import a file twice and compare its one session; return how many items there are."""
    with eventlog.open("memory:") as store:
        (name,) = import_file(store, path).sessions
        assert read_transcript(Transcript(store.session(name))) == expected, path.name
        assert import_file(store, path).events == 0, path.name
    return len(expected)


@pytest.mark.parametrize(
    ("folder", "pattern", "read", "count"),
    [
        ("entireio_gemini", "*.json", read_gemini_cli, 3),
        ("entireio_codex", "*.jsonl", read_codex, 9),
        ("claude_code_viewer", "*.jsonl", read_claude_code, 3),
        ("claude_code_log", "*.jsonl", read_claude_code, 3),
        ("entireio_claude_code", "*.jsonl", read_claude_code, 11),
        ("pi_mono", "*.jsonl", read_pi, 1),
        ("smile_zh", "*.json", read_roles, 27),
        ("mini_swe_agent", "*.json", read_roles, 2),
        ("swe_agent", "*.traj", read_roles, 5),
        ("tau_bench", "*.json", read_roles, 9),
    ],
)
def test_a_recording_is_imported_as_a_second_reader_reads_it(
    folder: str, pattern: str, read: Callable[[Path], list[Item]], count: int
) -> None:
    """Every text, reasoning, call and result is there once, in order, and nothing else."""
    paths = [path for path in sorted(shared_path("data", folder).glob(pattern)) if path.name not in LEFT_OUT]
    assert len(paths) == count
    assert all(compare(path, read(path)) for path in paths)


def test_an_aider_chat_is_imported_as_a_second_reader_reads_it(tmp_path: Path) -> None:
    """The chats on aider's pages, without the page around them, keep every text in order."""
    pages = sorted(shared_path("data", "aider").glob("*.md"))
    assert len(pages) == 12
    for page in pages:
        shell, mark, chat = page.read_text().partition('<div class="chat-transcript"')
        assert shell
        assert mark
        lines = [line for line in (mark + chat).splitlines() if not line.startswith(("<div", "</div"))]
        history = tmp_path / page.name
        history.write_text("\n".join(["# aider chat started at 2023-06-01 10:00:00", "", *lines, ""]))
        assert compare(history, read_aider(history)) > 1


def test_bodies_of_responses_are_imported_as_a_second_reader_reads_them() -> None:
    """Recorded requests and responses, and a response as a page of a conversation's items."""
    bodies = [body for _, body in recorded_bodies()]
    assert len(bodies) == 59
    pages = [{"object": "list", "data": body["output"], "has_more": False} for body in bodies if "output" in body]
    for number, body in enumerate([*bodies, *pages]):
        file = io.BytesIO(json.dumps(body).encode())
        file.name = f"body-{number}.json"
        with eventlog.open("memory:") as store:
            (name,) = import_file(store, file).sessions
            assert read_transcript(Transcript(store.session(name))) == read_responses(body), number
            file.seek(0)
            assert import_file(store, file).events == 0, number


def test_a_session_of_notices_alone_is_refused() -> None:
    """A Gemini CLI session without user and assistant is an error, not an empty session."""
    path = shared_path("data", "entireio_gemini", NOTICE_ONLY)
    assert read_gemini_cli(path) == []
    with eventlog.open("memory:") as store, pytest.raises(ImportFormatError, match="no conversation"):
        import_file(store, path)
