"""Protocol of key providers, and a function as a provider, for a key management service.

A key is 32 random bytes under a name that this package chooses, 32 hexadecimal digits.  A destroyed
key does not come back.  `key_file.py` is the provider in a local file.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from eventlog.errors import EventlogError, KeyProviderError, KeysError

KEY_BYTES = 32


@runtime_checkable
class Keys(Protocol):
    """Provider of keys; its methods may be called from any thread, and may block."""

    def find(self, name: str) -> bytes | None:
        """Return the key of this name; None if it was destroyed, or never made."""
        ...

    def make(self, name: str) -> bytes:
        """Return a new key under a new name, stored as safely as the store that it is for."""
        ...

    def destroy(self, name: str) -> None:
        """Destroy the key for good; does nothing if there is no such key."""
        ...


KeyCall: TypeAlias = Callable[[str, str], bytes | None]
"""Provider as one function, called with "find", "make" or "destroy", and the name."""
KeySource: TypeAlias = Keys | KeyCall | str | os.PathLike[str] | bool
"""A provider, a function, the path of a key file, or True for the one beside the store."""


class CheckedKeys:
    """Provider whose answers are checked, and whose own errors become `KeyProviderError`."""

    def __init__(self, keys: Keys | KeyCall) -> None:
        self._keys = keys

    def find(self, name: str) -> bytes | None:
        """See `Keys.find`."""
        key = self._ask("find", name)
        return None if key is None else _checked(key)

    def make(self, name: str) -> bytes:
        """See `Keys.make`."""
        key = self._ask("make", name)
        if key is None:
            raise KeysError("the provider of keys made none")
        return _checked(key)

    def destroy(self, name: str) -> None:
        """See `Keys.destroy`."""
        self._ask("destroy", name)

    def _ask(self, verb: Literal["find", "make", "destroy"], name: str) -> object:
        keys = self._keys
        try:
            return getattr(keys, verb)(name) if isinstance(keys, Keys) else keys(verb, name)
        except EventlogError:
            raise
        except Exception as error:
            raise KeyProviderError(f"the provider of keys failed with {type(error).__name__}") from error


def _checked(key: object) -> bytes:
    if not isinstance(key, bytes) or len(key) != KEY_BYTES:
        raise KeysError(f"the provider of keys returned something other than {KEY_BYTES} bytes")
    return key
