"""The plain bytes of a chunk: consecutive commits of a session, as columns.  Pure.

`FORMAT.md` has the bytes. The last three fields of every run of deltas (`eventlog/codec/deltas.py`)
are cut out of the payloads, each as the bytes that MessagePack made of it, and lie in columns of
their own: texts compress best beside texts, lengths and times beside their own kind; in one column
they compress a tenth worse. Integers of more than one byte in `gaps` have their first bytes
together, then their second ones, and so on.

Runs are found by their shape and put back where they were, so every payload comes back byte for
byte; one that is no batch of events stays whole.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate, repeat
from typing import TYPE_CHECKING

import msgspec

from eventlog.errors import DamagedError
from eventlog.log.commit import Commit
from eventlog.log.validation import MAX_NUMBER, Count, Number, Signed

if TYPE_CHECKING:
    from collections.abc import Sequence

_HEAD = 4
_RUN = b"\x98\x01"
"""The first bytes of a run of deltas: an array of eight, whose first is the tag."""
_BINARY = {0xC4: 2, 0xC5: 3, 0xC6: 5}
"""Bytes of a MessagePack binary's header, by its first byte."""
_WIDTHS = frozenset({1, 2, 4, 8})


class _Table(msgspec.Struct, frozen=True, array_like=True):
    """The fields of a chunk's commits other than payloads: a list each, in order of versions."""

    session: str
    first: Number
    """The first version of the first commit; each other begins behind the one before."""
    counts: list[Count]
    positions: list[Number]
    """Positions, each less the one before."""
    epochs: list[Number]
    times: list[Signed]
    """Times, each less the one before."""
    requests: list[str | None]
    salts: list[bytes]
    leaves: list[bytes]
    sizes: list[int]
    """Bytes of each payload without what was cut out."""
    cuts: list[tuple[int, int, int, int, int, int]]
    """Cuts out of payloads, and the integers in their gaps.

    Of each cut: its commit's number in this chunk, less that of the cut before; its place in the
    remaining payload; the bytes of lengths, of gaps and of text; and of each integer in the gaps.
    """
    columns: tuple[int, int, int, int]
    """Bytes of the four columns."""


_Run = tuple[int, int, int, msgspec.Raw, msgspec.Raw, msgspec.Raw, msgspec.Raw, msgspec.Raw]
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Table).decode


class _Batch(msgspec.Struct, frozen=True, array_like=True):
    """A batch of events: its entries, and what stands behind them."""

    schema: int
    time: int
    escaped: bool
    entries: list[msgspec.Raw]
    messages: msgspec.Raw = msgspec.Raw()
    before: msgspec.Raw = msgspec.Raw()


_decode_batch = msgspec.msgpack.Decoder(_Batch).decode
_decode_run = msgspec.msgpack.Decoder(_Run).decode


def encode_chunk(session: str, commits: Sequence[Commit]) -> list[bytes]:
    """Return the plain bytes of a chunk, in the pieces that are best compressed apart."""
    payloads: list[bytes] = []
    lengths: list[bytes] = []
    gaps: list[bytes] = []
    texts: list[bytes] = []
    cuts: list[tuple[int, int, int, int, int, int]] = []
    before = 0
    for number, commit in enumerate(commits):
        payload = commit.payload
        at = shortened = 0
        for length, gap, width, begin, end in _runs(payload):
            payloads.append(payload[at:begin])
            shortened += begin - at
            middle, last = begin + length, begin + length + gap
            lengths.append(payload[begin:middle])
            gaps.append(_split(payload[middle:last], width))
            texts.append(payload[last:end])
            cuts.append((number - before, shortened, length, gap, end - last, width))
            before, at = number, end
        payloads.append(payload[at:])
    columns = [b"".join(pieces) for pieces in (payloads, lengths, gaps, texts)]
    cut = [0] * len(commits)
    number = 0
    for step, _, length, gap, text, _ in cuts:
        number += step
        cut[number] += length + gap + text
    table = _Table(
        session,
        commits[0].first,
        [commit.count for commit in commits],
        _steps([commit.position for commit in commits]),
        [commit.epoch for commit in commits],
        _steps([commit.time for commit in commits]),
        [commit.request for commit in commits],
        [commit.salt for commit in commits],
        [commit.leaf for commit in commits],
        [len(commit.payload) - less for commit, less in zip(commits, cut, strict=True)],
        cuts,
        (len(columns[0]), len(columns[1]), len(columns[2]), len(columns[3])),
    )
    head = _encode(table)
    return [len(head).to_bytes(_HEAD, "little") + head + columns[0], *columns[1:]]


def decode_chunk(
    plain: bytes, session: str | None, first: int, since: int = 0, upto: int | None = None
) -> list[Commit]:
    """Return the commits of a chunk with versions `since .. upto`, at least one.

    `DamagedError`, of this session and version, if it is no chunk.
    """
    try:
        begin = _HEAD + int.from_bytes(plain[:_HEAD], "little")
        table = _decode(memoryview(plain)[_HEAD:begin])
        return _commits(table, plain, begin, since, upto)
    except (msgspec.DecodeError, ValueError, IndexError, RecursionError) as error:
        raise DamagedError("a chunk cannot be decoded", session=session, version=first) from error


