"""Putting a rewritten store in the place of the old one, so that whatever happens it is the one or the other, whole.

The new `lmdb/`, `journal/` and `edition` are made in the directory `next`.  Then the file `swap` is renamed into place: from
that moment the store is the new one, and whoever opens it first, alone, finishes what is left to do (`finish`).  Every step can
be done again.  Without that file `next` is rubbish.

`edition` is a random word, new with every rewriting: a copy that was made of another edition is not to be gone on with.
`unfinished` in a directory says that a copy is being written there, or was when the program died: it is no store yet.

Only for whoever holds the store alone.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from eventlog.errors import ReadOnlyError, UnfinishedError
from eventlog.log.embedded.filesystem import read_small, sync_directory

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from eventlog.log.embedded.filesystem import JournalIO

__all__ = [
    "NEXT",
    "begin_anew",
    "commit",
    "discard",
    "edition_of",
    "finish",
    "fresh",
    "holds_nothing",
    "refuse_unfinished",
    "set_unfinished",
    "unfinished",
    "write_file",
]

NEXT = "next"
_SWAP = "swap"
_PARTS = ("lmdb", "journal", "edition")
_UNFINISHED = "unfinished"
_SHRED = "overwrite what was"
_PIECE = 1 << 20


def write_file(path: Path, text: str) -> None:
    """Write a small file of the owner's, whole or not at all, and on disk."""
    half_made = path.with_name(path.name + ".new")
    fd = os.open(half_made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        left = memoryview(text.encode())
        while left:  # the system may take less than it is given
            left = left[os.write(fd, left) :]
        os.fsync(fd)
    finally:
        os.close(fd)
    half_made.rename(path)
    sync_directory(path.parent)


def edition_of(path: Path) -> str:
    """The edition of the store at a path; "" if it was never rewritten."""
    try:
        return read_small(path / "edition").strip()
    except FileNotFoundError:
        return ""


def set_unfinished(path: Path, what: str | None) -> None:
    """Say what is being written at a path; None: it is done."""
    if what is None:
        (path / _UNFINISHED).unlink(missing_ok=True)
        sync_directory(path)
    else:
        write_file(path / _UNFINISHED, what + "\n")


def begin_anew(path: Path, what: str) -> None:
    """Say what is being written at a path, and then remove whatever an earlier try left there."""
    set_unfinished(path, what)
    for entry in path.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        elif entry.name != _UNFINISHED:
            entry.unlink()


def unfinished(path: Path) -> str | None:
    """What is, or was, being written at a path; None if nothing is."""
    try:
        return read_small(path / _UNFINISHED).strip()
    except (FileNotFoundError, NotADirectoryError):
        return None


def holds_nothing(path: Path) -> bool:
    """Whether there is nothing at a path, or no more than what `set_unfinished` leaves when it dies."""
    return not path.exists() or (path.is_dir() and all(entry.name == f"{_UNFINISHED}.new" for entry in path.iterdir()))


def refuse_unfinished(path: Path) -> None:
    """Raise `UnfinishedError` if what lies at a path is not a whole store yet."""
    what = unfinished(path)
    if what is not None:
        raise UnfinishedError(str(path), what)


def discard(path: Path) -> None:
    """Remove what a rewriting left that did not come to its end."""
    if not (path / _SWAP).exists():
        (path / f"{_SWAP}.new").unlink(missing_ok=True)
        if (path / NEXT).exists():
            shutil.rmtree(path / NEXT, ignore_errors=True)


def fresh(path: Path) -> Path:
    """Where to write the new store, with nothing there: what an earlier try left would be gone on with."""
    following = path / NEXT
    if following.exists():
        shutil.rmtree(following)
    return following


def commit(path: Path, *, shred: bool) -> None:
    """The store in `next` is whole and on disk: from here on it is the store.  `shred`: the old one is overwritten."""
    sync_directory(path / NEXT)
    write_file(path / _SWAP, _SHRED if shred else "remove what was")


def finish(path: Path, io: JournalIO, *, read_only: bool = False) -> None:
    """Do what is left to do of a swap, if there was one, or remove what is left of one that never came to be."""
    swap = path / _SWAP
    try:
        shred = read_small(swap) == _SHRED
    except FileNotFoundError:
        if not read_only:
            discard(path)
        return
    if read_only:
        raise ReadOnlyError(f"{path} was being rewritten: it is finished when the store is opened to be written")
    (path / "mark").unlink(missing_ok=True)
    following = path / NEXT
    for name in _PARTS:
        if not (following / name).exists():
            continue
        old = path / name
        io.reach(f"swap: {name}")
        if shred:
            _shred([old] if old.is_file() else old.iterdir() if old.is_dir() else ())
        if old.is_dir():
            shutil.rmtree(old)
        (following / name).rename(old)
        sync_directory(path)
    io.reach("swap: all in place")
    shutil.rmtree(following, ignore_errors=True)
    swap.unlink()
    sync_directory(path)


def _shred(files: Iterable[Path]) -> None:
    """Overwrite files with zeros, where they lie: as far as the file system writes in place."""
    for file in files:
        with file.open("r+b") as stream:
            left = file.stat().st_size
            while left > 0:
                left -= stream.write(bytes(min(_PIECE, left)))
            stream.flush()
            os.fsync(stream.fileno())
