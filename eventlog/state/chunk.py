"""Chunks: the facts of some messages and their parts, as compressed MessagePack.

A part takes about 20 bytes instead of 500.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from eventlog.compression import pack, unpack
from eventlog.state.facts import CODE_BITS, Changes, MessageFacts, PartFacts

Row: TypeAlias = tuple[str, MessageFacts]
"""A message's id and facts."""
_PlainPart: TypeAlias = tuple[str, int, str, str, str, Changes, Changes, Changes]
_Plain: TypeAlias = tuple[str, int, bool, bool, list[_PlainPart], Changes, Changes, int | None]
_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(list[_Plain])


def pack_rows(rows: Sequence[Row]) -> bytes:
    """Return rows as one chunk."""
    return pack(_encode(rows))


def unpack_rows(chunk: bytes) -> list[Row]:
    """Return the rows of a chunk; `ValueError` if it is none."""
    return _decode(unpack(chunk))


def encode_row(row: Row) -> bytes:
    """Return one row, not compressed."""
    return _encode([row])


def decode_row(data: bytes) -> Row:
    """Return the row of `encode_row`."""
    return _decode(data)[0]


def hash_of(key: str, modulus: int) -> int:
    """Return the hash of an id: the id read as a number, modulo a random odd number.

    A caller that chooses ids cannot provoke collisions, because it does not know the modulus.
    """
    return int.from_bytes(key.encode("utf-8", "surrogatepass"), "little") % modulus


def _encode(rows: Sequence[Row]) -> bytes:
    """Encode rows as MessagePack, or as JSON where a call id has lone surrogates."""
    plain, before = list[_Plain](), 0
    for name, facts in rows:
        plain.append(_relative(name, facts, before))
        before = facts.added
    try:
        return _ENCODER.encode(plain)
    except UnicodeEncodeError:
        return b"[" + json.dumps(msgspec.to_builtins(plain)).encode()


def _decode(data: bytes) -> list[Row]:
    is_json = data.startswith(b"[[")  # no MessagePack array of rows begins so
    plain = msgspec.convert(json.loads(data[1:]), list[_Plain]) if is_json else _DECODER.decode(data)
    rows, before = list[Row](), 0
    for one in plain:
        rows.append(_absolute(one, before))
        before = rows[-1][1].added
    return rows


def _relative(name: str, facts: MessageFacts, before: int) -> _Plain:
    """Return a row whose versions count from those before: alike in all turns that are alike."""
    added = facts.added
    parts: list[_PlainPart] = [
        (
            part,
            one.added - added,
            one.kind,
            one.call,
            one.first,
            _shifted(one.changes, -one.added),
            one.prunes and _shifted(one.prunes, -one.added),
            one.edits and _shifted(one.edits, -one.added),
        )
        for part, one in facts.parts.items()
    ]
    steps, changes = _shifted(facts.steps, -added), _shifted(facts.changes, -added)
    unseen = None if facts.seen is None else added - facts.seen
    return name, added - before, facts.user, facts.summary, parts, steps, changes, unseen


def _absolute(plain: _Plain, before: int) -> Row:
    name, since, user, summary, parts, steps, changes, unseen = plain
    added = before + since
    whole = {
        part: PartFacts(
            at := added + after,
            name,
            kind,
            call,
            first,
            _shifted(states, at),
            prunes and _shifted(prunes, at),
            edits and _shifted(edits, at),
        )
        for part, after, kind, call, first, states, prunes, edits in parts
    }
    seen = None if unseen is None else added - unseen
    return name, MessageFacts(added, user, summary, whole, _shifted(steps, added), _shifted(changes, added), seen)


def _shifted(changes: Changes, by: int) -> Changes:
    """Return changes with other versions."""
    if not changes:
        return ()
    shift = by << CODE_BITS
    return tuple([change + shift for change in changes])
