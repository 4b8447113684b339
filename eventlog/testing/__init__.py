"""The contract of an adapter, as tests that its author runs with pytest.

    class TestParrot(AdapterContract):
        def chat(self, store, name):
            return ParrotChat(store, name)  # a `Chat`: add, read, erase, session

`contract.py` has the tests, `said.py` what they say to a conversation.
"""

from eventlog.testing.contract import AdapterContract
from eventlog.testing.place import Place
from eventlog.testing.said import Chat, Said

__all__ = ["AdapterContract", "Chat", "Place", "Said"]
