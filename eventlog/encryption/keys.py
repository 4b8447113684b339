"""Where keys come from: the provider's protocol, and a callable for a key management service.  No cryptography here.

A key is 32 random bytes under a name that this package chooses, 32 hexadecimal digits.  One that was destroyed does not come back.
The provider that lies in a local file is `key_file.py`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Protocol, TypeAlias, TypeVar, runtime_checkable

from eventlog.errors import EventlogError, KeyProviderError, KeysError

__all__ = ["KEY_BYTES", "KeyCall", "KeySource", "Keys"]

KEY_BYTES = 32
A = TypeVar("A")


@runtime_checkable
class Keys(Protocol):
    """A provider of keys.  Its methods may be called from any thread, and may wait for a service."""

    def find(self, name: str) -> bytes | None:
        """The key of this name; None if it was destroyed, or was never there."""
        ...

    def make(self, name: str) -> bytes:
        """A new key under a new name.  When this returns, the key is kept as safely as the store it is for."""
        ...

    def destroy(self, name: str) -> None:
        """Destroy the key for good; harmless if it is not there."""
        ...


KeyCall: TypeAlias = Callable[[str, str], bytes | None]
"""A provider as one function: called with "find", "make" or "destroy", and the name."""
KeySource: TypeAlias = Keys | KeyCall | str | os.PathLike[str] | bool
"""What may be given for keys: a provider, a function, the path of a key file, or True for the one beside the store."""


class CalledKeys:
    """A function as a provider."""

    def __init__(self, call: KeyCall) -> None:
        self._call = call

    def find(self, name: str) -> bytes | None:
        """Ask for it."""
        return self._call("find", name)

    def make(self, name: str) -> bytes:
        """Ask for a new one."""
        key = self._call("make", name)
        if key is None:
            raise KeysError("the provider of keys made none")
        return key

    def destroy(self, name: str) -> None:
        """Have it destroyed."""
        self._call("destroy", name)


class ValidatingKeys:
    """A provider whose answers are looked at, and whose own errors become ours."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    def find(self, name: str) -> bytes | None:
        """See `Keys`."""
        key = _asked(self._keys.find, name)
        return None if key is None else _whole(key)

    def make(self, name: str) -> bytes:
        """See `Keys`."""
        return _whole(_asked(self._keys.make, name))

    def destroy(self, name: str) -> None:
        """See `Keys`."""
        _asked(self._keys.destroy, name)


def _asked(ask: Callable[[str], A], name: str) -> A:
    try:
        return ask(name)
    except EventlogError:
        raise
    except Exception as error:
        raise KeyProviderError(f"the provider of keys failed with {type(error).__name__}") from error


def _whole(key: object) -> bytes:
    if not isinstance(key, bytes) or len(key) != KEY_BYTES:
        raise KeysError(f"the provider of keys gave something else than {KEY_BYTES} bytes")
    return key
