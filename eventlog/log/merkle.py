"""The hash tree of a session: leaves, growth and proofs.  Pure.

It is the tree of RFC 6962 (certificate transparency) with SHA-256: a leaf is hashed behind a zero
byte, two children behind a one byte, and a tree of n leaves splits at the largest power of two
below n. There is one leaf for each append of the session, in the order of versions. What is hashed
is logical, so folding and copying change no digest. `embedded/FORMAT.md` has the bytes of a leaf,
and why there is a salt.

A tree that only grows is stored as its *peaks*, the roots of its complete subtrees, largest first:
at most one for each bit of its size. They are in the session's head, and an append costs the hash
of the leaf and one more on average.
"""

from __future__ import annotations

from hashlib import sha256
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is a class
from typing import TYPE_CHECKING

from eventlog.errors import DamagedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eventlog.log.commit import Append, Commit

SALT_BYTES = 16
HASH_BYTES = 32
TAG_BYTES = 8
"""Bytes of a leaf's hash stored beside its append: they name the first changed append."""

_FIELDS = Struct("<x16sQQqQHH")
"""The zero byte that a leaf is hashed behind, and the fields of fixed length."""
_NO_REQUEST = 0xFFFF


def leaf_data(commit: Commit) -> bytes:
    """Return the bytes of a commit's leaf.

    `DamagedError` if a field cannot be one that was committed.
    """
    name = commit.session.encode()
    request = b"" if commit.request is None else commit.request.encode()
    try:
        fields = _FIELDS.pack(
            commit.salt, commit.first, commit.count, commit.time, commit.epoch, len(name),
            _NO_REQUEST if commit.request is None else len(request),
        )  # fmt: skip
    except StructError as error:
        raise DamagedError("a number out of range", session=commit.session, version=commit.first) from error
    if len(commit.salt) != SALT_BYTES:
        raise DamagedError("an append without its salt", session=commit.session, version=commit.first)
    return fields[1:] + name + request + (commit.stored or commit.payload)


def new_leaf(append: Append, first: int, salt: bytes) -> bytes:
    """Return the hash of the leaf of an append whose numbers were validated."""
    name = append.session.encode()
    request = append.request
    if request is None:
        encoded, length = b"", _NO_REQUEST
    else:
        encoded = request.encode()
        length = len(encoded)
    fields = _FIELDS.pack(salt, first, append.count, append.time, append.epoch, len(name), length)
    return sha256(fields + name + encoded + append.payload).digest()


def leaf_hash(data: bytes) -> bytes:
    """Return the hash of a leaf."""
    return sha256(b"\0" + data).digest()


def leaf_of(commit: Commit) -> bytes:
    """Return the hash of a commit's leaf: computed, or the stored one if it was emptied."""
    return commit.leaf if commit.emptied else leaf_hash(leaf_data(commit))


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of two subtrees."""
    return sha256(b"\1" + left + right).digest()


def grow(size: int, peaks: bytes, leaf: bytes) -> bytes:
    """Return the peaks of a tree of `size` leaves after the leaf of this hash is added."""
    if not size & 1:
        return peaks + leaf
    end = len(peaks)
    while size & 1:
        begin = end - HASH_BYTES
        leaf = sha256(b"\1" + peaks[begin:end] + leaf).digest()
        end = begin
        size >>= 1
    return peaks[:end] + leaf


def root_of(peaks: bytes) -> bytes:
    """Return the root of the tree with these peaks; of an empty one the hash of nothing."""
    if not peaks:
        return sha256().digest()
    root = peaks[-HASH_BYTES:]
    for begin in range(len(peaks) - 2 * HASH_BYTES, -1, -HASH_BYTES):
        root = node_hash(peaks[begin : begin + HASH_BYTES], root)
    return root


def peak_sizes(size: int) -> list[int]:
    """Return the number of leaves below each peak of a tree of `size` leaves, in their order."""
    return [1 << bit for bit in range(size.bit_length() - 1, -1, -1) if size >> bit & 1]


def inclusion_path(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """Return the hashes from leaf `index` to the root, the leaf's neighbour first.

    RFC 6962, 2.1.1.
    """
    if len(leaves) == 1:
        return []
    split = _split(len(leaves))
    if index < split:
        return [*inclusion_path(leaves[:split], index), _root(leaves[split:])]
    return [*inclusion_path(leaves[split:], index - split), _root(leaves[:split])]


def consistency_path(leaves: Sequence[bytes], size: int) -> list[bytes]:
    """Return the hashes that prove that the first `size` leaves are the beginning of the tree.

    RFC 6962, 2.1.2. `size` is at least 1 and at most the number of leaves.
    """
    return _subproof(leaves, size, whole=True)


def _subproof(leaves: Sequence[bytes], size: int, *, whole: bool) -> list[bytes]:
    if size == len(leaves):
        return [] if whole else [_root(leaves)]
    split = _split(len(leaves))
    if size <= split:
        return [*_subproof(leaves[:split], size, whole=whole), _root(leaves[split:])]
    return [*_subproof(leaves[split:], size - split, whole=False), _root(leaves[:split])]


def _split(size: int) -> int:
    """The largest power of two below `size`."""
    return 1 << (size - 1).bit_length() - 1


def _root(leaves: Sequence[bytes]) -> bytes:
    peaks = b""
    for number, leaf in enumerate(leaves):
        peaks = grow(number, peaks, leaf)
    return root_of(peaks)
