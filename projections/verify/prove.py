"""Proofs that an event is in a store's history, and that the history was not rewritten.

A proof is JSON values; `check_proof.py` checks one without the store. It has the bytes of one
append as they were hashed (the leaf, with its salt), the hashes from the leaf to the root of its
session's tree, and those from there to the head of the store. Against an earlier head it also has
the hashes from the earlier root to today's.

A proof reveals all events of its append, and nothing but hashes of the others. For an encrypted
append it has the ciphertext: making it needs no key, and it reveals no content.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eventlog.errors import DamagedError, NotFoundError, RefusedError
from eventlog.history.ancestry import ancestry
from eventlog.integrity.heads import StoreHead, store_head
from eventlog.log.merkle import (
    SALT_BYTES,
    consistency_path,
    grow,
    inclusion_path,
    leaf_data,
    leaf_hash,
    leaf_of,
    root_of,
)

if TYPE_CHECKING:
    from eventlog.session.session import Session
    from eventlog.store import Store


def prove(store: Store, session: Session, version: int, against: StoreHead | None = None) -> dict[str, Any]:
    """Return the proof that a version of the session is in the store's history.

    An inherited version is proven in the ancestor that has it. Raises `NotFoundError` if there is
    no such version, or no such session in `against`; `RefusedError` for an append that lost its
    content to a redaction or an erasure; `DamagedError` if the stored data is not what was
    committed.
    """
    if not 1 <= version <= session.info.version:
        raise NotFoundError("version", str(version), session=session.id)
    streams = ancestry(store.log, session.id)
    name = next(stream.session for stream in streams if stream.first <= version <= stream.last)
    today = store_head(store.log.heads())
    head = today.by_session[name]
    leaves: list[bytes] = []
    proven, index, before = b"", 0, b""
    saved = None if against is None else against.by_session.get(name)
    if against is not None and saved is None:
        raise NotFoundError("session", name, session="the saved head")
    peaks = b""
    for commit in store.log.read(name, 0, head.version):
        if commit.first <= version <= commit.last:
            if commit.emptied:
                raise RefusedError("the event was redacted or erased, and can no longer be proven", session=name)
            proven, index = leaf_data(commit), len(leaves)
        leaf = leaf_of(commit)
        peaks = grow(len(leaves), peaks, leaf)
        leaves.append(leaf)
        if saved is not None and len(leaves) == saved.appends:
            before = peaks
    if peaks != head.peaks or len(leaves) != head.appends:
        raise DamagedError("the events are not those that were committed", session=name)
    if saved is not None and before != saved.peaks:
        raise DamagedError("the history is not the one of the saved head", session=name)
    entries = [leaf_hash(entry.leaf()) for entry in today.sessions]
    place = today.sessions.index(head)
    return {
        "session": name,
        "version": version,
        "leaf": proven.hex(),
        "salt": proven[:SALT_BYTES].hex(),
        "index": index,
        "size": len(leaves),
        "path": [step.hex() for step in inclusion_path(leaves, index)],
        "root": head.root.hex(),
        "store": {
            "leaf": head.leaf().hex(),
            "index": place,
            "size": len(entries),
            "path": [step.hex() for step in inclusion_path(entries, place)],
            "root": today.digest,
        },
        "consistency": None
        if saved is None
        else {
            "size": saved.appends,
            "root": root_of(saved.peaks).hex(),
            "path": [step.hex() for step in consistency_path(leaves, saved.appends)],
        },
    }
