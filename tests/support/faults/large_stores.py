"""Stores of real size for the fault tests: text that does not compress."""

from __future__ import annotations

import base64
import random
from pathlib import Path

from eventlog.log.embedded.generations import files_of
from eventlog.open_log import open_log
from eventlog.session.session import Session
from eventlog.store import Store

WEIGHT = 200_000_000
"""Bytes of a large store in the long form."""
_PIECE = 192 << 10
"""Random bytes per message: a large text, four of which fill a megabyte."""
_GROUP = 16


def lmdb_bytes(path: Path) -> int:
    """Size of a store's LMDB file."""
    return (files_of(path) / "lmdb" / "data.mdb").stat().st_size


def weigh_down(session: Session, size: int) -> None:
    """Add messages that take at least `size` bytes of the store after compression."""
    chance = random.Random(size)
    left = size
    while left > 0:
        with session.pipeline():
            for _ in range(_GROUP):
                session.user(base64.b64encode(chance.randbytes(_PIECE)).decode())
        left -= _GROUP * _PIECE


def fill(path: Path, size: int, *, session: str = "ballast", keys: Path | None = None) -> None:
    """Make or continue a store whose new session has `size` bytes; close it at the end."""
    with Store(open_log(path, keys=keys)) as store:
        weigh_down(store.create_session(id=session), size)
