"""Ids: opaque, unique, in ULID layout, sortable per maker; which ids a caller may give."""

from __future__ import annotations

import os

import pytest

from eventlog.errors import LimitError
from eventlog.ids import MAX_ID_BYTES, check_id, new_id


def test_ids_of_one_maker_sort_in_the_order_of_making() -> None:
    """Ids of one maker are unique and sort in the order of creation, even in one millisecond."""
    made = [new_id("msg_") for _ in range(5_000)]
    assert made == sorted(made)
    assert len({*made}) == len(made)
    assert {len(name) for name in made} == {30}
    assert all(set(name[4:]) <= set("0123456789abcdefghjkmnpqrstvwxyz") for name in made)


def test_a_child_process_makes_other_ids() -> None:
    """After `os.fork()` parent and child never make the same id."""
    new_id("msg_")  # draws random bytes for many ids
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, ",".join(new_id("msg_")[-12:] for _ in range(100)).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as told:
        made = set(told.read().split(","))
    os.waitpid(child, 0)
    assert len(made) == 100
    assert not made & {new_id("msg_")[-12:] for _ in range(2_000)}


@pytest.mark.parametrize("name", ["", "x" * (MAX_ID_BYTES + 1), "é" * (MAX_ID_BYTES // 2 + 1)])
def test_ids_that_are_none(name: str) -> None:
    """A caller's id must have 1 to 256 bytes of UTF-8."""
    with pytest.raises(LimitError):
        check_id("message", name)


def test_ids_that_callers_bring() -> None:
    """Any other text is accepted as an id, unchanged."""
    for name in ("a", "x" * MAX_ID_BYTES, "é" * (MAX_ID_BYTES // 2), "with blank/and\nmore"):
        assert check_id("message", name) == name
