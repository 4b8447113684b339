"""Opaque ids that sort by time; order is decided by versions and positions.

An id is a prefix and, in Crockford's base 32, ten characters of UTC milliseconds, four of the
nanoseconds within the millisecond, and twelve random ones: it has the layout of a ULID, and one
maker's ids sort in the order of making. 50 bits of milliseconds last until the year 37658.
"""

from __future__ import annotations

import os
import time
from hashlib import sha256
from itertools import product

from eventlog.errors import CallError, LimitError

MAX_ID_BYTES = 256
"""Longest id a caller may bring, in bytes of UTF-8."""

_LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = tuple(map("".join, product(_LETTERS, repeat=2)))
"""Two characters for each ten bits."""
_RANDOM = 12
"""Random characters of an id."""
_AT_A_TIME = 1024
"""Ids whose random characters are made together.

Asking the system for each hands the interpreter to another thread.
"""
_TO_LETTERS = _LETTERS.encode() * 8
"""Every byte as a letter, each letter for as many bytes as any other."""

_nanoseconds = time.time_ns
_begin = [(0, "")]
"""The last 1,024 milliseconds an id was made in, and their characters.

Of two threads that set it both are right.
"""
_tails: list[str] = []
"""Random characters that wait to be used; taking one is atomic."""
os.register_at_fork(after_in_child=_tails.clear)  # the parent uses them


def new_id(prefix: str) -> str:
    """Return `prefix` + 26 characters, made from the time and from random bits."""
    now, within = divmod(_nanoseconds(), 1_000_000)
    two = _PAIRS
    second, begin = _begin[0]
    if now >> 10 != second:
        second = now >> 10
        begin = f"{two[now >> 40]}{two[now >> 30 & 1023]}{two[now >> 20 & 1023]}{two[now >> 10 & 1023]}"
        _begin[0] = second, begin
    try:
        tail = _tails.pop()
    except IndexError:
        tail = _more_tails()
    # Several ids are made for each turn, so this is written out.
    return f"{prefix}{begin}{two[now & 1023]}{two[within >> 10]}{two[within & 1023]}{tail}"


def _more_tails() -> str:
    """Make random characters for many ids; returns those for one."""
    text = os.urandom(_AT_A_TIME * _RANDOM).translate(_TO_LETTERS).decode("ascii")
    made = [text[start : start + _RANDOM] for start in range(0, len(text), _RANDOM)]
    tail = made.pop()
    _tails.extend(made)
    return tail


def id_of_request(prefix: str, session: str, request: str) -> str:
    """Return the id that a request makes in a session: always the same one.

    It sorts before every id of `new_id`, so that one comparison still shows that those are new.
    """
    digest = sha256(f"{session}\0{prefix}\0{request}".encode("utf-8", "surrogatepass")).hexdigest()
    return f"{prefix}00{digest[:24]}"


def check_id(what: str, name: str) -> str:
    """Return `name` if it may be an id: 1..256 bytes of UTF-8; `LimitError` otherwise."""
    if name.isascii() and 0 < len(name) <= MAX_ID_BYTES:
        return name
    size = len(name.encode("utf-8", "surrogatepass"))
    if not 0 < size <= MAX_ID_BYTES:
        raise LimitError(f"bytes of the {what} id", size, MAX_ID_BYTES)
    return name


def size_of(what: str, text: str) -> int:
    """Return the bytes of a text; `CallError`, which says `what` it is, if UTF-8 has none."""
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise CallError(f"{what} is text that UTF-8 can encode, without lone surrogates") from None


def check_key(key: str) -> str:
    """Return `key` if a value may have it: 1..256 bytes of UTF-8; `LimitError` otherwise."""
    size = len(key.encode("utf-8", "surrogatepass"))
    if not 0 < size <= MAX_ID_BYTES:
        raise LimitError("bytes of a value's key", size, MAX_ID_BYTES)
    return key
