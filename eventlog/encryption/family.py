"""The key of one family of forks, and what is encrypted and named with it.

From a family's 32 random bytes other keys are derived, HMAC-SHA-256 of what each is for: one for the appends and catalog entries of each
session, one for bodies, one for derived values, one for the names of bodies, one for the digests of requests.  So nothing can be
opened as something else; what it is bound to (session, time, place) is authenticated with it.

Encrypted with AES-256-GCM under random nonces of 96 bits.  Two of 2^32 messages under one key have the same nonce with a chance
of 2^-33, the most that NIST SP 800-38D allows: so many appends may one session have, and so many bodies one family.

What is small is not worth compressing; the rest is compressed before it is encrypted if that makes it smaller: its size is seen anyway.
"""

from __future__ import annotations

import hmac
import os
from functools import cached_property
from typing import NoReturn

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from eventlog.compression import PLAIN_MARK, pack, unpack
from eventlog.errors import DamagedError

__all__ = ["Family"]

NONCE_BYTES = 12
_WORTH = 128
"""Bytes under which nothing is compressed."""
_SESSIONS = 1024
"""Sessions whose keys are held ready."""


class Family:
    """One family's key.  It never shows what it is, and does not leave its process."""

    def __init__(self, id: bytes, secret: bytes) -> None:
        self.id = id
        """16 bytes that name it."""
        self._secret = secret
        self._sessions: dict[str, AESGCM] = {}

    def __repr__(self) -> str:
        return f"<Family {self.id.hex()}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key is not copied")

    @cached_property
    def _bodies(self) -> AESGCM:
        return AESGCM(self._key(b"bodies"))

    @cached_property
    def _derived(self) -> AESGCM:
        return AESGCM(self._key(b"derived"))

    @cached_property
    def _names(self) -> bytes:
        return self._key(b"names")

    @cached_property
    def _requests(self) -> bytes:
        return self._key(b"requests")

    def _key(self, purpose: bytes) -> bytes:
        return hmac.digest(self._secret, purpose, "sha256")

    def check(self) -> str:
        """What the store keeps to know the key again, in hexadecimal: nothing of the key follows from it."""
        return self._key(b"check")[:16].hex()

    def name(self, digest: bytes) -> bytes:
        """The name of a body: without the key nobody can tell whether it is that of a text he knows."""
        return hmac.digest(self._names, digest, "sha256")

    def request(self, session: str, digest: bytes) -> bytes:
        """The same for the digest of a request; none stays none."""
        return hmac.digest(self._requests, session.encode() + b"\0" + digest, "sha256") if digest else digest

    def seal(self, session: str, data: bytes, bound: bytes) -> bytes:
        """Encrypt an append or a catalog entry of a session; `bound` must be the same when it is opened."""
        return _seal(self._of(session), data, bound)

    def open(self, session: str, data: bytes, bound: bytes) -> bytes:
        """Decrypt it; `DamagedError` if it is not what was sealed for this session and bound to this."""
        return _open(self._of(session), data, bound)

    def seal_body(self, name: bytes, data: bytes) -> bytes:
        """Encrypt a body, which is packed already."""
        return _seal(self._bodies, data, name, worth=False)

    def open_body(self, name: bytes, data: bytes) -> bytes:
        """Decrypt it; errors as for `open`."""
        return _open(self._bodies, data, name)

    def seal_derived(self, key: bytes, data: bytes) -> bytes:
        """Encrypt a derived value."""
        return _seal(self._derived, data, key)

    def open_derived(self, key: bytes, data: bytes) -> bytes:
        """Decrypt it; errors as for `open`."""
        return _open(self._derived, data, key)

    def _of(self, session: str) -> AESGCM:
        found = self._sessions.get(session)
        if found is None:
            if len(self._sessions) >= _SESSIONS:
                self._sessions = {}
            found = self._sessions[session] = AESGCM(self._key(b"session\0" + session.encode()))
        return found


def _seal(cipher: AESGCM, data: bytes, bound: bytes, *, worth: bool = True) -> bytes:
    packed = pack(data, least=_WORTH) if worth else PLAIN_MARK + data
    nonce = os.urandom(NONCE_BYTES)
    return nonce + cipher.encrypt(nonce, packed, bound)


def _open(cipher: AESGCM, data: bytes, bound: bytes) -> bytes:
    try:
        return unpack(cipher.decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], bound))
    except (InvalidTag, ValueError):  # ValueError: too short for a nonce
        raise DamagedError(
            "what was encrypted is damaged, lies where it does not belong, or its key is another"
        ) from None
