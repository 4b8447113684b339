"""When the window is full: usable tokens, reserves, and the test of overflow."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.values import Limits, Tokens
from projections.window.policy.limits import is_over, max_output, step_total, usable
from projections.window.policy.policy import OverflowPolicy

counts = st.integers(0, 2_000_000)
some = st.none() | counts
limits = st.builds(Limits, context=counts, output=some, input=some)
policies = st.builds(OverflowPolicy, reserved=some, buffer=counts, output_cap=st.integers(1, 100_000))


@pytest.mark.parametrize(
    ("limits", "policy", "expected"),
    [
        (Limits(200_000, 8_000), OverflowPolicy(), 192_000),
        (Limits(200_000, 64_000), OverflowPolicy(), 168_000),
        (Limits(200_000), OverflowPolicy(), 168_000),
        (Limits(200_000, 0), OverflowPolicy(), 168_000),
        (Limits(30_000, 4_000, 20_000), OverflowPolicy(reserved=5_000), 15_000),
        (Limits(30_000, 4_000, 20_000), OverflowPolicy(), 16_000),
        (Limits(400_000, 128_000, 272_000), OverflowPolicy(), 252_000),
        (Limits(30_000, 4_000), OverflowPolicy(reserved=5_000), 26_000),
        (Limits(4_000, 8_000), OverflowPolicy(), 0),
        (Limits(4_000, 8_000, 3_000), OverflowPolicy(reserved=9_000), 0),
        (Limits(0, 8_000, 20_000), OverflowPolicy(), None),
        (None, OverflowPolicy(), None),
    ],
)
def test_usable_is_what_the_specification_says(
    limits: Limits | None, policy: OverflowPolicy, expected: int | None
) -> None:
    """An input limit less what is reserved, else the context less the largest answer."""
    assert usable(limits, policy) == expected


@given(limits, policies)
def test_usable_leaves_the_room_that_is_asked_for(limits: Limits, policy: OverflowPolicy) -> None:
    """Usable and reserved tokens never exceed the limit, nor the answer's room the cap."""
    room = usable(limits, policy)
    output = max_output(limits, policy)
    assert 0 < output <= policy.output_cap
    if room is None:
        assert limits.context == 0
    elif limits.input:
        reserved = min(policy.buffer, output) if policy.reserved is None else policy.reserved
        assert room == max(0, limits.input - reserved)
    else:
        assert room == max(0, limits.context - output)


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (Tokens(10, 20, 30, 40, 50, 7), 7),
        (Tokens(10, 20, 30, 40, 50), 120),
        (Tokens(10, 20, 30, 40, 50, 0), 120),
        (Tokens(), 0),
    ],
)
def test_the_total_of_a_step(tokens: Tokens, expected: int) -> None:
    """The reported total counts."""
    assert step_total(tokens) == expected


@given(counts, st.none() | counts, st.booleans())
def test_over_is_at_least_usable(count: int, room: int | None, auto: bool) -> None:
    """As many tokens as are usable are too many."""
    assert is_over(count, room, OverflowPolicy(auto=auto)) is (auto and room is not None and count >= room)
