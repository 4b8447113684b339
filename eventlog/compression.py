"""Compression of large texts: a byte for the method (0 plain, 1 zstandard), then data.

Each thread has a pair of coders of its own.
"""

from __future__ import annotations

import threading
from hashlib import sha256
from typing import Any

__all__ = ["loosened", "pack", "tightened"]

_PLAIN, _ZSTANDARD = 0, 1
PLAIN_MARK, ZSTANDARD_MARK = bytes((_PLAIN,)), bytes((_ZSTANDARD,))
_LEVEL = 3
_compressors = threading.local()


def coders() -> tuple[Any, Any]:
    """The thread's own compressor and decompressor: they are not safe to share."""
    pair = getattr(_compressors, "pair", None)
    if pair is None:
        import zstandard  # 8 ms that a program without large texts need not spend

        pair = (zstandard.ZstdCompressor(level=_LEVEL), zstandard.ZstdDecompressor())
        _compressors.pair = pair
    return pair


def pack(data: bytes) -> bytes:
    """The packed form of a body's bytes."""
    packed: bytes = coders()[0].compress(data)
    return ZSTANDARD_MARK + packed if len(packed) < len(data) else PLAIN_MARK + data


def tightened(packed: bytes) -> bytes:
    """The smallest packed form of a body, for places where it is not compressed again."""
    return pack(packed[1:]) if packed[:1] == PLAIN_MARK else packed


def loosened(digest: bytes, packed: bytes, limit: int) -> bytes:
    """Return a body of at limit `limit` bytes in the form "plain"; others as they are.

    For a caller that compresses many bodies together.
    """
    if packed[:1] != ZSTANDARD_MARK:
        return packed
    import zstandard

    data = packed[1:]
    try:
        size: int = zstandard.frame_content_size(data)
        if not 0 <= size < limit:
            return packed
        body: bytes = coders()[1].decompress(data, max_output_size=size)
    except zstandard.ZstdError:
        return packed
    return PLAIN_MARK + body if sha256(body).digest() == digest else packed
