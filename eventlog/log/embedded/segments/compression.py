"""Zstandard for the folded part: a thread's own decompressor, and single values that are kept compressed where that pays.

A squeezed value is one byte for the method (0 plain, 1 zstandard) and the data.  Bytes that belong together are compressed
together, in blocks (`blocks.py`), which is worth far more.
"""

from __future__ import annotations

from threading import local
from typing import TYPE_CHECKING

import zstandard

from eventlog.errors import DamagedError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["PLAIN", "ZSTANDARD", "decompress", "squeeze", "unsqueeze"]

PLAIN = 0
ZSTANDARD = 1
_LEVEL = 3
_LEAST = 256
"""Shorter values are not worth the time."""
_GAIN = 64
"""Bytes that must be saved, for the same reason."""
_kept = local()


def decompress(data: bytes | memoryview, size: int) -> bytes:
    """The `size` bytes that one frame stands for; ValueError if it does not."""
    try:
        run: Callable[..., bytes] = _kept.decompress
    except AttributeError:
        run = _kept.decompress = zstandard.ZstdDecompressor().decompress
    try:
        if zstandard.frame_content_size(data) != size:  # room is made for what a frame says, whatever the limit
            raise ValueError("a frame of another size")
        return run(data, max_output_size=size)
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from error


def squeeze(value: bytes) -> bytes:
    """The value, compressed if that saves anything."""
    if len(value) >= _LEAST:
        try:
            run: Callable[[bytes], bytes] = _kept.compress
        except AttributeError:
            run = _kept.compress = zstandard.ZstdCompressor(level=_LEVEL).compress
        packed = run(value)
        if len(packed) + _GAIN <= len(value):
            return bytes((ZSTANDARD,)) + packed
    return bytes((PLAIN,)) + value


def unsqueeze(value: bytes | memoryview) -> bytes:
    """The value again; `DamagedError` if that cannot be."""
    data = memoryview(value)
    method = data[0] if data else None
    if method == PLAIN:
        return bytes(data[1:])
    if method == ZSTANDARD:
        try:
            return decompress(data[1:], zstandard.frame_content_size(data[1:]))
        except (ValueError, zstandard.ZstdError) as error:
            raise DamagedError("a compressed value cannot be read") from error
    raise DamagedError("a value is compressed by an unknown method")
