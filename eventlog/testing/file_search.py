"""Search for a text in every file of a directory, plain and inside compressed data."""

from __future__ import annotations

from pathlib import Path

import zstandard

__all__ = ["files_with", "holds"]

_MAGIC = b"\x28\xb5\x2f\xfd"
_STEP = 256
_DEPTH = 3


def holds(data: bytes, needle: bytes, depth: int = _DEPTH) -> bool:
    """Whether a text is in these bytes or in what any compressed frame in them unpacks to."""
    if needle in data:
        return True
    at = data.find(_MAGIC) if depth else -1
    while at >= 0:
        if holds(_unpacked(data, at), needle, depth - 1):
            return True
        at = data.find(_MAGIC, at + 1)
    return False


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
