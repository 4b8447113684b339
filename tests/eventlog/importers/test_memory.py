"""Importers read files of any size in bounded memory, in every format."""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path

import pytest

from eventlog import Session, Store
from eventlog.importers import FORMATS, detect, import_file
from eventlog.importers.common import json_lines
from eventlog.importers.common.importer import Report
from eventlog.importers.common.json_lines import read_beginning
from tests.support.long_files import FORMS, long_file

SMALL = 240_000
LARGE = 8 * SMALL


@pytest.fixture(autouse=True)
def _short_beginnings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a document on one line as much is read to detect its format as of one on many."""
    monkeypatch.setattr(json_lines, "LONGEST", json_lines.START)


def peak(form: str, folder: Path, size: int) -> tuple[int, int]:
    """Bytes that reading a file of this size holds at most, and the events that it gives."""
    path = long_file(form, folder, size)
    tracemalloc.start()
    try:
        with path.open("rb") as file:
            name = detect(read_beginning(file), str(path))
            file.seek(0)
            events = sum(len(batch.items) for batch in FORMATS[name].read(file, str(path), Report(str(path), name)))
        return tracemalloc.get_traced_memory()[1], events
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("form", ["chatgpt", "openai_messages, sessions"])
def test_many_sessions_take_the_memory_of_one(form: str, store: Store, tmp_path: Path) -> None:
    """Each session is stored, and let go, before the next but one is read."""
    waiting: list[int] = []
    alive: list[int] = []

    def look(*_: int | None) -> None:
        waiting.append(sum(not info.messages for info in store.sessions()))
        if len(waiting) % 10 == 0:
            alive.append(sum(isinstance(one, Session) and one.store is store for one in gc.get_objects()))

    assert len(import_file(store, long_file(form, tmp_path, SMALL), on_progress=look).sessions) > 20
    assert len(waiting) > 20
    assert max(waiting) <= 1
    assert max(alive) <= 2


def test_every_format_has_a_long_file() -> None:
    """No importer is left out of these measurements."""
    assert {form.partition(",")[0] for form in FORMS} == set(FORMATS)


@pytest.mark.parametrize("form", FORMS)
def test_memory_does_not_grow_with_the_file(form: str, tmp_path: Path) -> None:
    """Less than half of what a file is larger is held: of a fuller batch, and indexes."""
    before, few = peak(form, tmp_path / "small", SMALL)
    for attempt in ("large", "again"):  # a thread of another test may hold something meanwhile
        after, many = peak(form, tmp_path / attempt, LARGE)
        assert 6 * few < many < 10 * few
        if after - before < (LARGE - SMALL) / 2:
            return
    pytest.fail(f"{before} bytes were held of {SMALL}, {after} of {LARGE}")
