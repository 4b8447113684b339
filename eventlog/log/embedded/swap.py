"""Replacement of a store by its rewritten copy: at any moment it is one of the two, whole.

The new `lmdb/`, `journal/` and `edition` are made in the directory `next`. Then the file `swap` is
renamed into place: from that moment the store is the new one, and the process that opens it first,
alone, moves the rest (`finish`). Every step can be repeated. Without that file `next` is discarded.

What is in `derived` belongs to the old store and goes with it.

`edition` is a random word, new with every rewriting: a copy of another edition cannot be continued.
`unfinished` in a directory says that a copy is being written there, or was when the program died.

Only for a process that has the store open alone.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from eventlog.errors import ReadOnlyError, UnfinishedError
from eventlog.log.embedded.filesystem import read_small, sync_directory

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from eventlog.log.embedded.filesystem import JournalIO

__all__ = [
    "DERIVED",
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
DERIVED = "derived"
"""Directory of what layers above the log made of it: made again after a rewriting."""
_UNFINISHED = "unfinished"
_SHRED = "overwrite what was"
_PIECE = 1 << 20


def write_file(path: Path, text: str) -> None:
    """Write a small file, whole or not at all, and flush it."""
    half_made = path.with_name(path.name + ".new")
    fd = os.open(half_made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        remaining = memoryview(text.encode())
        while remaining:  # the system may take less than it is given
            remaining = remaining[os.write(fd, remaining) :]
        os.fsync(fd)
    finally:
        os.close(fd)
    half_made.rename(path)
    sync_directory(path.parent)


def edition_of(path: Path) -> str:
    """Return the edition of a store; "" if it was never rewritten."""
    try:
        return read_small(path / "edition").strip()
    except FileNotFoundError:
        return ""


def set_unfinished(path: Path, what: str | None) -> None:
    """Mark a directory as being written, with what is written; None removes the mark."""
    if what is None:
        (path / _UNFINISHED).unlink(missing_ok=True)
        sync_directory(path)
    else:
        write_file(path / _UNFINISHED, what + "\n")


def remove_all(path: Path, *, ignore_errors: bool = False) -> None:
    """Remove a directory and all that is in it."""
    import shutil

    shutil.rmtree(path, ignore_errors=ignore_errors)


def begin_anew(path: Path, what: str) -> None:
    """Mark a directory as being written, and remove what an earlier try left there."""
    set_unfinished(path, what)
    for entry in path.iterdir():
        if entry.is_dir():
            remove_all(entry)
        elif entry.name != _UNFINISHED:
            entry.unlink()


def unfinished(path: Path) -> str | None:
    """Return what is being written in a directory, or was when the program died; else None."""
    try:
        return read_small(path / _UNFINISHED).strip()
    except (FileNotFoundError, NotADirectoryError):
        return None


def holds_nothing(path: Path) -> bool:
    """Return whether a path is empty, but for what a dying `set_unfinished` leaves."""
    return not path.exists() or (path.is_dir() and all(entry.name == f"{_UNFINISHED}.new" for entry in path.iterdir()))


def refuse_unfinished(path: Path) -> None:
    """Raise `UnfinishedError` if a directory is not a whole store yet."""
    what = unfinished(path)
    if what is not None:
        raise UnfinishedError(str(path), what)


def discard(path: Path) -> None:
    """Remove what an unfinished rewriting left."""
    if not (path / _SWAP).exists():
        (path / f"{_SWAP}.new").unlink(missing_ok=True)
        if (path / NEXT).exists():
            remove_all(path / NEXT, ignore_errors=True)


def fresh(path: Path) -> Path:
    """Return the empty directory for the new store, removing what an earlier try left."""
    following = path / NEXT
    if following.exists():
        remove_all(following)
    return following


def commit(path: Path, *, shred: bool) -> None:
    """Make the flushed store in `next` the store; `shred`: the old one is overwritten."""
    sync_directory(path / NEXT)
    write_file(path / _SWAP, _SHRED if shred else "remove what was")


def finish(path: Path, io: JournalIO, *, read_only: bool = False) -> None:
    """Complete a swap if there is one, or remove an unfinished rewriting."""
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
    derived = path / DERIVED
    if derived.is_dir():
        io.reach("swap: derived")
        if shred:
            _shred(derived.iterdir())
        remove_all(derived)
    for name in _PARTS:
        if not (following / name).exists():
            continue
        old = path / name
        io.reach(f"swap: {name}")
        if shred:
            _shred([old] if old.is_file() else old.iterdir() if old.is_dir() else ())
        if old.is_dir():
            remove_all(old)
        (following / name).rename(old)
        sync_directory(path)
    io.reach("swap: all in place")
    remove_all(following, ignore_errors=True)
    swap.unlink()
    sync_directory(path)


def _shred(files: Iterable[Path]) -> None:
    """Overwrite files with zeros in place, as far as the file system writes in place."""
    for file in files:
        with file.open("r+b") as stream:
            remaining = file.stat().st_size
            while remaining > 0:
                remaining -= stream.write(bytes(min(_PIECE, remaining)))
            stream.flush()
            os.fsync(stream.fileno())
