"""Opaque ids that sort by time of making.  They never decide order: versions and positions do.

An id is a prefix, ten characters of milliseconds and sixteen random ones, in Crockford's base 32
(the ULID layout): 50 bits of time last until the year 37658.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from eventlog.errors import LimitError

__all__ = ["MAX_ID_BYTES", "check_id", "new_id"]

MAX_ID_BYTES = 256
"""Longest id a caller may bring, in bytes of UTF-8."""

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


def new_id(
    prefix: str,
    milliseconds: int | None = None,
    random: Callable[[int], bytes] = os.urandom,
) -> str:
    """Return `prefix` + 26 characters; `milliseconds` is UTC, now by default."""
    now = time.time_ns() // 1_000_000 if milliseconds is None else milliseconds
    number = (now << 80) | int.from_bytes(random(10), "big")
    return prefix + "".join(_ALPHABET[(number >> shift) & 31] for shift in range(125, -1, -5))


def check_id(what: str, name: str) -> str:
    """Return `name` if it may be an id: 1..256 bytes of UTF-8; `LimitError` otherwise."""
    size = len(name.encode("utf-8", "surrogatepass"))
    if not 0 < size <= MAX_ID_BYTES:
        raise LimitError(f"bytes of the {what} id", size, MAX_ID_BYTES)
    return name
