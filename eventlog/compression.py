"""Compressed values: one byte for the method (0 plain, 1 zstandard), then the data."""

from __future__ import annotations

import threading
from hashlib import sha256
from typing import Any

PLAIN, ZSTANDARD = 0, 1
PLAIN_MARK, ZSTANDARD_MARK = bytes((PLAIN,)), bytes((ZSTANDARD,))
_LEVEL = 3
_MOST = 1 << 30
"""Largest plain value, twice that of an append: a small frame may state any size."""
_compressors = threading.local()


def coders() -> tuple[Any, Any]:
    """Return the thread's own compressor and decompressor, which threads must not share."""
    pair = getattr(_compressors, "pair", None)
    if pair is None:
        import zstandard  # 8 ms that a program without large texts need not spend

        pair = (zstandard.ZstdCompressor(level=_LEVEL), zstandard.ZstdDecompressor())
        _compressors.pair = pair
    return pair


def pack(data: bytes, *, least: int = 0, gain: int = 1) -> bytes:
    """Return the packed form of some bytes.

    They stay plain below `least` bytes, and where compression saves fewer than `gain`.
    """
    if len(data) >= least:
        packed: bytes = coders()[0].compress(data)
        if len(packed) + gain <= len(data):
            return ZSTANDARD_MARK + packed
    return PLAIN_MARK + data


def unpack(packed: bytes | memoryview) -> bytes:
    """Return the bytes of a packed form; ValueError if it cannot be read."""
    data = memoryview(packed)[1:]
    method = packed[0] if packed else None
    if method == PLAIN:
        return bytes(data)
    if method != ZSTANDARD:
        raise ValueError("compressed by an unknown method")
    return decompress(data, _frame_size(data))


def decompress(data: bytes | memoryview, size: int) -> bytes:
    """Return the `size` bytes of one zstandard frame; ValueError if it does not hold as many.

    A frame states its size, and zstandard allocates what the frame states: a frame that states
    another size is refused before that.
    """
    import zstandard

    if _frame_size(data) != size:
        raise ValueError("a zstandard frame of another size")
    try:
        plain: bytes = coders()[1].decompress(data, max_output_size=size)
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from error
    return plain


def _frame_size(data: bytes | memoryview) -> int:
    """Return the size that a zstandard frame states; ValueError for none or too much."""
    import zstandard

    try:
        size: int = zstandard.frame_content_size(data)
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from error
    if not 0 <= size <= _MOST:
        raise ValueError("a zstandard frame that does not state its size, or one that no value has")
    return size


def compressed_body(packed: bytes) -> bytes:
    """Return the smallest packed form of a body, for a store that does not compress it again."""
    return pack(packed[1:]) if packed[:1] == PLAIN_MARK else packed


def plain_body(digest: bytes, packed: bytes, most: int) -> bytes:
    """Return the plain packed form of a body, for a store that compresses bodies together.

    A body of `most` bytes or more, or one that is damaged, is returned as it is.
    """
    if packed[:1] != ZSTANDARD_MARK:
        return packed
    data = memoryview(packed)[1:]
    try:
        size = _frame_size(data)
        if size >= most:
            return packed
        plain = decompress(data, size)
    except ValueError:
        return packed
    return PLAIN_MARK + plain if sha256(plain).digest() == digest else packed
