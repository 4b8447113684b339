"""The page about the bytes on disk says what the code does."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

import eventlog.log.embedded
from eventlog.log.embedded.journal import frames
from eventlog.log.embedded.segments.blocks import Block, lay
from eventlog.log.embedded.segments.layout import TREES, HeadRow

PAGE = (Path(str(eventlog.log.embedded.__file__)).parent / "FORMAT.md").read_text(encoding="utf-8")
CONSTANTS = re.findall(r"^(\w+\.[\w.]+) +([\d,]+)$", PAGE, re.MULTILINE)
SALT = b"saltsalt"


def rows(title: str) -> dict[str, slice]:
    """The fields of a layout, by their first words, each with the bytes it has."""
    layout = PAGE.partition(f"offset  size  {title}\n")[2].partition("```")[0]
    found = re.findall(r"^ *(\d+) +(\d+)  ([^:,\n]+)", layout, re.MULTILINE)
    return {name: slice(int(begin), int(begin) + int(size)) for begin, size, name in found}


def number(data: bytes, place: slice) -> int:
    """The integer that lies there."""
    assert len(data) >= place.stop
    return int.from_bytes(data[place], "little")


@pytest.mark.parametrize(("name", "value"), CONSTANTS, ids=[name for name, _ in CONSTANTS])
def test_a_constant_has_the_value_of_the_code(name: str, value: str) -> None:
    """Each constant that the page names is that of the code."""
    module, *rest = re.split(r"\.(?=[A-Z])", name, maxsplit=1)
    found: Any = importlib.import_module(f"eventlog.log.{module}")
    for part in rest[0].split("."):
        found = getattr(found, part)
        found = found() if isinstance(found, type) else found
    assert found == int(value.replace(",", ""))
    assert len(CONSTANTS) > 20


def test_the_header_of_a_journal_file() -> None:
    """The fields of a file header lie where the page says."""
    data, at = frames.pack_file_header(7, SALT, 9), rows("field of the file header")
    assert data[at["magic EVDJRNL1"]] == b"EVDJRNL1"
    assert number(data, at["format version"]) == frames.FORMAT_VERSION
    assert (number(data, at["sequence"]), data[at["salt"]]) == (7, SALT)
    assert number(data, at["position of the last event before the file"]) == 9
    assert number(data, at["CRC of bytes 0 to 39"]) == crc32(data[:40])
    assert at["zero"].stop == len(data) == frames.FILE_HEADER_BYTES


def test_the_header_of_a_frame() -> None:
    """The fields of a frame header lie where the page says."""
    frame, at = bytearray(), rows("field of the frame header")
    frames.encode_records([frames.LeaseRecord("s", 1, b"me", 2)], frame)
    payload = bytes(frame[frames.FRAME_HEADER_BYTES :])
    frames.finish_frame(frame, SALT, 9, 1, 64)
    data = bytes(frame)
    assert (data[at["salt of the file"]], number(data, at["payload bytes"])) == (SALT, len(payload))
    assert number(data, at["position of the last event before the frame"]) == 9
    assert (number(data, at["kind"]), number(data, at["number of records"])) == (frames.RECORDS, 1)
    covered = (64).to_bytes(8, "little") + data[:24] + data[28:32] + payload
    assert number(data, at["CRC"]) == crc32(covered)
    assert at["number of records"].stop == frames.FRAME_HEADER_BYTES


def test_the_header_of_a_block() -> None:
    """The fields of a block header lie where the page says."""
    data, at = lay(Block(b"stored", 9, 1), 3, 4), rows("field of the block header")
    place = (3).to_bytes(8, "big") + (4).to_bytes(8, "big")
    assert number(data, at["CRC of slot u64 and offset u64 (both big-endian) and of bytes 4 to 16"]) == crc32(
        place + data[4:17]
    )
    assert number(data, at["CRC of the stored bytes"]) == crc32(b"stored")
    assert (number(data, at["stored bytes"]), number(data, at["plain bytes"])) == (6, 9)
    assert number(data, at["method"]) == 1
    assert data[at["method"].stop :] == b"stored"


def test_every_table_is_there() -> None:
    """The page lists the LMDB tables, and the fields of a head."""
    assert {name for name in TREES if f"\n- `{name}`: " in PAGE} == set(TREES)
    row = PAGE.partition("head: [")[2].partition("]")[0].split(", ")
    assert len(row) == len(HeadRow.__struct_fields__)
