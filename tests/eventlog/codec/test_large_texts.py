"""Bodies by content hash: small ones stay uncompressed, each packed form unpacks exactly."""

from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.codec.large_texts import INLINE, SMALL, body_text, to_content
from eventlog.compression import compressed_body, plain_body
from eventlog.values import Body


def long_enough(piece: str, characters: int) -> str:
    """Return a text of so many characters by repeating a piece."""
    return (piece * (characters // len(piece) + 1))[:characters]


TEXTS = st.builds(
    long_enough,
    st.text(st.characters(exclude_categories=()), min_size=1, max_size=40),
    st.integers(INLINE + 1, 3 * SMALL),
)


def packed_of(text: str) -> tuple[Body, bytes]:
    """Return a text's body, and its packed bytes as a command hands them over."""
    bodies: dict[bytes, bytes] = {}
    body = to_content(text, bodies)
    assert isinstance(body, Body)
    return body, bodies[body.digest]


@pytest.mark.promise(12)
@settings(max_examples=50, deadline=None)
@given(TEXTS)
def test_every_packed_form_is_the_same_text(text: str) -> None:
    """Promise 12: each packed form of a body unpacks to the same text under the same hash."""
    body, packed = packed_of(text)
    data = text.encode("utf-8", "surrogatepass")
    assert (body.digest, body.size, body.characters) == (sha256(data).digest(), len(data), len(text))
    tight = compressed_body(packed)
    for form in (packed, tight, compressed_body(tight), plain_body(body.digest, tight, 1 << 20)):
        assert body_text(body, form) == text
    assert len(tight) <= len(packed)


def test_small_bodies_are_compressed_by_nobody_who_waits() -> None:
    """Bodies up to `SMALL` bytes reach the log uncompressed; larger ones are compressed."""
    _, small = packed_of("a" * SMALL)
    assert len(small) == SMALL + 1
    assert len(compressed_body(small)) < SMALL // 8
    _, large = packed_of("a" * (SMALL + 1))
    assert len(large) < SMALL // 8
    assert compressed_body(large) == large
