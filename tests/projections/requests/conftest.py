"""A store of recorded sessions that requests are made of."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import eventlog
from eventlog import Store
from eventlog.errors import ImportFormatError
from eventlog.importers import import_file
from tests.support.import_counts import recorded
from tests.support.parity import scenarios
from tests.support.shared import shared_path


def files(folder: Path) -> Iterator[Path]:
    """Every recorded file, and the last two exports of parity scenarios."""
    data = shared_path("data")
    shared_path("parity")
    yield from filter(Path.is_file, recorded(data, ""))
    yield from sorted((data / "sse_extracted").glob("*.sse"))
    for scenario in scenarios():
        for name, export in [*scenario.exports()][-2:]:
            path = folder / f"{scenario.name}-{name}.json"
            path.write_text(json.dumps(export))
            yield path


@pytest.fixture(scope="session")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store of every recorded session that can be imported; tests change forks only."""
    with eventlog.open("memory:") as store:
        for path in files(tmp_path_factory.mktemp("exports")):
            try:
                import_file(store, path)
            except ImportFormatError:
                continue
        assert len([*store.sessions()]) > 250
        yield store
