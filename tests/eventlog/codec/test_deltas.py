"""Runs of deltas: columns that return every delta, whole or in part."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from eventlog.codec.deltas import DeltaRun, pack_column, sum_column, unpack_column
from eventlog.events import PartDelta
from tests.support.event_strategies import deltas, times

PAIRS = st.lists(st.tuples(times, deltas), min_size=1, max_size=40)
QUICK = settings(max_examples=100, deadline=None)


@pytest.mark.promise(1)
@QUICK
@given(PAIRS, times)
def test_every_delta_comes_back(pairs: list[tuple[int, PartDelta]], base: int) -> None:
    """Promise 1: each delta comes back with its part, field, text and millisecond."""
    run = DeltaRun.from_deltas(pairs, base)
    run.validate()
    assert run.count == len(pairs)
    assert list(zip(run.times(base), run, strict=True)) == pairs
    assert run.texts() == [delta.text for _, delta in pairs]
    assert run.key_column() == [(delta.part, delta.field) for _, delta in pairs]


@QUICK
@given(
    st.integers(-(10**18), 10**18),
    st.lists(st.one_of(st.integers(0, 3), st.integers(0, 400_000), st.integers(-(10**6), 3 * 10**8)), max_size=300),
    st.booleans(),
)
def test_every_delta_has_its_millisecond(start: int, steps: list[int], quick: bool) -> None:
    """Delta times are exact to the millisecond, also from a clock that was set back."""
    at = list(accumulate((step % 100_000 if quick else step for step in steps), initial=start))
    flat = [slot for time in at for slot in (("part", "text"), "x", time)]
    run = DeltaRun.from_flat(flat, unit=10**6)
    run.validate()
    assert run.times() == [time // 10**6 for time in at]
    assert run.last_time() == at[-1] // 10**6


@QUICK
@given(PAIRS)
def test_joined_is_what_the_deltas_add_up_to(pairs: list[tuple[int, PartDelta]]) -> None:
    """Applying a run as a whole gives the same text as applying its deltas one by one."""
    expected: dict[tuple[str, str], str] = {}
    for _, delta in pairs:
        key = (delta.part, delta.field)
        expected[key] = expected.get(key, "") + delta.text
    joined = DeltaRun.from_deltas(pairs).joined()
    assert joined == expected
    assert list(joined) == list(expected)


@QUICK
@given(PAIRS, st.data())
def test_a_cut_run_is_its_part_of_the_deltas(pairs: list[tuple[int, PartDelta]], data: st.DataObject) -> None:
    """A run cut at a version has exactly the deltas up to it, with their times."""
    base = data.draw(times)
    start = data.draw(st.integers(0, len(pairs) - 1))
    stop = data.draw(st.integers(start + 1, len(pairs) + 2))
    cut = DeltaRun.from_deltas(pairs, base).cut(start, stop)
    cut.validate()
    assert list(zip(cut.times(base), cut, strict=True)) == pairs[start:stop]


@pytest.mark.promise(1)
@QUICK
@given(PAIRS, st.integers(1, 20))
def test_pieces_are_the_run_in_bounded_runs(pairs: list[tuple[int, PartDelta]], characters: int) -> None:
    """Promise 1: a run too large for one append is split without losing or moving a delta."""
    pieces = DeltaRun.from_deltas(pairs).pieces(characters)
    assert [fact for piece in pieces for fact in zip(piece.times(), piece, strict=True)] == pairs
    assert all(piece.count == 1 or len(piece.text) <= characters for piece in pieces)


@QUICK
@given(PAIRS)
def test_a_run_without_a_key_has_all_others(pairs: list[tuple[int, PartDelta]]) -> None:
    """Dropping one part's deltas from a run keeps all others."""
    gone = (pairs[0][1].part, pairs[0][1].field)
    kept = [(time, delta) for time, delta in pairs if (delta.part, delta.field) != gone]
    run = DeltaRun.from_deltas(pairs).without({gone})
    assert (list(zip(run.times(), run, strict=True)) if run is not None else []) == kept


@QUICK
@given(PAIRS, st.data())
def test_cutting_twice_is_cutting_once(pairs: list[tuple[int, PartDelta]], data: st.DataObject) -> None:
    """A cut run encodes like a run built from the same deltas: the encoding is canonical."""
    start = data.draw(st.integers(0, len(pairs) - 1))
    stop = data.draw(st.integers(start + 1, len(pairs)))
    assert DeltaRun.from_deltas(pairs).cut(start, stop) == DeltaRun.from_deltas(pairs[start:stop])


@pytest.mark.parametrize(
    ("values", "width"),
    [
        ([0, 255], 1),
        ([0, 256], 2),
        ([65_535], 2),
        ([65_536], 4),
        ([0xFFFFFFFF], 4),
        ([0x1_0000_0000], 8),
        ([0, -1], 8),
        ([-(1 << 62), 1 << 62], 8),
    ],
)
def test_a_column_has_the_narrowest_width_that_holds_it(values: list[int], width: int) -> None:
    """Each column takes the narrowest width that holds it, 8 bytes when the clock went back."""
    column = pack_column(values)
    assert len(column) == width * len(values)
    assert list(unpack_column(column, len(values))) == values


@pytest.mark.parametrize(("column", "count"), [(b"abc", 2), (b"", 1), (b"abc", 1), (bytes(10), 2)])
def test_a_column_of_an_impossible_width_is_refused(column: bytes, count: int) -> None:
    """A column of impossible width is damage, not wrong numbers."""
    with pytest.raises(ValueError, match="cannot hold"):
        unpack_column(column, count)


@given(st.binary(max_size=2_000))
@example(b"\xff" * 256)
@example(b"\xff" * 257)
@example(b"")
def test_a_column_of_bytes_is_summed_up(column: bytes) -> None:
    """The fast column sum equals the plain sum, however many and however large the bytes."""
    assert sum_column(column) == sum(column)


def test_one_part_needs_no_key_column_and_many_need_a_wide_one() -> None:
    """A run of one part has no key column; 300 interleaved parts round-trip with a wide one."""
    alone = DeltaRun.from_deltas([(1, PartDelta("p", "text", "x"))] * 5)
    assert alone.which == b""
    many = [(index, PartDelta(f"p{index % 300}", "text", str(index))) for index in range(900)]
    run = DeltaRun.from_deltas(many)
    assert len(run.which) == 1800
    assert list(zip(run.times(), run.deltas(), strict=True)) == many
