"""Options of an embedded log."""

from __future__ import annotations

import msgspec

from eventlog.log.embedded.filesystem import JournalIO
from eventlog.log.lists import ListsOf

_DEFAULT_IO = JournalIO()


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How to open a store directory.  All sizes are bytes, all times seconds."""

    read_only: bool = False
    queue_bytes: int = 64 << 20
    """Bytes that may be queued before callers block."""
    busy_timeout: float = 30.0
    """Seconds to wait for room in the queue, and for the writers' lock of another process.

    What comes while an append waits fails together with it, and so may have waited for less.
    """
    journal_bytes: int = 16 << 20
    """Full size of a journal file; a new store begins with shorter ones."""
    fold_bytes: int = 4 << 20
    """Unfolded bytes of journal after which it is folded in the background."""
    map_bytes: int = 64 << 30
    """Address space reserved for LMDB; it grows when it is full."""
    lists_of: ListsOf | None = None
    """In which lists a session is (`log/lists.py`); None: the log has no lists."""
    io: JournalIO = _DEFAULT_IO
    """The journal's system calls."""
