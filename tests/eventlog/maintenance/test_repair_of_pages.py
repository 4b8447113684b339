"""A repair loses what a damaged byte of a page holds, and nothing that lies beside it."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

import eventlog
from eventlog.log.embedded.segments.pages import meta_pages
from eventlog.maintenance.repair import repair
from tests.support.sample_sessions import exchange

SESSIONS = 120
Flip = Callable[[bytearray, int, int, int], None]
"""Changes bytes of a file: of a tree's root or first leaf; pages have one size."""


def _places(file: bytearray, page: int) -> list[int]:
    (end,) = struct.unpack_from("=H", file, page + 12)
    return [page + struct.unpack_from("=H", file, page + at)[0] for at in range(16, end, 2)]


def _child(file: bytearray, node: int) -> int:
    low, high = struct.unpack_from("=IH", file, node)
    return int(low | high << 32)


def a_key_out_of_order(file: bytearray, _root: int, leaf: int, _size: int) -> None:
    """The second key of the first leaf is greater than all others."""
    file[_places(file, leaf)[1] + 8] |= 0x80


def a_place_outside(file: bytearray, root: int, _leaf: int, _size: int) -> None:
    """An entry of the root lies beyond the page."""
    file[root + 16 + 3] |= 0x40


def another_number(file: bytearray, root: int, _leaf: int, _size: int) -> None:
    """The root says that it is another page."""
    file[root + 3] ^= 1


def an_unused_flag(file: bytearray, root: int, _leaf: int, _size: int) -> None:
    """A flag that LMDB does not look at is set."""
    file[root + 11] ^= 0x40


@pytest.mark.parametrize(
    ("flip", "saved"),
    [
        (a_key_out_of_order, SESSIONS - 2),
        (a_place_outside, SESSIONS // 3),
        (another_number, SESSIONS),
        (an_unused_flag, SESSIONS),
    ],
)
def test_a_byte_of_a_page_costs_its_entries_alone(tmp_path: Path, flip: Flip, saved: int) -> None:
    """Entries beside a damaged one are saved."""
    with eventlog.open(tmp_path / "s") as store:
        for number in range(SESSIONS):
            exchange(store.create_session(id=f"s{number:03}"))
    data = tmp_path / "s" / "1" / "lmdb" / "data.mdb"
    (meta, *_), file, root = meta_pages(data), bytearray(data.read_bytes()), 0
    size = meta.page_bytes
    for node in _places(file, meta.root * size):
        (name,) = struct.unpack_from("=H", file, node + 6)
        if file[node + 8 : node + 8 + name] == bytearray(b"commits"):
            root = struct.unpack_from("=Q", file, node + 8 + name + 40)[0] * size
            break
    assert root
    leaf = root
    while file[leaf + 10] == 1:
        leaf = _child(file, _places(file, leaf)[0]) * size
    assert leaf != root, "the tree has one page"
    flip(file, root, leaf, size)
    data.write_bytes(file)
    report = repair(tmp_path / "s", tmp_path / "r")
    assert report.sessions >= saved
    with eventlog.open(tmp_path / "r") as store:
        assert len(list(store.sessions())) >= saved
