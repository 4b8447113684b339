"""The files that an import is about: named, or of a directory, a pattern or a pipe."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

__all__ = ["Source", "sources"]

PIPE = "-"
"""Stands for standard input."""


class Source(NamedTuple):
    """A file to import, what it is called, and whether the user named it.

    Else it was found in a directory, or by a pattern.
    """

    path: Path
    name: str
    is_named: bool = True


@contextmanager
def sources(words: Iterable[str]) -> Generator[list[Source]]:
    """Give the files that the words stand for, each once; the block may read standard input."""
    from tempfile import TemporaryDirectory

    found: dict[Path, Source] = {}
    with TemporaryDirectory(prefix="eventlog-import-") as directory:
        for word in words:
            if word == PIPE:
                path = _spooled(Path(directory))
                found[path] = Source(path, PIPE)
                continue
            for source in _of_word(word):
                found.setdefault(source.path, source)
        yield list(found.values())


def _spooled(directory: Path) -> Path:
    """Write standard input to a file, which can be read twice, as detection must."""
    from shutil import copyfileobj

    path = directory / "stdin"
    with path.open("wb") as file:
        copyfileobj(sys.stdin.buffer, file)
    return path


def _of_word(word: str) -> Iterator[Source]:
    path = Path(word)
    if path.is_dir():
        yield from (Source(each, str(each), is_named=False) for each in _files_in(path))
    elif not path.exists() and any(mark in word for mark in "*?["):
        from glob import iglob

        for name in sorted(iglob(word, recursive=True)):  # noqa: PTH207  # a pattern may be absolute
            inside = Path(name)
            if inside.is_dir():
                yield from (Source(each, str(each), is_named=False) for each in _files_in(inside))
            else:
                yield Source(inside, name, is_named=False)
    else:
        yield Source(path, word)


def _files_in(directory: Path) -> Iterator[Path]:
    """Yield the files below a directory in order, hidden ones left out."""
    for place, directories, names in os.walk(directory):
        directories[:] = sorted(name for name in directories if not name.startswith("."))
        for name in sorted(names):
            path = Path(place, name)
            with suppress(OSError):  # what may not be looked at
                if not name.startswith(".") and path.is_file():
                    yield path
