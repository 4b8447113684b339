"""Hypothesis strategies for single events of every kind, with every value of every field."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, cast

from hypothesis import strategies as st

from eventlog import events as ev
from eventlog.codec.deltas import DeltaRun
from eventlog.values import Body

KINDS: tuple[type[ev.Base], ...] = cast("Any", ev.Event).__args__
"""Every kind of event of the union."""

texts = st.text(
    st.one_of(st.characters(), st.sampled_from("\ud800\udfff\udc80\U0010ffff0af\u0000é中")), max_size=12
)  # `characters()` of Hypothesis excludes surrogates, so they are named
integers = st.one_of(st.integers(-(1 << 63), (1 << 64) - 1), st.integers(0, 300))
times = st.integers(0, 4_102_444_800_000)
decimals = st.decimals(allow_nan=False, allow_infinity=False)
bodies = st.builds(Body, st.binary(min_size=32, max_size=32), st.integers(0, 1 << 40), st.integers(0, 1 << 40))

for _type, _strategy in (
    (str, texts),
    (int, integers),
    (bytes, st.binary(max_size=40)),
    (Decimal, decimals),
    (Body, bodies),
):
    st.register_type_strategy(cast("Any", _type), cast("Any", _strategy))

events: st.SearchStrategy[ev.Event] = st.one_of(*(st.from_type(cast("Any", kind)) for kind in KINDS))
"""Any event, its fields filled from their types."""

_parts = st.sampled_from(["p1", "p2", "p\udc80"])
_fields = st.sampled_from(["text", "input", "output"])
deltas = st.builds(ev.PartDelta, _parts, _fields, texts)


@st.composite
def runs(draw: st.DrawFn, base: int = 0) -> DeltaRun:
    """A run of deltas of several parts, with times that may go back."""
    pairs = draw(st.lists(st.tuples(times, deltas), min_size=1, max_size=20))
    return DeltaRun.from_deltas(pairs, base)


@st.composite
def items(draw: st.DrawFn) -> tuple[int, list[tuple[int, ev.Event] | DeltaRun]]:
    """A batch's time and what it holds: events and runs, in any order."""
    time = draw(times)
    entry: st.SearchStrategy[tuple[int, ev.Event] | DeltaRun] = st.one_of(st.tuples(times, events), runs(time))
    return time, draw(st.lists(entry, min_size=1, max_size=4))
