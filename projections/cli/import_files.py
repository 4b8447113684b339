"""Files of an import: where they are found, and what is told of them."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from projections.cli.exits import Fault
from projections.reports.wording import counted

if TYPE_CHECKING:
    from eventlog.importers import Folder, Report, Skipped

PIPE = "-"
"""Stands for standard input."""
_NUMBERS = 8
"""How many line numbers are shown of records that were skipped for one reason."""
_NAMES = 2
"""How many names are shown of files that were refused for one reason."""


class Source(NamedTuple):
    """A file to import, what it is called, and whether the user named it.

    Else it was found in a directory, or by a pattern.
    """

    path: Path
    name: str
    is_named: bool = True


@contextmanager
def sources(words: Iterable[str], folders: Iterable[Folder] = ()) -> Generator[list[Source]]:
    """Give the files that the words and folders stand for, each once.

    The block may read standard input.
    """
    from tempfile import TemporaryDirectory

    found: dict[Path, Source] = {}
    with TemporaryDirectory(prefix="eventlog-import-") as directory:
        listed = (_spooled(Path(directory)) if word == PIPE else _of_word(word) for word in words)
        for source in chain(*listed, *map(_of_folder, folders)):
            found.setdefault(source.path, source)
        yield list(found.values())


def followed(words: Iterable[str]) -> list[str]:
    """Return the files and folders that words stand for; of a pattern, those there are now."""
    if PIPE in words:
        raise Fault("standard input cannot be followed: name a file or a directory")
    return [
        str(source.path)
        for word in words
        for source in ([Source(Path(word), word)] if Path(word).is_dir() else _of_word(word))
    ]


def _spooled(directory: Path) -> list[Source]:
    """Write standard input to a file, which can be read twice, as detection must."""
    from shutil import copyfileobj

    path = directory / "stdin"
    with path.open("wb") as file:
        copyfileobj(sys.stdin.buffer, file)
    return [Source(path, PIPE)]


def _of_word(word: str) -> Iterator[Source]:
    from eventlog.importers import Folder

    path = Path(word)
    if path.is_dir():
        yield from _of_folder(Folder(path))
    elif not path.exists() and any(mark in word for mark in "*?["):
        from glob import iglob

        for name in sorted(iglob(word, recursive=True)):  # noqa: PTH207  # a pattern may be absolute
            inside = Path(name)
            if inside.is_dir():
                yield from _of_folder(Folder(inside))
            else:
                yield Source(inside, name, is_named=False)
    else:
        yield Source(path, word)


def _of_folder(folder: Folder) -> Iterator[Source]:
    return (Source(path, str(path), is_named=False) for path in folder.files())


def refusal_lines(refused: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield a line for each reason for which files were refused, the most frequent first."""
    for reason, paths in sorted(refused.items(), key=lambda item: -len(item[1])):
        if len(paths) == 1:
            yield f"{paths[0]}: {reason}"
        else:
            names = [path.rpartition("/")[2] for path in paths[:_NAMES]]
            more = ", …" if len(paths) > _NAMES else ""
            yield f"{counted(len(paths), 'file')}: {reason} ({', '.join(names)}{more})"


def report_lines(report: Report) -> list[str]:
    """Return what an import added and skipped, as lines."""
    ids = report.sessions
    sessions = f"session {ids[0]}" if len(ids) == 1 else counted(len(ids), "session")
    added = counted(report.events, "new event") if report.events else "nothing new"
    messages, parts = counted(report.messages, "message"), counted(report.parts, "part")
    lines = [f"{report.path}: {report.format}, {sessions}, {messages}, {parts}, {added}"]
    by_reason: dict[str, list[Skipped]] = {}
    for skipped in report.skipped:
        by_reason.setdefault(skipped.reason, []).append(skipped)
    for reason, records in by_reason.items():
        numbers = ", ".join(str(skipped.line) for skipped in records[:_NUMBERS])
        more = ", …" if len(records) > _NUMBERS else ""
        lines.append(f"  skipped {len(records)}: {reason} (line {numbers}{more})")
    return lines