def _commits(table: _Table, plain: bytes, begin: int, since: int, upto: int | None) -> list[Commit]:
    ends = list(accumulate(table.columns, initial=begin))
    bounds = list(accumulate(table.sizes, initial=begin))
    if not table.counts:
        raise ValueError("a chunk of nothing")
    if ends[-1] != len(plain) or bounds[-1] != ends[1] or min(table.sizes) < 0 or min(table.columns) < 0:
        raise ValueError("the columns do not add up")
    counts = table.counts
    columns = (
        counts,
        table.sizes,
        table.positions,
        table.epochs,
        table.times,
        table.requests,
        table.salts,
        table.leaves,
    )
    if len({len(column) for column in columns}) != 1:
        raise ValueError("the columns are not of one length")
    firsts = list(accumulate(counts[:-1], initial=table.first))
    if max(firsts[-1], sum(table.positions)) > MAX_NUMBER:
        raise ValueError("versions or positions that are too large")
    skipped = max(bisect_right(firsts, since) - 1, 0)
    end = len(firsts) if upto is None else max(bisect_right(firsts, upto), skipped + 1)
    if table.cuts:
        payloads = list(map(plain.__getitem__, map(slice, bounds, bounds[1:])))
        _put_back(table, plain, payloads, ends, skipped)
        payloads = payloads[skipped:end]
    else:
        payloads = list(map(plain.__getitem__, map(slice, bounds[skipped:end], bounds[skipped + 1 : end + 1])))
    wanted = slice(skipped, end)
    return list(
        map(
            Commit, repeat(table.session), firsts[wanted], counts[wanted], _sums(table.positions, skipped, end),
            table.epochs[wanted], _sums(table.times, skipped, end), payloads,
            table.requests[wanted], table.salts[wanted], table.leaves[wanted],
        )
    )  # fmt: skip


def _sums(steps: list[int], first: int, end: int) -> list[int]:
    """Return the values number `first .. end - 1`, of which each is the one before and a step."""
    return list(accumulate(steps[first + 1 : end], initial=sum(steps[: first + 1])))


def _put_back(table: _Table, plain: bytes, payloads: list[bytes], ends: list[int], skipped: int) -> None:
    """Put what was cut back into the payloads, but for the first `skipped`."""
    _, length_at, gap_at, text_at, _ = ends
    number = at = 0
    payload = payloads[0]
    pieces: list[bytes] = []
    for step, place, length, gap, text, width in table.cuts:
        if step:
            if pieces:
                payloads[number] = b"".join((*pieces, payload[at:]))
            number, at, pieces = number + step, 0, []
            payload = payloads[number]
        if step < 0 or length < 0 or gap < 0 or text < 0 or not at <= place <= len(payload):
            raise ValueError("what was cut cannot be put back")
        length_end, gap_end, text_end = length_at + length, gap_at + gap, text_at + text
        if number >= skipped:
            gaps = plain[gap_at:gap_end]
            if width != 1:
                gaps = _join(gaps, width)
            pieces += payload[at:place], plain[length_at:length_end], gaps, plain[text_at:text_end]
        length_at, gap_at, text_at, at = length_end, gap_end, text_end, place
    if pieces:
        payloads[number] = b"".join((*pieces, payload[at:]))
    if [length_at, gap_at, text_at] != ends[2:]:
        raise ValueError("what was cut does not add up")


def _runs(payload: bytes) -> list[tuple[int, int, int, int, int]]:
    """Find the runs of deltas in a payload.

    Of each: bytes of lengths, bytes of gaps, width of a gap, and where the three fields begin and
    end.
    """
    if _RUN not in payload:
        return []
    try:
        batch = _decode_batch(payload)
        entries = batch.entries
        end = len(payload) - sum(len(memoryview(field)) for field in (*entries, batch.messages, batch.before))
        runs: list[tuple[int, int, int, int, int]] = []
        for entry in entries:
            begin, end = end, end + len(memoryview(entry))
            if payload.startswith(_RUN, begin):
                run = _decode_run(entry)
                length, gap, text = (len(memoryview(field)) for field in run[5:])
                runs.append((length, gap, _width(run[6], run[2]), end - length - gap - text, end))
    except (msgspec.DecodeError, RecursionError):
        return []
    return runs


def _width(column: msgspec.Raw, count: int) -> int:
    """Return the width of `count` integers in a MessagePack binary, 1 for other content."""
    view = memoryview(column)
    size = len(view) - _BINARY.get(view[0], len(view))
    return size // count if count > 0 and size % count == 0 and size // count in _WIDTHS else 1


def _split(column: bytes, width: int) -> bytes:
    """Return the column with the first bytes of all integers together, then the second ones."""
    if width == 1:
        return column
    head = _BINARY[column[0]]
    return column[:head] + b"".join(column[head + place :: width] for place in range(width))


def _join(column: bytes, width: int) -> bytes:
    """Undo `_split`."""
    if width == 1:
        return column
    head = _BINARY.get(column[0], 0) if column else 0
    if width not in _WIDTHS or not head or (len(column) - head) % width:
        raise ValueError("integers of another width")
    count = (len(column) - head) // width
    joined = bytearray(column)
    for place in range(width):
        joined[head + place :: width] = column[head + place * count : head + (place + 1) * count]
    return bytes(joined)


def _steps(values: list[int]) -> list[int]:
    return [value - before for value, before in zip(values, [0, *values], strict=False)]
