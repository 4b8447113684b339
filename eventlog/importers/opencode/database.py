"""Importers of OpenCode's own stores: `opencode.db`, each session as its export would be.

The database is opened for reading only, and what its write-ahead log has is read, too. With such a
log all is read in one transaction: one moment of the database, which keeps no writer waiting.
Without one a reader does keep writers waiting, so each page of rows is a transaction of its own.

The older `storage/` is a folder of small JSON files. The file of the session,
`session/PROJECT/SESSION.json`, is imported; its messages and their parts are found beside it, in
`message/SESSION` and `part/MESSAGE`, in the order of their names.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import quote

from eventlog.errors import BusyError, DamagedError, ImportFormatError
from eventlog.importers.common.importer import ImportBatch, Report
from eventlog.importers.common.json_lines import MAX_LINE, DamagedLineError, is_object, parse
from eventlog.importers.opencode.importer import whole_session
from eventlog.streams.records import text_of

if TYPE_CHECKING:
    import sqlite3

PAGE = 100
"""Rows that are read at once; of parts those of one message."""
WAIT = 5.0
"""Seconds that a read waits for a writer."""

_HEAD = b"SQLite format 3\0"
_NAMES = {
    "project_id": "projectID", "workspace_id": "workspaceID", "parent_id": "parentID", "slug": "slug", "directory": "directory",
    "path": "path", "title": "title", "version": "version", "agent": "agent", "cost": "cost",
}  # fmt: skip
"""Members of a session's info, by their columns."""
_VALUES = ("revert", "permission", "model", "goal")
_GROUPS = {"time_": "time", "summary_": "summary", "share_": "share"}
"""Members that are objects, by what the names of their columns begin with."""


class OpenCodeDatabase:
    """The importer."""

    name = "opencode_db"

    def detect(self, start: bytes, path: str) -> bool:
        """Whether the file is a database whose name is that of OpenCode's."""
        return start.startswith(_HEAD) and Path(path).name.startswith("opencode")

    def read(self, file: BinaryIO, path: str, report: Report) -> Iterator[ImportBatch]:
        """Yield the events of all sessions, those of a parent before those of its sub-agents."""
        import sqlite3

        name = _path_of(file, path)
        try:
            database = _opened(name)
            try:
                yield from _sessions(database, report)
            finally:
                database.close()
        except sqlite3.OperationalError as error:
            if _code(error) in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
                raise BusyError(f"{path}: another process holds the database: import it again later") from error
            raise ImportFormatError(f"{path}: no database of OpenCode that can be read: {error}") from error
        except sqlite3.DatabaseError as error:
            if _code(error) == sqlite3.SQLITE_NOTADB:
                raise ImportFormatError(f"{path}: no database: {error}") from error
            raise DamagedError(f"{path}: the database is damaged: {error}") from error


def _path_of(file: BinaryIO, path: str) -> str:
    """Return the absolute path of an open file, links kept."""
    name = getattr(file, "name", None)
    if not isinstance(name, str) or not Path(name).is_file():
        raise ImportFormatError(f"{path}: OpenCode's store is imported by its path, not as an open file without one")
    return os.path.abspath(name)  # noqa: PTH100


def _opened(path: str) -> sqlite3.Connection:
    """Open the database for reading, and begin a transaction if it has a write-ahead log."""
    import sqlite3

    place = f"file:{quote(os.fsencode(path))}?mode=ro"
    database = sqlite3.connect(place, uri=True, timeout=WAIT, isolation_level=None)
    try:
        database.text_factory = _text
        (mode,) = database.execute("PRAGMA journal_mode").fetchone()
    except sqlite3.Error as error:
        database.close()
        if _code(error) != sqlite3.SQLITE_CANTOPEN or Path(f"{path}-wal").exists():
            raise
        # Where nothing can be written, a database that was closed has no log, and gets none.
        database = sqlite3.connect(f"{place}&immutable=1", uri=True, isolation_level=None)
        database.text_factory, mode = _text, ""
    if mode == "wal":
        database.execute("BEGIN")
    return database


