"""What belongs to one session of an encrypted log: bodies and derived values under its family's key.  Imported by `log.py` only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from eventlog.errors import DataError

if TYPE_CHECKING:
    from eventlog.encryption.log import EncryptedLog

__all__ = ["OfSession"]


class OfSession:
    """Fulfils `log.base.Belongings`."""

    def __init__(self, log: EncryptedLog, session: str) -> None:
        self._log = log
        self._session = session

    @property
    def read_only(self) -> bool:
        """Whether writing is refused."""
        return self._log.read_only

    def name(self, digest: bytes) -> bytes:
        """What a body is called here; without a key there is none of that name."""
        return self._log.named(self._log.family(self._session), digest)

    def body(self, digest: bytes) -> bytes | None:
        """The packed bytes of a body, or None; `KeyMissingError` if the session's key is gone."""
        family = self._log.family(self._session)
        if family is None:
            raise self._log.missing(self._session)
        try:
            found = self._log.body_of(family, digest)
        except DataError as error:
            raise type(error)(f"body {digest.hex()}: {error.message}", session=self._session) from error
        return self._log.body(digest) if found is None else found  # it may be another session's: a sub-session's, say

    def several_bodies(self, digests: Sequence[bytes]) -> list[bytes | None]:
        """The same of each of some bodies."""
        return [self.body(digest) for digest in digests]

    def get_derived(self, key: bytes) -> bytes | None:
        """A derived value, or None."""
        return self._log.get_derived(key)

    def put_derived(self, items: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Write derived values under the key of the session's family."""
        self._log.put_derived_of(self._log.family(self._session), items)

    def derived_keys(self, prefix: bytes) -> list[bytes]:
        """The keys of derived values, those included that cannot be read."""
        return self._log.derived_keys(prefix)

    def scan_derived(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        """Derived values by key order: those that can be read."""
        return self._log.scan_derived(prefix)
