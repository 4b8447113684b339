"""The file `unfinished`, which says that a copy is being written in a directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eventlog.errors import UnfinishedError
from eventlog.log.embedded.filesystem import read_small, remove_all, sync_directory, write_small

if TYPE_CHECKING:
    from pathlib import Path

_NAME = "unfinished"


def set_unfinished(path: Path, what: str | None) -> None:
    """Mark a directory as being written, with what is written; None removes the mark."""
    if what is None:
        (path / _NAME).unlink(missing_ok=True)
        sync_directory(path)
    else:
        write_small(path / _NAME, what + "\n")


def begin_anew(path: Path, what: str) -> None:
    """Mark a directory as being written, and remove what an earlier try left there."""
    set_unfinished(path, what)
    for entry in path.iterdir():
        if entry.is_dir():
            remove_all(entry)
        elif entry.name != _NAME:
            entry.unlink()


def unfinished(path: Path) -> str | None:
    """Return what is being written in a directory, or was when the program died; else None."""
    try:
        return read_small(path / _NAME).strip()
    except (FileNotFoundError, NotADirectoryError):
        return None


def holds_nothing(path: Path) -> bool:
    """Return whether a path is empty, but for what a dying `set_unfinished` leaves."""
    return not path.exists() or (path.is_dir() and all(entry.name == f"{_NAME}.new" for entry in path.iterdir()))


def refuse_unfinished(path: Path) -> None:
    """Raise `UnfinishedError` if a directory is not a whole store yet."""
    what = unfinished(path)
    if what is not None:
        raise UnfinishedError(str(path), what)