def _code(error: sqlite3.Error) -> int:
    """Return the primary code of an error, 0 where Python itself raised it."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _text(data: bytes) -> str | bytes:
    """Return a text; bytes that are none as they are, which are reported where they are read."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def _sessions(database: sqlite3.Connection, report: Report) -> Iterator[ImportBatch]:
    for row in _rows(database, "SELECT * FROM session WHERE", ()):
        info = _info(row)
        yield from whole_session(info, _messages(database, row["id"], report), report)


def _rows(database: sqlite3.Connection, query: str, given: tuple[object, ...]) -> Iterator[dict[str, Any]]:
    """Yield the rows of a query that ends with `WHERE`, by pages, in the order of their times."""
    at: tuple[object, object] = (-1, "")
    while True:
        cursor = database.execute(
            f"{query} (time_created, id) > (?, ?) ORDER BY time_created, id LIMIT {PAGE}", (*given, *at)
        )
        names = [column[0] for column in cursor.description]
        page = [dict(zip(names, map(_sound, names, row), strict=True)) for row in cursor.fetchall()]
        yield from page
        if len(page) < PAGE:
            return
        at = (page[-1]["time_created"], page[-1]["id"])


def _sound(name: str, value: object) -> object:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) and name != "data" else value


def _messages(database: sqlite3.Connection, session: str, report: Report) -> Iterator[Any]:
    for number, row in enumerate(
        _rows(database, "SELECT * FROM message WHERE session_id = ? AND", (session,)), start=1
    ):
        info = _data(row, number, report)
        if info is None:
            continue
        parts: list[Any] = []
        for part, data in database.execute(
            "SELECT id, data FROM part WHERE message_id = ? ORDER BY id", (row["id"],)
        ).fetchall():
            found = _data({"data": data}, number, report)
            if found is not None:
                parts.append({**found, "id": _sound("id", part), "sessionID": session, "messageID": row["id"]})
        yield {"info": {**info, "id": row["id"], "sessionID": session}, "parts": parts}


def _data(row: dict[str, Any], number: int, report: Report) -> dict[str, Any] | None:
    """Return the JSON object in a row; a damaged one is reported."""
    data = row["data"]
    try:
        value, _ = parse(data if isinstance(data, bytes) else str(data).encode("utf-8", "surrogatepass"))
    except DamagedLineError as error:
        report.skip(1, f"message {number}: {error}")
        return None
    if not is_object(value):
        report.skip(1, f"message {number}: not an object")
        return None
    return value


def _info(row: dict[str, Any]) -> dict[str, Any]:
    """Return a session's info as its export has it."""
    info: dict[str, Any] = {"id": row["id"]}
    for column, value in row.items():
        if value is None or column == "id":
            continue
        prefix = next((prefix for prefix in _GROUPS if column.startswith(prefix)), "")
        found = _json(value) if column in _VALUES or column == "summary_diffs" else value
        if prefix:
            info.setdefault(_GROUPS[prefix], {})[column.removeprefix(prefix)] = found
        elif column in _NAMES:
            info[_NAMES[column]] = value
        elif column in _VALUES:
            info[column] = found
        elif column.startswith("tokens_cache_"):
            info.setdefault("tokens", {}).setdefault("cache", {})[column.removeprefix("tokens_cache_")] = value
        elif column.startswith("tokens_"):
            info.setdefault("tokens", {})[column.removeprefix("tokens_")] = value
    return info


def _json(value: object) -> Any:
    try:
        return parse(value.encode())[0] if isinstance(value, str) else value
    except (DamagedLineError, UnicodeEncodeError):
        return value


class OpenCodeStorage:
    """The importer."""

    name = "opencode_storage"

    def detect(self, start: bytes, path: str) -> bool:
        """Whether the file is a session's, in a folder `session/PROJECT`."""
        return b'"ses_' in start and b'"id"' in start and Path(os.path.abspath(path)).parents[1].name == "session"  # noqa: PTH100

    def read(self, file: BinaryIO, path: str, report: Report) -> Iterator[ImportBatch]:
        """Yield the session's events."""
        name = Path(_path_of(file, path))
        info, root = _object(name, report), name.parents[2]
        session = text_of((info or {}).get("id"))
        if info is None or not _is_name(session):
            raise ImportFormatError(f"{path}: no session of OpenCode: it has no id")
        yield from whole_session(info, _stored_messages(root, session, report), report)


def _stored_messages(root: Path, session: str, report: Report) -> Iterator[Any]:
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
