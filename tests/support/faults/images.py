"""Possible disk contents after a power failure, built from a recording."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from tests.support.faults.recording import Acknowledged, Call, Recording

SECTOR = 512
PAGE = 4096
HOW = ("kept", "lost", "any", "torn")
"""Fates of unflushed writes: all, none, any of them in any order, any sectors."""


@dataclass
class Image:
    """A store directory after a power failure, and what had been acknowledged by then."""

    files: dict[str, bytes]
    acknowledged: list[Acknowledged]

    def write(self, path: Path) -> None:
        """Make the directory."""
        for name in ("journal", "lmdb"):
            (path / name).mkdir(parents=True, mode=0o700)
        for name, data in self.files.items():
            (path / name).write_bytes(data)


def image_of(recording: Recording, count: int, how: str, chance: random.Random) -> Image:
    """The disk after a power failure that came after `count` calls."""
    disk = _Disk(recording)
    acknowledged: list[Acknowledged] = []
    marks = {b"", recording.calls[0].mark}
    for call in recording.calls[:count]:
        marks.add(call.mark)
        if call.acknowledged is not None:
            acknowledged.append(call.acknowledged)
        else:
            disk.do(call)
    coming = next((call.data for call in recording.calls[count:] if call.what == "lmdb ends"), b"")
    files = {f"journal/{name}": data for name, data in disk.after(how, chance).items()}
    files["lmdb/data.mdb"] = disk.pages_after(coming, how, chance)
    files["mark"] = recording.calls[count - 1].mark if how == "kept" else chance.choice(sorted(marks))
    files.update(recording.others)
    return Image(files, acknowledged)


class _Disk:
    """The disk: flushed contents, and the writes that are not flushed yet."""

    def __init__(self, recording: Recording) -> None:
        self._files = {file: bytearray(data) for file, data in recording.files.items()}
        self._names = dict(recording.names)
        self._writes: dict[int, list[tuple[int, bytes]]] = {}
        self._renames: list[Call] = []
        self._lmdb = recording.lmdb
        self._committing = False

    def do(self, call: Call) -> None:
        """Apply one recorded call."""
        match call.what:
            case "create":
                self._files[call.file] = bytearray()
                self._writes[call.file] = []
                self._renames.append(call)
            case "write":
                self._writes.setdefault(call.file, []).append((call.offset, call.data))
            case "flush":
                for at, piece in self._writes.pop(call.file, ()):
                    _put(self._files[call.file], at, piece)
            case "rename" | "unlink":
                self._renames.append(call)
            case "flush names":
                for change in self._renames:
                    _name(self._names, change)
                self._renames.clear()
            case "lmdb begins":
                self._committing = True
            case "lmdb ends":
                self._committing = False
                self._lmdb = call.data
            case _:
                raise AssertionError(call.what)

    def after(self, how: str, chance: random.Random) -> dict[str, bytes]:
        """The journal's files by name after the power failure."""
        files = {file: bytearray(data) for file, data in self._files.items()}
        for file, writes in self._writes.items():
            for at, piece in writes:
                for begin, part in pieces(piece, at, how, chance):
                    _put(files[file], begin, part)
        names = dict(self._names)
        for change in self._renames:
            if how == "kept" or (how != "lost" and chance.random() < 0.5):
                _name(names, change)
        return {name: bytes(files[file]) for name, file in names.items()}

    def pages_after(self, coming: bytes, how: str, chance: random.Random) -> bytes:
        """LMDB's file after the power failure."""
        if not self._committing or how == "lost" or not coming:
            return self._lmdb
        pages = bytearray(self._lmdb.ljust(len(coming), b"\0"))
        for at in range(2 * PAGE, len(coming), PAGE):
            new = coming[at : at + PAGE]
            if new != bytes(pages[at : at + PAGE]):
                for begin, part in pieces(new, at, how, chance):
                    _put(pages, begin, part)
        return bytes(pages)


def pieces(data: bytes, at: int, how: str, chance: random.Random) -> list[tuple[int, bytes]]:
    """Yield the parts of a write that reach the disk: some sectors, aligned as the disk's are."""
    if how == "kept" or (how == "any" and chance.random() < 0.5):
        return [(at, data)]
    if how != "torn":
        return []
    edges = [at, *range(at // SECTOR * SECTOR + SECTOR, at + len(data), SECTOR), at + len(data)]
    return [(begin, data[begin - at : end - at]) for begin, end in pairwise(edges) if chance.random() < 0.5]


def _put(file: bytearray, at: int, data: bytes) -> None:
    if len(file) < at + len(data):
        file.extend(bytes(at + len(data) - len(file)))
    file[at : at + len(data)] = data


def _name(names: dict[str, int], change: Call) -> None:
    """Apply a change of a directory; skip it if an earlier change it needs is missing."""
    first = change.names[0]
    if change.what == "create":
        names[first] = change.file
    elif first in names:
        moved = names.pop(first)
        if change.what == "rename":
            names[change.names[1]] = moved
