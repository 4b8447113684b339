"""The rows beside state checkpoints in a dict, in place of a log."""

from __future__ import annotations

from eventlog.log.memory import MemoryLog
from eventlog.state.state import State
from eventlog.state.stored import decode_messages, decode_state, encode_state, mark_stored
from eventlog.state.stored_facts import StoredMessages, StoredRows


class DictRows(StoredRows):
    """Stores states of one session, and reads them; what is lost is an error."""

    def __init__(self, session: str = "s") -> None:
        super().__init__(MemoryLog(), self._messages_of, self._replayed)
        self.session = session
        self.rows: dict[tuple[str, int], bytes] = {}
        self.checkpoint = b""
        self.version = 0

    def save(self, state: State) -> None:
        """Store a state, all of which is committed."""
        self.checkpoint, beside = encode_state(state, self.session, self)
        self.version = state.version
        for kind, number, data in beside:
            if data is None:
                del self.rows[kind, number]
            else:
                self.rows[kind, number] = data
        mark_stored(state, self.session, self)

    def load(self, upto: int | None = None) -> State:
        """Read the state stored last, or as it was at an earlier version."""
        return decode_state(self.checkpoint, self, self.session, upto)

    def size(self) -> int:
        """Return the bytes of all that is stored."""
        return len(self.checkpoint) + sum(map(len, self.rows.values()))

    def get(self, session: str, kind: str, number: int) -> bytes | None:
        """See `StoredRows`."""
        assert session == self.session
        return self.rows[kind, number]

    def numbers(self, session: str, kind: str) -> list[int]:
        """See `StoredRows`."""
        assert session == self.session
        return [number for other, number in self.rows if other == kind]

    def _messages_of(self, session: str, version: int) -> StoredMessages | None:
        assert session == self.session
        assert version <= self.version
        return decode_messages(self.checkpoint)

    def _replayed(self, version: int) -> State:
        raise AssertionError(version)
