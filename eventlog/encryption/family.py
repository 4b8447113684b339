"""Key of one family of forks, and what is encrypted and named with it.

A family has 32 random bytes.  Other keys are derived from them with HMAC-SHA-256 of the purpose:
one for the appends and catalog entries of each session, one for bodies, one for derived values, one
for the names of bodies, one for the digests of requests.  So no ciphertext decrypts as something
else, and the place it is bound to (session, time, position in the store) is authenticated with it.

The cipher is AES-256-GCM with random nonces of 96 bits. Among 2^32 messages under one key, two have
the same nonce with a probability of 2^-33, the most that NIST SP 800-38D allows: so many appends
one session may have, and so many bodies one family.

Data is compressed before it is encrypted if that makes it smaller: ciphertext shows the size
anyway.
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

NONCE_BYTES = 12
_WORTH = 128
"""Bytes below which nothing is compressed."""
_SESSIONS = 1024
"""Sessions whose keys are cached."""


class Family:
    """Key of one family; it is never shown, copied or pickled."""

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
    def _scopes(self) -> bytes:
        return self._key(b"scopes")

    @cached_property
    def _requests(self) -> bytes:
        return self._key(b"requests")

    def _key(self, purpose: bytes) -> bytes:
        return hmac.digest(self._secret, purpose, "sha256")

    def check(self) -> str:
        """Return a check value by which the store knows the key again; it reveals nothing of it."""
        return self._key(b"check")[:16].hex()

    def name(self, digest: bytes) -> bytes:
        """Return the name of a body, which reveals nothing of its text without the key."""
        return hmac.digest(self._names, digest, "sha256")

    def scope_name(self, scope: str) -> str:
        """Return the name of a scope, which reveals only which sessions have the same one."""
        return hmac.digest(self._scopes, scope.encode("utf-8", "surrogatepass"), "sha256").hex()

    def request(self, session: str, digest: bytes) -> bytes:
        """Return the keyed digest of a request; an empty digest stays empty."""
        return hmac.digest(self._requests, session.encode() + b"\0" + digest, "sha256") if digest else digest

    def encrypt(self, session: str, data: bytes, bound: bytes) -> bytes:
        """Encrypt an append or a catalog entry of a session.

        Decryption needs the same `bound`.
        """
        return _encrypt(self._of(session), data, bound)

    def decrypt(self, session: str, data: bytes, bound: bytes) -> bytes:
        """Decrypt data of a session; `DamagedError` if it was changed or moved."""
        return _decrypt(self._of(session), data, bound)

    def encrypt_body(self, name: bytes, data: bytes) -> bytes:
        """Encrypt a body, which is packed already."""
        return _encrypt(self._bodies, data, name, worth=False)

    def decrypt_body(self, name: bytes, data: bytes) -> bytes:
        """Decrypt it; errors as for `open`."""
        return _decrypt(self._bodies, data, name)

    def encrypt_derived(self, key: bytes, data: bytes) -> bytes:
        """Encrypt a derived value."""
        return _encrypt(self._derived, data, key)

    def decrypt_derived(self, key: bytes, data: bytes) -> bytes:
        """Decrypt it; errors as for `open`."""
        return _decrypt(self._derived, data, key)

    def _of(self, session: str) -> AESGCM:
        found = self._sessions.get(session)
        if found is None:
            if len(self._sessions) >= _SESSIONS:
                self._sessions = {}
            found = self._sessions[session] = AESGCM(self._key(b"session\0" + session.encode()))
        return found


def _encrypt(cipher: AESGCM, data: bytes, bound: bytes, *, worth: bool = True) -> bytes:
    packed = pack(data, least=_WORTH) if worth else PLAIN_MARK + data
    nonce = os.urandom(NONCE_BYTES)
    return nonce + cipher.encrypt(nonce, packed, bound)


def _decrypt(cipher: AESGCM, data: bytes, bound: bytes) -> bytes:
    try:
        return unpack(cipher.decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], bound))
    except (InvalidTag, ValueError):  # ValueError: too short for a nonce
        raise DamagedError(
            "what was encrypted is damaged, lies where it does not belong, or its key is another"
        ) from None
