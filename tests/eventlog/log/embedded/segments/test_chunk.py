"""The bytes of a chunk: commits as columns, from which every payload comes back exactly."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog import events as ev
from eventlog.codec.batch import encode
from eventlog.codec.deltas import DeltaRun
from eventlog.errors import DamagedError
from eventlog.log.commit import Commit
from eventlog.log.embedded.segments.chunk import decode_chunk, encode_chunk
from tests.support.event_strategies import items

QUICK = settings(max_examples=60, deadline=None)

Batch = tuple[int, list[tuple[int, ev.Event] | DeltaRun]]

batches = items().map(lambda batch: encode(batch[1], batch[0]))
ALIKE = b"\x94\x03\x00\xc2\x91\x98\x01\x00\x02\x91\x92\xa1p\xa1t\xc4\x00\xc4\x02ab\xc4\x04cdef\xa5texts"
"""Bytes of a batch with one run, to be changed into something that only looks like one."""


@st.composite
def broken_batches(draw: st.DrawFn) -> bytes:
    """Bytes that look like a batch with a run, partly changed or cut off."""
    data = bytearray(draw(st.one_of(batches, st.just(ALIKE))))
    for _ in range(draw(st.integers(1, 4))):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data[: draw(st.integers(0, len(data)))])


@st.composite
def commits(draw: st.DrawFn) -> list[Commit]:
    """Successive commits of one session with the given payloads."""
    found: list[Commit] = []
    first, position = draw(st.integers(1, 2**40)), draw(st.integers(1, 2**40))
    for payload in draw(st.lists(st.one_of(batches, broken_batches(), st.binary(max_size=80)), min_size=1, max_size=8)):
        count = draw(st.integers(1, 2**20))
        emptied = draw(st.booleans())
        commit = Commit(
            "session", first, count, position, draw(st.integers(0, 9)), draw(st.integers(-(2**40), 2**40)), payload,
            draw(st.one_of(st.none(), st.text(max_size=9))),
            b"" if emptied else draw(st.binary(min_size=16, max_size=16)),
            draw(st.binary(min_size=32, max_size=32) if emptied else st.binary(min_size=8, max_size=8)),
        )  # fmt: skip
        found.append(commit)
        first, position = commit.last + 1, position + count + draw(st.integers(0, 99))
    return found


@QUICK
@given(commits())
def test_every_commit_comes_back(known: list[Commit]) -> None:
    """Every payload of a chunk comes back exactly, with the text and time of every delta."""
    assert decode_chunk(b"".join(encode_chunk("session", known)), "session", known[0].first) == known


@QUICK
@given(commits(), st.data())
def test_some_commits_come_back_as_all_of_them_do(known: list[Commit], data: st.DataObject) -> None:
    """Commits of a range of versions are those that the whole chunk has there."""
    since = data.draw(st.integers(known[0].first, known[-1].last))
    upto = data.draw(st.integers(since, known[-1].last + 9))
    found = decode_chunk(b"".join(encode_chunk("session", known)), "session", known[0].first, since, upto)
    assert found == [commit for commit in known if commit.last >= since and commit.first <= upto]


@pytest.mark.parametrize(
    "head", [b"\x94\x03\x00\xc2\x91", b"\x94\x03\x00\xc2\x91\x98\x01\x00\x01", b"\x94\x03\x00\xc2\xdd\xff\xff\xff\xff"]
)
def test_a_payload_of_any_depth_is_kept(head: bytes) -> None:
    """A payload nested too deeply to inspect is stored unchanged and stops no fold."""
    known = [Commit("s", 1, 1, 1, 0, 0, head + b"\x91" * 200_000 + b"\x98\x01", None, bytes(16), bytes(8))]
    assert decode_chunk(b"".join(encode_chunk("s", known)), "s", 1) == known
    table = b"\x9d" + b"\x91" * 200_000
    with pytest.raises(DamagedError):
        decode_chunk(len(table).to_bytes(4, "little") + table, "s", 1)


@pytest.mark.promise(12)
@QUICK
@given(
    st.lists(
        items().filter(lambda batch: any(isinstance(item, DeltaRun) for item in batch[1])), min_size=1, max_size=3
    ),
    st.data(),
)
def test_what_is_no_chunk_is_damage(found: list[Batch], data: st.DataObject) -> None:
    """Promise 12: a chunk with changed bytes raises `DamagedError` or yields other commits."""
    payloads = [encode(batch, time) for time, batch in found]
    known = [
        Commit("s", number, 1, number, 0, 0, payload, None, bytes(16), bytes(8))
        for number, payload in enumerate(payloads, 1)
    ]
    plain = bytearray(b"".join(encode_chunk("s", known)))
    for _ in range(data.draw(st.integers(1, 3))):
        plain[data.draw(st.integers(0, len(plain) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(plain[: data.draw(st.integers(0, len(plain)))])
    for changed in (bytes(plain), cut, cut + b"\0"):
        with suppress(DamagedError):
            decode_chunk(changed, "s", 1)
    with pytest.raises(DamagedError) as caught:
        decode_chunk(bytes(plain) + b"\0", "s", 1)
    assert (caught.value.session, caught.value.version) == ("s", 1)
