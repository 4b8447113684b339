"""Keys of names for the ids of frameworks, which take any text for an id."""

from __future__ import annotations

from hashlib import sha256

from eventlog.history.name_streams import MAX_KEY_BYTES

__all__ = ["key_of_id"]

_CUT = 900
"""Bytes of a longer id that its key begins with."""


def key_of_id(id: str) -> str:
    """Return the key of an id: the id, or its beginning and hash if it is empty or too long."""
    data = id.encode("utf-8", "surrogatepass")
    if 0 < len(data) <= MAX_KEY_BYTES:
        return id
    return f"\0{data[:_CUT].decode('utf-8', 'ignore')}\0{sha256(data).hexdigest()}"
