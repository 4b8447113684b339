"""Importer of a session in OpenCode's older `storage/`: a folder of small JSON files.

The file of the session, `session/PROJECT/SESSION.json`, is imported; its messages and their parts
are found beside it, in `message/SESSION` and `part/MESSAGE`, in the order of their names.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from eventlog.errors import ImportFormatError
from eventlog.importers.common.importer import ImportBatch, Report
from eventlog.importers.common.json_lines import MAX_LINE, DamagedLineError, is_object, parse
from eventlog.importers.opencode.importer import whole_session
from eventlog.streams.records import text_of

__all__ = ["OpenCodeStorage"]


class OpenCodeStorage:
    """The importer."""

    name = "opencode_storage"

    def detect(self, start: bytes, path: str) -> bool:
        """Whether the file is a session's, in a folder `session/PROJECT`."""
        return b'"ses_' in start and b'"id"' in start and Path(os.path.abspath(path)).parents[1].name == "session"  # noqa: PTH100

    def read(self, file: BinaryIO, path: str, report: Report) -> Iterator[ImportBatch]:
        """Yield the session's events."""
        name = getattr(file, "name", None)
        if not isinstance(name, str) or not Path(name).is_file():
            raise ImportFormatError(f"{path}: a session of OpenCode's storage is imported by its path")
        info, root = _object(Path(name), report), Path(os.path.abspath(name)).parents[2]  # noqa: PTH100  # links stay
        session = text_of((info or {}).get("id"))
        if info is None or not _is_name(session):
            raise ImportFormatError(f"{path}: no session of OpenCode: it has no id")
        yield from whole_session(info, _messages(root, session, report), report)


def _messages(root: Path, session: str, report: Report) -> Iterator[Any]:
    for place in _files(root / "message" / session):
        info = _object(place, report)
        name = text_of((info or {}).get("id"))
        if info is None or not _is_name(name):
            continue
        found = (_object(part, report) for part in _files(root / "part" / name))
        yield {"info": info, "parts": [part for part in found if part is not None]}


def _is_name(name: str) -> bool:
    """Whether an id is the name of a file, and leads nowhere else."""
    return bool(name) and Path(name).name == name and name not in {".", ".."} and "\0" not in name


def _files(folder: Path) -> Iterator[Path]:
    names = sorted(name for name in os.listdir(folder) if name.endswith(".json")) if folder.is_dir() else []  # noqa: PTH208  # names take less
    return map(folder.__truediv__, names)


def _object(path: Path, report: Report) -> dict[str, Any] | None:
    """Return the object in a file; a damaged one is reported."""
    try:
        value, _ = parse(path.read_bytes()) if path.stat().st_size <= MAX_LINE else (None, True)
    except DamagedLineError as error:
        report.skip(1, f"{path.name}: {error}")
        return None
    if is_object(value):
        return value
    report.skip(1, f"{path.name}: not an object, or longer than 32 MiB")
    return None
