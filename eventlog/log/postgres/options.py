"""Options of a log on PostgreSQL."""

from __future__ import annotations

import msgspec

from eventlog.log.lists import ListsOf


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How to open a log on a server.  All times are seconds."""

    read_only: bool = False
    queue_bytes: int = 64 << 20
    """Bytes that may be queued before callers block."""
    busy_timeout: float = 30.0
    """Seconds to wait for the server, a lock, a statement, a connection, or room in the queue."""
    connections: int = 8
    """Most connections of this process to the server."""
    poll: tuple[float, float] = (0.005, 0.25)
    """Shortest and longest pause between two looks for the commits of other processes."""
    lists_of: ListsOf | None = None
    """In which lists a session is (`log/lists.py`); None: the log has no lists."""
