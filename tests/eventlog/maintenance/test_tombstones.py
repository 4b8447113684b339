"""Tombstones of erased sessions stay in each copy of a store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import eventlog
from eventlog.errors import ErasedError
from eventlog.integrity.heads import StoreHead
from projections.verify.verify import verify
from tests.support.postgres_server import running
from tests.support.sample_sessions import exchange

KEYS = "keys"
Copy = Callable[[str | Path, Path], Iterator[tuple[str | Path, Path | None]]]
"""Yields copies of a place with their keys, made in a directory."""


def restored(place: str | Path, into: Path) -> Iterator[tuple[str | Path, Path | None]]:
    """A restore of the place."""
    eventlog.restore(place, into / "r")
    yield into / "r", None


def backed_up(place: str | Path, into: Path) -> Iterator[tuple[str | Path, Path | None]]:
    """A restore of a backup, one as of the backup's own cursor, and the next backup onto it."""
    with eventlog.open(place) as store:
        done = store.backup(into / "b")
        yield from restored(into / "b", into)
        eventlog.restore(into / "b", into / "then", cursor=done.cursor)
        yield into / "then", None
        exchange(store.create_session(id="later"))
        store.backup(into / "b")
    yield into / "b", None


def encrypted(place: str | Path, into: Path) -> Iterator[tuple[str | Path, Path | None]]:
    """An encrypted backup, and its restore."""
    with eventlog.open(place) as store:
        store.backup(into / "e", keys=into / KEYS)
    yield into / "e", into / KEYS
    eventlog.restore(into / "e", into / "er")
    yield into / "er", into / KEYS


def on_server(place: str | Path, into: Path) -> Iterator[tuple[str | Path, Path | None]]:
    """A restore to a server, its backup, and the restore of that."""
    address = running().new_schema()
    eventlog.restore(place, address)
    yield address, None
    with eventlog.open(address) as store:
        store.backup(into / "back")
    yield into / "back", None
    yield from restored(into / "back", into)


def erased(place: Path, *, keep: bool) -> StoreHead:
    """Make a store whose newest events are those of an erasure; return the head before."""
    with eventlog.open(place) as store:
        for name in ("p", "q"):
            exchange(store.create_session(id=name))
        if keep:
            store.session("p").fork(id="f")
        head = store.head()
        store.erase("p", forks="keep")
    return head


@pytest.mark.parametrize("keep", [False, True], ids=["alone", "with a fork"])
@pytest.mark.parametrize("copies", [restored, backed_up, encrypted, on_server])
def test_a_tombstone_that_is_newest_is_in_every_copy(copies: Copy, keep: bool, tmp_path: Path) -> None:
    """Its id stays used, and a head from before the erasure verifies in each of them."""
    head = erased(tmp_path / "s", keep=keep)
    for place, keys in copies(tmp_path / "s", tmp_path):
        with eventlog.open(place, keys=keys) as copy:
            assert keys or verify(copy, against=head, deep=True).sound
            with pytest.raises(ErasedError):
                copy.create_session(id="p")
            exchange(copy.session("q"))
            assert verify(copy).sound


def test_a_restore_to_a_time_before_an_erasure_keeps_its_tombstone(tmp_path: Path) -> None:
    """A session erased since is a tombstone in the restored store, no sign of tampering."""
    with eventlog.open(tmp_path / "s") as store:
        for name in ("p", "q"):
            exchange(store.create_session(id=name))
        cursor, head = store.cursor(), store.head()
        exchange(store.session("q"))
        store.erase("p")
    eventlog.restore(tmp_path / "s", tmp_path / "r", cursor=cursor)
    with eventlog.open(tmp_path / "r") as copy:
        assert verify(copy, against=head, deep=True).sound
        with pytest.raises(ErasedError):
            copy.create_session(id="p")
