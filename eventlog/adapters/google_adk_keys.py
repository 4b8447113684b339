"""Keys of Google ADK: names of sessions, shelves of apps, places of state."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, NamedTuple

from eventlog.adapters.google_adk_events import AdkMapping, free_value
from eventlog.adapters.name_keys import joined
from eventlog.adapters.odd_values import told, value_of
from eventlog.records.json_value import parsed
from eventlog.session.values import StoredValue

FORMAT = AdkMapping.format
"""Format of the sessions' names; a key is `APP/USER/SESSION`, each part quoted."""


class Key(NamedTuple):
    """App, user and id of a session."""

    app: str
    user: str
    session: str

    @property
    def name(self) -> tuple[str, str]:
        """The name of the session."""
        return FORMAT, joined(*self)

    @property
    def scope(self) -> str:
        """The scope of the user's sessions, as no other app's user has it."""
        return joined(self.app, self.user)

    @property
    def shelf(self) -> str:
        """The name of the app's shelf."""
        return f"{FORMAT}/{digest_of(self.app)}"

    def place(self, name: str) -> str:
        """Return the key of a state's value: on the shelf if it is shared, else in the session."""
        owner = f"user/{digest_of(self.user)}" if name.startswith("user:") else "adk/state"
        return f"{'app' if name.startswith('app:') else owner}/{digest_of(name)}"

    @staticmethod
    def parted(state: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return a session's own state, and the state that it shares; temporary state goes."""
        kept = {name: free_value(value) for name, value in state.items() if not name.startswith("temp:")}
        shared = {name: value for name, value in kept.items() if name.startswith(("app:", "user:"))}
        return {name: value for name, value in kept.items() if name not in shared}, shared


def text_of(value: Any) -> str:
    """Return the text that is kept of a value."""
    return told(value)[1]


def contents_of(stored: StoredValue) -> Any:
    """Return the value of which a text is kept."""
    return value_of(parsed(str(stored.value)))


def digest_of(text: str) -> str:
    """Return a short name of a text of any length."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
