"""Every recorded file gives the events it gave when the table of digests was made.

`python -m tests.eventlog.importers.test_recorded_digests` makes the table anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

import msgspec
import pytest

from eventlog.errors import ImportFormatError
from eventlog.importers import FORMATS, Report, detect
from eventlog.importers.common.json_lines import read_beginning
from tests.support.shared import SHARED, shared_path

TABLE = Path(__file__).parents[2] / "golden" / "imports" / "recorded.json"
DATA = SHARED / "data"
LARGEST = 4 << 20


def encode(value: object) -> bytes:
    """Bytes of some values; lone surrogates as escapes."""
    try:
        return msgspec.msgpack.encode(value)
    except UnicodeEncodeError:
        return repr(value).encode("unicode_escape")


def importable() -> Iterator[tuple[str, str]]:
    """Recorded files of a known format, with the format."""
    for path in sorted(DATA.rglob("*")):
        if path.is_file() and path.stat().st_size <= LARGEST:
            try:
                with path.open("rb") as file:
                    yield str(path.relative_to(DATA)), detect(read_beginning(file), "")
            except ImportFormatError:
                continue


def digest(name: str, format: str) -> str:
    """Digest of all events that a file gives, with their times and sessions."""
    found = blake2b(digest_size=8)
    importer = FORMATS[format]
    with (DATA / name).open("rb") as file:
        for batch in importer.read(file, f"/recorded/{name}", Report(f"/recorded/{name}", format)):
            for time, event in (*batch.items, *(batch.snapshot or ())):
                found.update(encode([batch.session, time, event]))
            found.update(encode(sorted(batch.bodies)))
    return found.hexdigest()


def test_every_recorded_file_gives_the_same_events() -> None:
    """Importers give, event by event, what they gave before they shared their mappings."""
    shared_path("data")
    table: dict[str, list[str]] = json.loads(TABLE.read_text())
    if not all((DATA / name).exists() for name in table):
        pytest.skip("other recorded data than the table's")
    changed = [name for name, (format, expected) in table.items() if digest(name, format) != expected]
    assert not changed


if __name__ == "__main__":
    rows = {name: [format, digest(name, format)] for name, format in importable() if format != "event_jsonl"}
    TABLE.write_text("{\n" + ",\n".join(f"{json.dumps(key)}: {json.dumps(row)}" for key, row in rows.items()) + "\n}\n")
    print(len(rows), "files")
