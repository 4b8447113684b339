"""Agents run against a script; their records are imported as a second reader reads them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import eventlog
from eventlog.importers import import_file
from projections import Transcript
from tests.faults.tally import SLOW
from tests.support.agent_recordings import (
    AGENTS,
    Played,
    install,
    record_cline,
    record_gemini,
    record_opencode,
    record_qwen,
)
from tests.support.independent_reader import Item, read_transcript
from tests.support.second_readers.cline import read_cline
from tests.support.second_readers.gemini import read_gemini_lines
from tests.support.second_readers.opencode import read_database, read_storage
from tests.support.second_readers.qwen import read_qwen

Read = Callable[[Path], dict[str, list[Item]]]
RECIPES: dict[str, tuple[str, Callable[[Played], list[Path]], Read, int]] = {
    "opencode": ("opencode_db", record_opencode, read_database, 17),
    "opencode_storage": (
        "opencode_storage",
        partial(record_opencode, data="storage/session/*/ses_*.json"),
        read_storage,
        17,
    ),
    "qwen": ("qwen_code", record_qwen, read_qwen, 17),
    "gemini": ("gemini_cli", record_gemini, read_gemini_lines, 20),
    "cline": ("cline", record_cline, read_cline, 21),
}
"""By the name of the recording: format, recipe, reader, and how many items there are."""


@pytest.mark.skipif(not SLOW, reason="installs five agents: set EVERDELTA_SLOW=1")
@pytest.mark.parametrize("name", RECIPES)
def test_what_an_agent_records_is_imported_as_a_second_reader_reads_it(name: str, tmp_path: Path) -> None:
    """Each text, call and result is in its session once, in order; a repeat adds nothing."""
    format, record, read, count = RECIPES[name]
    paths = record(Played(install(AGENTS[name], tmp_path / "program"), tmp_path / "played"))
    shutil.rmtree(tmp_path / "program")
    expected = {session: items for path in paths for session, items in read(path).items()}
    assert sum(map(len, expected.values())) == count
    with eventlog.open("memory:") as store:
        found: dict[str, list[Item]] = {}
        for path in paths:
            report = import_file(store, path)
            assert report.format == format
            for session in report.sessions:
                origin = store.info(session).origin
                assert origin is not None
                found[origin.foreign_id] = read_transcript(Transcript(store.session(session)))
            assert import_file(store, path).events == 0
        assert found == expected
