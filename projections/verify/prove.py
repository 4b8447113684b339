"""Proofs that an event is in a store's history, and that an earlier history is the beginning of today's.

A proof is plain values, for JSON; `check_proof.py` checks one without the store.  It has the bytes of one append as they were
hashed (the leaf, with its salt), the hashes that lead from it to the root of its session's tree, and those that lead from
there to the head of the store.  Against a kept head it has those, too, that lead from the root kept then to today's.

Reading only.  Whoever is given a proof is given the append, all of its events; of the others, nothing but hashes.  Of an
encrypted append the proof has what is stored: no key is needed, and without one it shows nothing of what was said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eventlog.errors import DamagedError, NotFoundError, RefusedError
from eventlog.history.streams import ancestry
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

__all__ = ["prove"]


def prove(store: Store, session: Session, version: int, against: StoreHead | None = None) -> dict[str, Any]:
    """The proof that this version of the session is in the store's history, as plain values.

    A version that a fork inherited is proven where it lies, in its ancestor.  `NotFoundError` if there is no such version,
    or no such session in the head to compare with; `RefusedError` for an append that lost its content to a redaction or an
    erasure; `DamagedError` if what is stored is not what was committed.
    """
    if not 1 <= version <= session.info.version:
        raise NotFoundError("version", str(version), session=session.id)
    streams = ancestry(store.log, session.id)
    name = next(stream.session for stream in streams if stream.first <= version <= stream.last)
    today = store_head(store.log.heads())
    head = today.by_session[name]
    leaves: list[bytes] = []
    found, index, before = b"", 0, b""
    kept = None if against is None else against.by_session.get(name)
    if against is not None and kept is None:
        raise NotFoundError("session", name, session="the kept head")
    peaks = b""
    for commit in store.log.read(name, 0, head.version):
        if commit.first <= version <= commit.last:
            if commit.emptied:
                raise RefusedError("what was redacted or erased can be proven no more", session=name)
            found, index = leaf_data(commit), len(leaves)
        leaf = leaf_of(commit)
        peaks = grow(len(leaves), peaks, leaf)
        leaves.append(leaf)
        if kept is not None and len(leaves) == kept.appends:
            before = peaks
    if peaks != head.peaks or len(leaves) != head.appends:
        raise DamagedError("the events are not those that were committed", session=name)
    if kept is not None and before != kept.peaks:
        raise DamagedError("the history is not the one of the kept head", session=name)
    entries = [leaf_hash(entry.leaf()) for entry in today.sessions]
    place = today.sessions.index(head)
    return {
        "session": name,
        "version": version,
        "leaf": found.hex(),
        "salt": found[:SALT_BYTES].hex(),
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
        if kept is None
        else {
            "size": kept.appends,
            "root": root_of(kept.peaks).hex(),
            "path": [step.hex() for step in consistency_path(leaves, kept.appends)],
        },
    }
