"""Places of a file's records: the thread and node of each."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from eventlog.importers.claude_code.thread import Thread
from eventlog.importers.common.importer import bounded_id
from eventlog.importers.common.record_index import RecordIndex

__all__ = ["Places"]

_NODE = (1 << 40) - 1
_ASIDE = 1 << 40
"""Of a place: its node, whether it is that of no message, and above that its thread."""


class Places:
    """Places by the keys of records; `threads` are those of the file so far."""

    def __init__(self, threads: list[Thread]) -> None:
        self._threads = threads
        self._positions = RecordIndex()
        """Record key to the number of its place, and whether it is no message."""
        self._places = array("Q")
        """Thread and node of each message's record, shared by what follows it and is no message."""
        self._moved: dict[int, int] = {}
        """Where what follows the last message stands that a compaction keeps, by its place."""

    def has(self, key: str) -> bool:
        """Whether a record of this key came before."""
        return self._positions.get(key) is not None

    def of(self, uuid: object) -> tuple[Thread, int] | None:
        """Return the thread and node of an earlier record."""
        found = self._positions.get(bounded_id(uuid)) if isinstance(uuid, str) and uuid else None
        if found is None:
            return None
        at = self._moved.get(found >> 1, self._places[found >> 1])
        return self._threads[at >> 41], at & _NODE

    def add(self, key: str, thread: Thread, node: int, *, is_aside: bool) -> None:
        """Place a record at a node; `is_aside`: it is no message."""
        self._positions.move(key, len(self._places) << 1 | is_aside)
        self._places.append(thread.number << 41 | (_ASIDE if is_aside else 0) | node)

    def share(self, key: str, parent: str) -> None:
        """Place a record that is no message where its parent is."""
        self._positions.move(key, (self._positions.get(bounded_id(parent)) or 0) | 1)

    def follow(self, late: str, key: str, thread: Thread, node: int) -> None:
        """Move a record that stands before the record `key`, which it follows, to its node."""
        found = self._positions.get(late)
        if found is not None and self._places[found >> 1] & _ASIDE:
            self._positions.move(late, (self._positions.get(key) or 0) | 1)
        elif found is not None:
            self._places[found >> 1] = thread.number << 41 | node

    def move_tail(self, tail: str, thread: Thread) -> None:
        """Place what follows the last message that a compaction keeps behind the newest node."""
        found = self._positions.get(bounded_id(tail)) if tail else None
        if found is not None and self._places[found >> 1] >> 41 == thread.number:
            self._moved[found >> 1] = thread.number << 41 | thread.node

    def kept(self, uuids: Sequence[str], thread: Thread) -> tuple[str, ...]:
        """Return the messages of the records that a compaction keeps (`kept_of`)."""
        nodes: list[int] = []
        for uuid in filter(None, uuids):
            found = self._positions.get(bounded_id(uuid))
            at = 0 if found is None else self._places[found >> 1]
            is_here = found is not None and at >> 41 == thread.number and (at & _NODE) in thread.branches
            nodes.append(at & _NODE if is_here else -1)
            if uuid == uuids[0] and is_here and "" in uuids and (found or 0) & 1:
                nodes[-1] += 1  # the segment begins behind a record that is of no message
            elif "" not in uuids and (found or 0) & 1:
                nodes[-1] = -1
        if "" in uuids:
            between = range(nodes[0], nodes[1] + 1) if min(nodes) >= 0 else ()
            nodes = [node for node in between if node in nodes or node not in thread.summaries]
        return tuple(
            dict.fromkeys(thread.names[node] for node in nodes if node in thread.names and node in thread.branches)
        )
