"""Hashes of the bodies that a commit names, found without decoding it."""

from __future__ import annotations

_DIGEST_BYTES = 32
_DIGEST = b"\xc4\x20"
"""How a MessagePack binary of 32 bytes begins."""


def digests_in(payload: bytes) -> set[bytes]:
    """Return the 32-byte binaries of a payload: all hashes of bodies, and by chance others."""
    candidates: set[bytes] = set()
    at = payload.find(_DIGEST)
    while at >= 0:
        candidates.add(payload[at + 2 : at + 34])
        at = payload.find(_DIGEST, at + 1)
    return {digest for digest in candidates if len(digest) == _DIGEST_BYTES}
