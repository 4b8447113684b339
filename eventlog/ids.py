"""Opaque ids that sort by time of making.  They never decide order: versions and positions do.

An id is a prefix and, in Crockford's base 32, ten characters of UTC milliseconds, four of the nanoseconds within the
millisecond, and twelve random ones: it has the layout of a ULID, and one maker's ids sort in the order of making.  50 bits of
milliseconds last until the year 37658.
"""

from __future__ import annotations

import os
import time
from itertools import product

from eventlog.errors import LimitError

__all__ = ["MAX_ID_BYTES", "check_id", "new_id"]

MAX_ID_BYTES = 256
"""Longest id a caller may bring, in bytes of UTF-8."""

_PAIRS = tuple(map("".join, product("0123456789abcdefghjkmnpqrstvwxyz", repeat=2)))
"""Two characters for each ten bits."""


def new_id(prefix: str) -> str:
    """Return `prefix` + 26 characters, made from the time and from random bits."""
    now, within = divmod(time.time_ns(), 1_000_000)
    number = within << 60 | int.from_bytes(os.urandom(8), "big") >> 4
    high, low = number >> 40, number & 0xFFFFFFFFFF
    two = _PAIRS
    return (  # five ids are made for each turn, so this is written out
        f"{prefix}{two[now >> 40]}{two[now >> 30 & 1023]}{two[now >> 20 & 1023]}{two[now >> 10 & 1023]}{two[now & 1023]}"
        f"{two[high >> 30]}{two[high >> 20 & 1023]}{two[high >> 10 & 1023]}{two[high & 1023]}"
        f"{two[low >> 30]}{two[low >> 20 & 1023]}{two[low >> 10 & 1023]}{two[low & 1023]}"
    )


def check_id(what: str, name: str) -> str:
    """Return `name` if it may be an id: 1..256 bytes of UTF-8; `LimitError` otherwise."""
    size = len(name.encode("utf-8", "surrogatepass"))
    if not 0 < size <= MAX_ID_BYTES:
        raise LimitError(f"bytes of the {what} id", size, MAX_ID_BYTES)
    return name
