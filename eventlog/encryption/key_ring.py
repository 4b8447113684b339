"""Keys in use: each is asked for once, and held in memory while the store is open.

A key is made before anything is encrypted with it, and a destroyed key does not come back.  So the
provider's answer stays true, also for a key that is gone.
"""

from __future__ import annotations

import os
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING

from eventlog.codec.payload import KEY_ID_BYTES
from eventlog.encryption.keys import CheckedKeys, Keys, KeySource
from eventlog.errors import KeyMissingError, KeysError

if TYPE_CHECKING:
    from eventlog.encryption.family import Family

_MAX_FAMILIES = 65_536
"""Families that are cached; beyond that the provider is asked again."""


class KeyRing:
    """Cache of families; `keys` is None if the store was opened without keys."""

    def __init__(self, keys: Keys | None) -> None:
        self._keys = keys
        self._lock = RLock()
        self._families: dict[bytes, Family | None] = {}

    def __repr__(self) -> str:
        return f"<KeyRing of {len(self._families)} keys>"

    @property
    def empty(self) -> bool:
        """Whether no key will ever be found."""
        return self._keys is None

    @property
    def key_file(self) -> Path | None:
        """The file that has the keys; an old copy of one may bring a destroyed key back."""
        from eventlog.encryption.key_file import KeyFile

        return self._keys.path if isinstance(self._keys, KeyFile) else None

    def find(self, id: bytes) -> Family | None:
        """Return the family with this key; None if the key is gone, or there are no keys."""
        try:
            return self._families[id]
        except KeyError:
            pass
        if self._keys is None:
            return None
        with self._lock:
            if id not in self._families:
                if len(self._families) >= _MAX_FAMILIES:
                    self._families = {}
                secret = self._keys.find(id.hex())
                self._families[id] = None if secret is None else _family_type()(id, secret)
            return self._families[id]

    def make(self) -> Family:
        """Make a new family; `KeyMissingError` if the store was opened without keys."""
        if self._keys is None:
            raise KeyMissingError("the store is encrypted, and was opened without its keys")
        kind = _family_type()  # checked first, so that no key is made that cannot be used
        id = os.urandom(KEY_ID_BYTES)
        family = kind(id, self._keys.make(id.hex()))
        with self._lock:
            self._families[id] = family
        return family

    def destroy(self, id: bytes) -> None:
        """Destroy a family's key at its provider."""
        if self._keys is not None:
            self._keys.destroy(id.hex())
            self.evict(id)

    def evict(self, id: bytes) -> None:
        """Evict a family whose key was destroyed."""
        with self._lock:
            self._families[id] = None


def _family_type() -> type[Family]:
    try:
        from eventlog.encryption.family import Family
    except ModuleNotFoundError as error:
        raise KeysError(
            f"encryption needs a library that is not installed ({error.name}): pip install '.[encryption]'"
        ) from None
    return Family


def keys_from(source: KeySource, store: Path | None) -> Keys:
    """Return the provider that `source` stands for.

    `store` is the directory that the keys are for, None for a store without one.

    `KeysError` for a key file inside the store, where every copy of the store would hold it.
    """
    if isinstance(source, bool):
        if not source:
            raise KeysError("keys are a provider, a function, a path, or True; None for a store that is not encrypted")
        if store is None:
            raise KeysError(
                "a store in memory or on a server has no place beside it: give the path of a key file, or a provider"
            )
        source = store.absolute().with_name(store.absolute().name + ".keys")
    if isinstance(source, (str, os.PathLike)):
        from eventlog.encryption.key_file import KeyFile

        path = Path(os.fspath(source))
        if store is not None and store.resolve() in path.resolve().parents:
            raise KeysError(f"{path} lies in the store, so that every copy of the store would hold its keys")
        return KeyFile(path)
    if isinstance(source, Keys) or callable(source):
        return CheckedKeys(source)
    raise KeysError(f"keys are a provider, a function, a path, or True, not a {type(source).__name__}")
