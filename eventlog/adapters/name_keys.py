"""Names of sessions for the ids of frameworks, which take any text for an id."""

from __future__ import annotations

from hashlib import sha256

from eventlog.errors import NotFoundError
from eventlog.history.name_streams import MAX_KEY_BYTES, Name
from eventlog.session.session import Session
from eventlog.store import Store

_CUT = 900
"""Bytes of a longer id that its key begins with."""


def key_of_id(id: str) -> str:
    """Return the key of an id: the id, or its beginning and hash if it is empty or too long."""
    data = id.encode("utf-8", "surrogatepass")
    if 0 < len(data) <= MAX_KEY_BYTES:
        return id
    return f"\0{data[:_CUT].decode('utf-8', 'ignore')}\0{sha256(data).hexdigest()}"


def joined(*parts: str) -> str:
    """Return parts in one key, quoted as in URLs, so that no others have the same."""
    return "/".join(part.replace("%", "%25").replace("/", "%2F") for part in parts)


def parted(key: str) -> list[str]:
    """Return the parts of a key."""
    return [part.replace("%2F", "/").replace("%25", "%") for part in key.split("/")]


def session_of(store: Store, name: Name) -> Session | None:
    """Return the session that has a name now, None if none has it."""
    try:
        return store.open_session(name, create=False)
    except NotFoundError:
        return None
