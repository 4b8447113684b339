"""Plugin of pytest that puts this store's class in place of the Claude Agent SDK's own."""

from __future__ import annotations

from typing import Any

import claude_agent_sdk
import claude_agent_sdk._internal.session_store

import eventlog
from eventlog.adapters.claude_agent import MAIN, EverdeltaSessionStore, TranscriptKey


class SessionStore(EverdeltaSessionStore):
    """The session store with the helpers of `InMemorySessionStore` for tests."""

    def __init__(self) -> None:
        super().__init__(eventlog.open("memory:"))

    def get_entries(self, key: Any) -> list[Any]:
        """Return the entries of a transcript."""
        return self._load(TranscriptKey.of(key)) or []

    @property
    def size(self) -> int:
        """The number of main transcripts."""
        return len(list(self.store.sessions(format=MAIN)))

    def clear(self) -> None:
        """Erase all transcripts."""
        for info in list(self.store.sessions(format=MAIN)):
            self.store.erase(info.id, subsessions="cascade")
        self._seen.clear()


for module in (claude_agent_sdk, claude_agent_sdk._internal.session_store):
    setattr(module, "InMemorySessionStore", SessionStore)  # noqa: B010 - the framework's name
