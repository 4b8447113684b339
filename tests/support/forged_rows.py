"""Rows of a closed store's folded part, changed behind checksums that are right."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lmdb
import msgspec

from eventlog.compression import pack, unpack
from eventlog.history.catalog import CatalogEntry
from eventlog.log.embedded.generations import files_of
from eventlog.log.embedded.segments import layout
from eventlog.log.embedded.segments.layout import HeadRow

_NUMBERS = (0, -1, 1, 1 << 31, (1 << 63) - 1, -(1 << 63), (1 << 64) - 1, "x", None)
_LISTS = (b"\x90", b"\xc0", b"\x91" * 900 + b"\1", b"\x91" * 100_000 + b"\1", b"\xdd\xff\xff\xff\xff", b"\xa2\xff\xfe")
_ENTRY = HeadRow.__struct_fields__.index("entry")


def rows(path: Path) -> dict[str, dict[bytes, bytes]]:
    """Every row of every tree, without its checksum."""
    with lmdb.open(str(files_of(path) / "lmdb"), max_dbs=16, lib_version=0) as environment:
        trees = {name: environment.open_db(name.encode(), create=False) for name in layout.TREES}
        with environment.begin() as txn:
            return {name: {bytes(k): bytes(v)[4:] for k, v in txn.cursor(tree)} for name, tree in trees.items()}


def put_row(path: Path, tree: str, key: bytes, value: bytes | None) -> None:
    """Store a row behind a checksum that is right; None removes it."""
    with lmdb.open(str(files_of(path) / "lmdb"), max_dbs=16, map_size=8 << 20, lib_version=0) as environment:
        opened = environment.open_db(tree.encode(), create=False)
        with environment.begin(write=True) as txn:
            if value is None:
                txn.delete(key, db=opened)
            else:
                txn.put(key, layout.protect(key, value), db=opened)


def put_head(path: Path, session: str, *, said: dict[str, Any] | None = None, **fields: Any) -> None:
    """Store other fields of a session's head, and other facts of its catalog entry."""
    row: list[Any] = msgspec.msgpack.decode(rows(path)["sessions"][session.encode()])
    if said is not None:
        entry = msgspec.msgpack.decode(unpack(row[_ENTRY]), type=CatalogEntry)
        fields["entry"] = pack(msgspec.msgpack.encode(msgspec.structs.replace(entry, **said)))
    for name, value in fields.items():
        row[HeadRow.__struct_fields__.index(name)] = value
    put_row(path, "sessions", session.encode(), msgspec.msgpack.encode(row))


def mutations(value: Any) -> Iterator[bytes]:
    """A decoded MessagePack value with each of its parts replaced by each of some others."""
    for changed in _changed(value):
        yield msgspec.msgpack.encode(changed)


def _changed(value: Any) -> Iterator[Any]:
    if isinstance(value, bytes):
        yield from (b"", value[:-1], value[::-1], b"\xff" * 40, 5, None)
    elif isinstance(value, int):
        yield from _NUMBERS
    elif isinstance(value, str | None):
        yield from ("", "\0", "x" * 300, 5, None, b"\1")
    else:
        yield from map(msgspec.Raw, _LISTS)
        for number, part in enumerate(value[:20]):
            for other in _changed(part):
                yield [*value[:number], other, *value[number + 1 :]]
