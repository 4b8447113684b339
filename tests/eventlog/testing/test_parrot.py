"""The page's adapter on the contract, as an author runs it."""

from __future__ import annotations

from eventlog import Store
from eventlog.testing import AdapterContract
from tests.eventlog.testing.parrot import Talk
from tests.support.postgres_server import new_place


class TestParrot(AdapterContract):
    """The adapter of the page on records holds the contract on every engine."""

    engines = ("memory", "embedded", "encrypted", "postgres")

    def chat(self, store: Store, name: str) -> Talk:
        """Return a conversation."""
        return Talk(store, name)

    def postgres(self) -> str:
        """Return an address."""
        return new_place()
