"""Search for a text in every file of a directory, plain and inside compressed data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import zstandard

_MAGIC = b"\x28\xb5\x2f\xfd"
_STEP = 256
_DEPTH = 3


def pieces(data: bytes, depth: int = _DEPTH) -> Iterator[bytes]:
    """These bytes, and what each compressed frame in them unpacks to."""
    yield data
    at = data.find(_MAGIC) if depth else -1
    while at >= 0:
        yield from pieces(_unpacked(data, at), depth - 1)
        at = data.find(_MAGIC, at + 1)


def holds(data: bytes, needle: bytes) -> bool:
    """Whether a text is in these bytes or in what any compressed frame in them unpacks to."""
    return any(needle in piece for piece in pieces(data))


def _unpacked(data: bytes, at: int) -> bytes:
    found = bytearray()
    unpacker = zstandard.ZstdDecompressor().decompressobj()
    try:
        for begin in range(at, len(data), _STEP):
            found += unpacker.decompress(data[begin : begin + _STEP])
            if unpacker.eof:
                break
    except zstandard.ZstdError:
        pass
    return bytes(found)


def files_with(path: Path, text: str) -> list[str]:
    """The files under a directory in which a text can be found."""
    needle = text.encode("utf-8", "surrogatepass")
    return [str(file) for file in sorted(path.rglob("*")) if file.is_file() and holds(file.read_bytes(), needle)]
